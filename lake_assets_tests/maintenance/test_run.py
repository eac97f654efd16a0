"""Maintenance of a lake: the files that are deleted, and the files that remain."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lake_assets.checks.result import Scope
from lake_assets.checks.run import checks_of, run_check
from lake_assets.config.models import LakeConfig
from lake_assets.lake.session import TableName
from lake_assets.maintenance.cleaning import expire_snapshots
from lake_assets.maintenance.run import Maintained, maintain, roots_of
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, SW, World, sales

DAY = dt.timedelta(days=1)


def tidy(world: World, days: float = 0, **options: Any) -> Maintained:
    """Maintenance after so many days."""
    return maintain(world.config, "test", world.sessions, now=dt.datetime.now(dt.UTC) + days * DAY, **options)


def newest_snapshot(world: World) -> int:
    ((snapshot,),) = world.query("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    return int(snapshot)


def orphan(world: World, key: str) -> str:
    """A data file that no snapshot names, as a killed run leaves it."""
    store = ArrowStore(world.config.lakes["test"].own_storage)
    with store.create(key) as file:
        file.write(b"whatever")
    return store.uri(key)


def test_expired_files_are_deleted_and_the_others_are_unchanged(world: World) -> None:
    for total in (1, 2, 3):
        world.land(NW, sales(total))
        world.ingest(NW)
    world.land(SW, sales(10))
    world.ingest(SW)
    lost = orphan(world, "main/sales/region=NW/date=2026-02-11/lost.parquet")
    ledger = world.ledger()
    files = world.data_files()

    fresh = tidy(world)
    assert (fresh.expired, fresh.cleaned.deleted, fresh.orphans) == ((), (), ())
    assert world.data_files() == files

    newest = newest_snapshot(world)
    first = tidy(world, 6)  # nothing is a week old; the orphan is older than three days
    assert [orphan.uri for orphan in first.orphans] == [lost]
    assert first.expired == ()
    second = tidy(world, 8)
    assert second.expired == tuple(range(newest))
    third = tidy(world, 10)

    deleted = {*second.cleaned.deleted, *third.cleaned.deleted}
    assert len(deleted) == 2  # the data files of the two versions that were replaced
    assert second.bytes_deleted + third.bytes_deleted > 0
    assert len(world.data_files()) == len(files) - 3
    assert world.totals() == [3, 10]
    assert world.ledger() == ledger
    assert world.ingest(NW).row.status == "skipped"
    world.land(NW, sales(4))
    assert world.ingest(NW).row.rows_before == 1
    assert world.totals() == [4, 10]
    again = tidy(world, 10)
    assert again.orphans == ()


def test_a_dry_run_has_the_same_result_and_changes_nothing(local_world: World) -> None:
    for total in (1, 2):
        local_world.land(NW, sales(total))
        local_world.ingest(NW)
    lost = orphan(local_world, "main/sales/region=NW/date=2026-02-11/lost.parquet")
    files, newest = local_world.data_files(), newest_snapshot(local_world)

    dry = tidy(local_world, 8, dry_run=True)

    assert dry.expired == tuple(range(newest))
    assert [orphan.uri for orphan in dry.orphans] == [lost]
    assert local_world.data_files() == files
    assert len(local_world.query("FROM ducklake_snapshots('lake')")) == newest + 1
    assert tidy(local_world, 8).expired == dry.expired


def test_time_travel_works_for_the_configured_days(local_world: World) -> None:
    for total in (1, 2, 3):
        local_world.land(NW, sales(total))
        local_world.ingest(NW)
    oldest, middle, newest = sorted(row.snapshot_id or 0 for row in local_world.ledger())
    ((expires,),) = local_world.query(
        "SELECT snapshot_time FROM ducklake_snapshots('lake') WHERE snapshot_id = ?", middle
    )

    # A moment at which the first version is older than the limit, and the second is not.
    done = maintain(
        local_world.config, "test", local_world.sessions, now=expires + 7 * DAY - dt.timedelta(milliseconds=1)
    )

    assert oldest in done.expired
    assert middle not in done.expired
    assert len(done.cleaned.deleted) == 1  # of the first version
    for snapshot, total in ((middle, 2), (newest, 3)):
        assert local_world.query(f"SELECT total FROM lake.sales AT (VERSION => {snapshot})") == [(total,)]


def test_no_snapshot_expires_before_an_earlier_one(local_world: World) -> None:
    for total in (1, 2, 3):
        local_world.land(NW, sales(total))
        local_world.ingest(NW)
    oldest, middle, _ = sorted(row.snapshot_id or 0 for row in local_world.ledger())
    # The clock of this commit's writer was ahead by a month.
    with local_world.stream.lake.open() as lake:
        lake.rows(
            "UPDATE __ducklake_metadata_lake.ducklake_snapshot SET snapshot_time = ? WHERE snapshot_id = ?",
            [(dt.datetime.now(dt.UTC) + 30 * DAY).isoformat(sep=" "), oldest],
        )
    local_world.land(SW, sales(10))
    local_world.ingest(SW)

    assert tidy(local_world, 8).expired == tuple(range(oldest))
    assert run_check(local_world.stream, "ledger", Scope()).passed
    assert tidy(local_world, 40).expired[:2] == (oldest, middle)


def test_a_young_file_that_no_snapshot_names_is_kept(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    lost = orphan(local_world, "main/sales/region=NW/date=2026-02-11/lost.parquet")

    assert tidy(local_world, 2.9).orphans == ()
    assert Path(lost).exists()
    assert [orphan.uri for orphan in tidy(local_world, 3.1).orphans] == [lost]
    assert not Path(lost).exists()


def test_orphans_of_a_table_whose_name_begins_as_a_hidden_one_are_deleted(local_world: World) -> None:
    local_world.options = {"destination": {"schema": "_raw", "table": "_sales"}}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    lost = orphan(local_world, "_raw/_sales/region=NW/date=2026-02-11/lost.parquet")

    assert [orphan.uri for orphan in tidy(local_world, 3.1).orphans] == [lost]
    assert not Path(lost).exists()
    assert local_world.query("SELECT count(*) FROM lake._raw._sales") == [(1,)]


def test_files_outside_the_lakes_tables_are_no_orphans(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    others = [orphan(local_world, key) for key in ("x.parquet", "other/x.parquet", "main/other/x.parquet")]
    note = orphan(local_world, "main/sales/note.txt")

    assert tidy(local_world, 100).orphans == ()
    assert all(Path(uri).exists() for uri in [*others, note])


def register(world: World, uri: str) -> None:
    """Register a landed object, as `mode: index` or any other client does."""
    with world.stream.lake.open() as lake:
        lake.rows(
            "CALL ducklake_add_data_files('lake', 'sales', ?, hive_partitioning => true, allow_missing => true)", [uri]
        )


def drop_rows(world: World) -> None:
    with world.stream.lake.open() as lake:
        lake.rows("DELETE FROM lake.sales")


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "s3")], indirect=True, ids="-".join)
def test_a_registered_landed_object_is_never_deleted(world: World) -> None:
    if world.storage["type"] == "s3":  # DuckDB's secret is for the lake's bucket
        world.source = world.storage | {"prefix": "landing"}
    world.land(SW, sales(5))
    world.ingest(SW)
    landed = world.land(NW, sales(1, 2))
    register(world, landed)
    assert world.totals() == [1, 2, 5]
    drop_rows(world)

    done = tidy(world, 8)

    assert done.expired
    assert done.cleaned.kept == (landed,)
    assert len(done.cleaned.deleted) == 1
    remaining = Store(world.config.streams["sales"].source).list(files="*.parquet")
    assert landed in {file.uri for file in remaining}
    assert len(remaining) == 2
    # Nor will any other client's clean-up: the catalog has forgotten it.
    with world.stream.lake.open() as lake:
        lake.rows("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    assert landed in {stored.uri for stored in Store(world.config.streams["sales"].source).list(files="*.parquet")}


def test_a_landing_zone_inside_the_lakes_folder_is_safe(local_world: World) -> None:
    inside = Path(local_world.storage["path"]) / "main" / "sales" / "landing"
    local_world.source = {"type": "local", "path": str(inside)}
    landed = local_world.land(NW, sales(1))
    local_world.ingest(NW)

    assert tidy(local_world, 100).orphans == ()
    assert Path(landed).exists()


def test_a_file_that_a_snapshot_names_again_is_not_deleted(local_world: World) -> None:
    local_world.land(SW, sales(5))
    local_world.ingest(SW)
    (row,) = local_world.query("SELECT data_file FROM ducklake_list_files('lake', 'sales')")
    local_world.land(SW, sales(6))
    local_world.ingest(SW)
    with local_world.stream.lake.open() as lake:
        expire_snapshots(lake, dt.datetime.now(dt.UTC))
        ((scheduled,),) = lake.rows(
            "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_files_scheduled_for_deletion"
        )
        lake.rows("CALL ducklake_add_data_files('lake', 'sales', ?, hive_partitioning => true)", [row[0]])
    assert scheduled == 1

    cleaned = tidy(local_world, 10).cleaned

    assert cleaned.deleted == ()
    assert cleaned.kept == (row[0],)
    assert local_world.totals() == [5, 6]


def test_a_file_in_no_storage_of_the_config_remains_scheduled(local_world: World, tmp_path: Path) -> None:
    local_world.land(SW, sales(5))
    local_world.ingest(SW)
    elsewhere = tmp_path / "elsewhere" / "region=NW" / "date=2026-02-11"
    elsewhere.mkdir(parents=True)
    landed = Path(local_world.land(NW, sales(1)))
    (elsewhere / "x.parquet").write_bytes(landed.read_bytes())
    register(local_world, str(elsewhere / "x.parquet"))
    drop_rows(local_world)
    tidy(local_world, 8)

    for _ in range(2):
        assert tidy(local_world, 10).cleaned.unreachable == (str(elsewhere / "x.parquet"),)
    assert (elsewhere / "x.parquet").exists()


def test_files_of_another_lake_are_no_orphans(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    other = {
        "catalog": {"type": "sqlite", "path": local_world.catalog["path"] + ".2"},
        "storage": {"type": "local", "path": local_world.storage["path"] + "/main/sales"},
    }
    foreign = orphan(local_world, "main/sales/main/t/x.parquet")
    data = local_world.config.model_dump(by_alias=True)
    data["lakes"]["other"] = other
    data["streams"]["sales"]["lake"] = "test"
    config = LakeConfig.model_validate(data)

    done = maintain(config, "test", local_world.sessions, now=dt.datetime.now(dt.UTC) + 100 * DAY)

    assert done.orphans == ()
    assert Path(foreign).exists()


def test_the_deepest_root_decides_the_owner_of_a_file(local_world: World) -> None:
    roots = roots_of(local_world.config, "test")
    lake, source = local_world.storage["path"], local_world.source["path"]

    assert roots.is_protected(f"{source}/x.parquet")
    assert not roots.is_protected(f"{lake}/x.parquet")
    assert not roots.is_protected(f"{source}_2/x.parquet")
    local_world.source["path"] = lake
    assert roots_of(local_world.config, "test").is_protected(f"{lake}/x.parquet")
    local_world.source["path"] = str(Path(lake).parent)
    assert not roots_of(local_world.config, "test").is_protected(f"{lake}/x.parquet")


@pytest.mark.parametrize("owns_source", [False, True])
def test_indexed_objects_are_deleted_only_where_the_lake_owns_its_source(local_world: World, owns_source: bool) -> None:
    local_world.options = {"mode": "index", "owns_source": owns_source}
    uri = Path(local_world.land(NW, sales(1, 2)))
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("DELETE FROM lake.sales")

    cleaned = tidy(local_world, 30).cleaned  # the snapshots of before have expired, and nobody needs the file

    assert local_world.totals() == []
    assert uri.exists() is not owns_source
    assert (cleaned.deleted, cleaned.kept) == (((), (str(uri),)) if not owns_source else ((str(uri),), ()))


def test_files_of_a_renamed_or_dropped_table_are_known(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("ALTER TABLE lake.sales RENAME TO renamed")
        lake.rows("CREATE TABLE lake.dropped AS SELECT range AS n FROM range(2000)")
        lake.rows("DROP TABLE lake.dropped")
        assert not lake.exists(TableName("main", "sales"))
    files = local_world.data_files()

    assert tidy(local_world, 6).orphans == ()
    assert local_world.data_files() == files
    assert local_world.query("SELECT total FROM lake.renamed") == [(1,)]


@pytest.mark.parametrize("world", [("duckdb", "local"), ("postgres", "local")], indirect=True, ids="-".join)
def test_of_two_lakes_in_one_catalog_each_keeps_its_own_files(world: World, tmp_path: Path) -> None:
    other = replace(
        world,
        storage={"type": "local", "path": str(tmp_path / "other")},
        lake_options={"attach_options": {"metadata_schema": "other"}},
    )
    for one, rows in ((world, 1), (other, 2)):
        for _ in range(2):
            one.land(NW, sales(rows))
            one.ingest(NW, force=True)
    lost = orphan(other, "main/sales/region=NW/date=2026-02-11/lost.parquet")

    done = tidy(other, 60)

    assert [orphan.uri for orphan in done.orphans] == [lost]
    assert (world.totals(), other.totals()) == ([1], [2])
    assert all(run_check(other.stream, name, Scope()).passed for name in checks_of(other.stream))
    assert tidy(world, 60).orphans == ()
    assert (world.totals(), other.totals()) == ([1], [2])


def set_bounds(world: World, column: str, least: str | None, greatest: str | None, *, of_a_file: bool = False) -> None:
    """The bounds of a column as an earlier version wrote them, of the table or of its first file."""
    catalog = "__ducklake_metadata_lake.ducklake_"
    table = f"(SELECT table_id FROM {catalog}table WHERE table_name = 'sales')"
    condition = f"column_id IN (SELECT column_id FROM {catalog}column WHERE column_name = '{column}')"
    condition += f" AND table_id IN {table}"
    if of_a_file:
        condition += f" AND data_file_id = (SELECT min(data_file_id) FROM {catalog}data_file WHERE table_id IN {table})"
    statistics = f"{catalog}{'file' if of_a_file else 'table'}_column_stats"
    with world.stream.lake.open() as lake:
        lake.rows(f"UPDATE {statistics} SET min_value = ?, max_value = ? WHERE {condition}", [least, greatest])


def ends(world: World) -> list[tuple[object, ...]]:
    """The least and greatest values as the catalog alone answers them: the query has nothing else."""
    return world.query("SELECT min(id), max(id), min(date)::VARCHAR, max(date)::VARCHAR FROM lake.sales")


def data_files_check(world: World) -> tuple[bool, list[str]]:
    result = run_check(world.stream, "data_files", Scope())
    return result.passed, list(result.named)


def test_bounds_that_earlier_versions_wrote_are_corrected(world: World) -> None:
    world.land(NW, sales(1, 2))
    world.land(SW, sales(3, 4, 5))
    world.ingest(NW)
    world.ingest(SW)
    right = [(0, 2, "2026-02-11", "2026-02-11")]
    assert (ends(world), data_files_check(world)) == (right, (True, []))
    set_bounds(world, "id", "-9223372036854775808", "9223372036854775807")
    set_bounds(world, "id", None, None, of_a_file=True)
    set_bounds(world, "date", "-infinity", "infinity")
    assert ends(world) == [(-(2**63), 2**63 - 1, "-infinity", "infinity")]
    assert data_files_check(world) == (False, ["date", "id"])

    columns = ("main.sales: id", "main.sales: date")
    assert tidy(world, dry_run=True).corrected == columns
    assert data_files_check(world) == (False, ["date", "id"])
    assert tidy(world).corrected == columns

    assert (ends(world), data_files_check(world)) == (right, (True, []))
    assert tidy(world).corrected == ()
    # A file has ended now, and so the catalog alone does not show which bounds are too wide; too narrow ones it does.
    world.land(SW, sales(3, 4, 5, 6))
    world.ingest(SW)
    set_bounds(world, "id", "7", "9")
    assert world.query("SELECT count(*) FROM lake.sales WHERE id < 5") == [(0,)]
    assert tidy(world).corrected == columns[:1]
    assert world.query("SELECT count(*) FROM lake.sales WHERE id < 5") == [(6,)]
