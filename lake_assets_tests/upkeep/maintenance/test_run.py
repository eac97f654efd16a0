"""Maintenance of a lake: the files that are deleted, and the files that remain."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.lake.commit import strategy
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.session import TableName
from lake_assets.storage.store import Store
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.cleaning import expire_snapshots
from lake_assets.upkeep.maintenance.maintenance_run import maintain, roots_of
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, maintained_at, sales

DAY = dt.timedelta(days=1)


def newest_snapshot(world: World) -> int:
    ((snapshot,),) = world.query("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    return int(snapshot)


def orphan(world: World, key: str) -> str:
    """A data file that no snapshot names, as a killed run leaves it."""
    store = Store(world.config.lakes["test"].own_storage)
    with store.create(key) as file:
        file.write(b"whatever")
    return store.uri(key)


def test_expired_files_are_deleted_as_a_dry_run_says_and_the_others_are_unchanged(world: World) -> None:
    for total in (1, 2, 3):
        world.commit(NW, total)
    world.commit(SW, 10)
    lost_key = "main/sales/region=NW/date=2026-02-11/lost.parquet"
    lost = orphan(world, lost_key)
    ledger = world.ledger()
    files = world.data_files()

    fresh = world.tidy(2.9)
    assert (fresh.expired, fresh.cleaned.deleted, fresh.orphans) == ((), (), ())
    assert world.data_files() == files

    newest = newest_snapshot(world)
    dry = world.tidy(3.1, dry_run=True)
    first = world.tidy(3.1)  # nothing is a week old; the orphan is older than three days
    assert [orphan.uri for orphan in dry.orphans] == [orphan.uri for orphan in first.orphans] == [lost]
    assert first.expired == ()
    dry = world.tidy(8, dry_run=True)
    assert world.data_files() == files - {lost_key}
    assert len(world.query("FROM ducklake_snapshots('lake')")) == newest + 1
    second = world.tidy(8)
    assert dry.expired == second.expired == tuple(range(newest))
    third = world.tidy(10)

    deleted = {*second.cleaned.deleted, *third.cleaned.deleted}
    assert len(deleted) == 2  # the data files of the two versions that were replaced
    assert second.bytes_deleted + third.bytes_deleted > 0
    assert len(world.data_files()) == len(files) - 3
    assert world.totals() == [3, 10]
    assert world.ledger() == ledger
    assert world.ingest(NW).row.status == "skipped"
    assert world.commit(NW, 4).rows_before == 1
    assert world.totals() == [4, 10]
    assert world.tidy(10).orphans == ()


def test_time_travel_works_for_the_configured_days(local_world: World) -> None:
    for total in (1, 2, 3):
        local_world.commit(NW, total)
    oldest, middle, newest = sorted(row.snapshot_id or 0 for row in local_world.ledger())
    ((expires,),) = local_world.query(
        "SELECT snapshot_time FROM ducklake_snapshots('lake') WHERE snapshot_id = ?", middle
    )

    # A moment at which the first version is older than the limit, and the second is not.
    before = expires + 7 * DAY - dt.timedelta(milliseconds=1)
    with maintained_at(before):
        done = maintain(local_world.config, "test", local_world.sessions)

    assert oldest in done.expired
    assert middle not in done.expired
    assert len(done.cleaned.deleted) == 1  # of the first version
    for snapshot, total in ((middle, 2), (newest, 3)):
        assert local_world.query(f"SELECT total FROM lake.sales AT (VERSION => {snapshot})") == [(total,)]


def test_no_snapshot_expires_before_an_earlier_one(local_world: World) -> None:
    for total in (1, 2, 3):
        local_world.commit(NW, total)
    oldest, middle, _ = sorted(row.snapshot_id or 0 for row in local_world.ledger())
    # The clock of this commit's writer was ahead by a month.
    with local_world.stream.lake.open() as lake:
        lake.rows(
            "UPDATE __ducklake_metadata_lake.ducklake_snapshot SET snapshot_time = ? WHERE snapshot_id = ?",
            [(dt.datetime.now(dt.UTC) + 30 * DAY).isoformat(sep=" "), oldest],
        )
    local_world.commit(SW, 10)

    assert local_world.tidy(8).expired == tuple(range(oldest))
    assert run_check(local_world.stream, "ledger", Scope()).passed
    assert local_world.tidy(40).expired[:2] == (oldest, middle)


def test_orphans_of_a_table_whose_name_begins_as_a_hidden_one_are_deleted(local_world: World) -> None:
    local_world.options = {"destination": {"schema": "_raw", "table": "_sales"}}
    local_world.commit(NW, 1)
    lost = orphan(local_world, "_raw/_sales/region=NW/date=2026-02-11/lost.parquet")

    assert [orphan.uri for orphan in local_world.tidy(3.1).orphans] == [lost]
    assert not Path(lost).exists()
    assert local_world.query("SELECT count(*) FROM lake._raw._sales") == [(1,)]


def test_files_that_belong_to_no_table_of_the_lake_are_no_orphans(local_world: World) -> None:
    inside = Path(local_world.storage["path"]) / "main" / "sales"
    local_world.source = {"type": "local", "path": str(inside / "landing")}
    landed = local_world.land(NW, sales(1))
    local_world.ingest(NW)
    keys = (
        "x.parquet",
        "other/x.parquet",
        "main/other/x.parquet",
        "main/sales/note.txt",
        "main/sales/main/t/x.parquet",
    )
    others = [orphan(local_world, key) for key in keys]
    data = local_world.config.model_dump(by_alias=True)
    catalog = {"type": "sqlite", "path": f"{local_world.catalog['path']}.2"}
    data["lakes"]["other"] = {"catalog": catalog, "storage": {"type": "local", "path": str(inside)}}
    data["streams"]["sales"]["lake"] = "test"

    with maintained_at(dt.datetime.now(dt.UTC) + 100 * DAY):
        done = maintain(LakeConfig.model_validate(data), "test", local_world.sessions)

    assert done.orphans == ()
    assert all(Path(uri).exists() for uri in [landed, *others])


def register(world: World, uri: str) -> None:
    """Register a landed object, as `mode: index` or any other client does."""
    world.execute(f"CALL ducklake_add_data_files('lake', 'sales', '{uri}', hive_partitioning => true)")


@pytest.mark.parametrize("world", [("sqlite", "local"), *more([(("postgres", "s3"),)])], indirect=True)
def test_a_registered_landed_object_is_never_deleted(world: World) -> None:
    if world.storage["type"] == "s3":  # DuckDB's secret is for the lake's bucket
        world.source = world.storage | {"prefix": "landing"}
    world.commit(SW, 5)
    landed = world.land(NW, sales(1, 2))
    register(world, landed)
    assert world.totals() == [1, 2, 5]
    world.execute("DELETE FROM lake.sales")

    done = world.tidy(8)

    assert done.expired
    assert done.cleaned.kept == (landed,)
    assert len(done.cleaned.deleted) == 1
    # Nor will any other client's clean-up delete it: the catalog has forgotten it.
    world.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    remaining = {stored.uri for stored in Store(world.config.streams["sales"].source).list(files="*.parquet")}
    assert landed in remaining
    assert len(remaining) == 2


def test_a_file_that_a_snapshot_names_again_is_not_deleted(local_world: World) -> None:
    local_world.commit(SW, 5)
    (uri,) = local_world.live_files()
    local_world.commit(SW, 6)
    with local_world.stream.lake.open() as lake:
        expire_snapshots(lake, dt.datetime.now(dt.UTC))
        ((scheduled,),) = lake.rows(
            "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_files_scheduled_for_deletion"
        )
    assert scheduled == 1
    register(local_world, uri)

    cleaned = local_world.tidy(10).cleaned

    assert cleaned.deleted == ()
    assert cleaned.kept == (uri,)
    assert local_world.totals() == [5, 6]


def test_a_file_in_no_storage_of_the_config_remains_scheduled(local_world: World, tmp_path: Path) -> None:
    local_world.commit(SW, 5)
    elsewhere = tmp_path / "elsewhere" / "region=NW" / "date=2026-02-11"
    elsewhere.mkdir(parents=True)
    landed = Path(local_world.land(NW, sales(1)))
    (elsewhere / "x.parquet").write_bytes(landed.read_bytes())
    register(local_world, str(elsewhere / "x.parquet"))
    local_world.execute("DELETE FROM lake.sales")
    local_world.tidy(8)

    for _ in range(2):
        assert local_world.tidy(10).cleaned.unreachable == (str(elsewhere / "x.parquet"),)
    assert (elsewhere / "x.parquet").exists()


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


def test_files_of_a_renamed_or_dropped_table_are_known(local_world: World) -> None:
    local_world.commit(NW, 1)
    with local_world.stream.lake.open() as lake:
        lake.rows("ALTER TABLE lake.sales RENAME TO renamed")
        lake.rows("CREATE TABLE lake.dropped AS SELECT range AS n FROM range(2000)")
        lake.rows("DROP TABLE lake.dropped")
        assert not lake.exists(TableName("main", "sales"))
    files = local_world.data_files()

    assert local_world.tidy(6).orphans == ()
    assert local_world.data_files() == files
    assert local_world.query("SELECT total FROM lake.renamed") == [(1,)]


@pytest.mark.more
@pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
def test_of_two_lakes_in_one_catalog_each_keeps_its_own_files(world: World, tmp_path: Path) -> None:
    storage = {"type": "local", "path": str(tmp_path / "other")}
    # In mixed case: a name that is not quoted would not be found.
    other = replace(world, storage=storage, lake_options={"attach_options": {"metadata_schema": "Shop"}})
    for one, rows in ((world, 1), (other, 2)):
        with mock.patch.object(strategy, "STRATEGIES", (replace_by_extension,)):
            one.commit(NW, rows)
        one.commit(NW, rows, force=True)
    lost = orphan(other, "main/sales/region=NW/date=2026-02-11/lost.parquet")

    done = other.tidy(60)

    assert [orphan.uri for orphan in done.orphans] == [lost]
    assert (world.totals(), other.totals()) == ([1], [2])
    assert all(run_check(other.stream, name, Scope()).passed for name in checks_of(other.stream))
    assert world.tidy(60).orphans == ()
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


@pytest.mark.more
def test_bounds_that_earlier_versions_wrote_are_corrected(local_world: World) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, sales(3, 4, 5))
    local_world.ingest(NW)
    local_world.ingest(SW)
    right = [(0, 2, "2026-02-11", "2026-02-11")]
    assert (ends(local_world), data_files_check(local_world)) == (right, (True, []))
    set_bounds(local_world, "id", "-9223372036854775808", "9223372036854775807")
    set_bounds(local_world, "id", None, None, of_a_file=True)
    set_bounds(local_world, "date", "-infinity", "infinity")
    assert ends(local_world) == [(-(2**63), 2**63 - 1, "-infinity", "infinity")]
    assert data_files_check(local_world) == (False, ["date", "id"])

    columns = ("main.sales: id", "main.sales: date")
    assert local_world.tidy(dry_run=True).corrected == columns
    assert data_files_check(local_world) == (False, ["date", "id"])
    assert local_world.tidy().corrected == columns

    assert (ends(local_world), data_files_check(local_world)) == (right, (True, []))
    assert local_world.tidy().corrected == ()
    # A file has ended now, and so the catalog alone does not show which bounds are too wide; too narrow ones it does.
    local_world.commit(SW, 3, 4, 5, 6)
    set_bounds(local_world, "id", "7", "9")
    assert local_world.query("SELECT count(*) FROM lake.sales WHERE id < 5") == [(0,)]
    assert local_world.tidy().corrected == columns[:1]
    assert local_world.query("SELECT count(*) FROM lake.sales WHERE id < 5") == [(6,)]
    set_bounds(local_world, "id", "1", "0", of_a_file=True)
    assert local_world.query("SELECT count(*) FROM lake.sales WHERE id = 0") == [(1,)]
    assert data_files_check(local_world) == (False, ["id"])
    assert local_world.tidy().corrected == columns[:1]
    assert local_world.query("SELECT count(*) FROM lake.sales WHERE id = 0") == [(2,)]
