"""Advice of errors about the past of a lake: its snapshots, the restore of them, backups of its catalog, its upkeep."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets import connect
from lake_assets.base.errors import CatalogError
from lake_assets.base.events import ended_by
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.catalog.backup import BACKUPS, Backup, RestoredCatalog, backups, make_backup, restore_backup
from lake_assets.upkeep.history.restore import Restoration, Restored
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets.upkeep.maintenance.rebuild import rebuild
from lake_assets_tests.advice.cases import Case, Cases, Steps, command, follow
from lake_assets_tests.world import NW, SW, World, sales

case = Cases()


def snapshot(world: World, *totals: float) -> int:
    """Land NW again with these totals, and ingest it; returns its snapshot."""
    number = world.commit(NW, *totals).snapshot_id
    assert number is not None
    return number


def back(world: World, number: int) -> Restored:
    return Restoration(world.stream, world.partition(NW), number).run()


def restored(world: World, backup: Backup) -> RestoredCatalog:
    world._opened = None
    lost = restore_backup(world.config.lakes["test"], backup, replace=True)
    return RestoredCatalog("test", backup, *lost)


# Partitions in Python.


@case
def a_partition_is_named_once(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    name = local_world.stream.partition
    yield partial(name, NW, region="NW"), "give a text or mapping | its values by column"
    values = {"region": "NW", "date": "2026-02-11"}
    for partition in (name(NW), name(values), name(**values)):
        assert partition.read().num_rows == 1
    return None


@case
def a_partition_of_another_stream_is_one_of_this_stream(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    other = World.in_folder(Path(local_world.source["path"]), local_world.sessions, partitions={"region": {}})
    yield partial(local_world.stream.partition, other.partition("region=NW")), "name a partition of"
    assert local_world.stream.partition(local_world.partition(NW)).read().num_rows == 1
    return None


@case
def one_partition_has_a_value_for_each_column(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    stream = local_world.stream
    yield partial(stream.partition, "region=NW"), "write one value for each column, "
    assert stream.partition("region=NW,date=2026-02-11").ingest(spark=local_world.sessions()).row.row_count == 1
    yield partial(stream.partition, "region=NW|SW"), "; `ingest` and `plan` of the stream take several"
    assert len(stream.plan("region=NW|SW").partitions) == 2
    stream.ingest("region=NW|SW", spark=local_world.sessions())
    return [1, 2]


# Snapshots.


@case
def a_table_without_a_commit_gets_one(local_world: World) -> Steps:
    local_world.options = {"destination": {"table": "other"}}
    local_world.commit(SW, 5)
    local_world.options = {}
    local_world.land(NW, sales(1))
    yield local_world.stream.history, "ingest a partition of"
    yield partial(back, local_world, 1), "ingest a partition of"
    local_world.ingest(NW)
    assert local_world.stream.history()[0].rows == 1
    return None


@case
def a_snapshot_before_a_column_was_renamed_is_not_restored(local_world: World) -> Steps:
    first = snapshot(local_world, 1)
    local_world.execute("ALTER TABLE lake.sales RENAME COLUMN region TO area")
    local_world.options = {"partitions": {"area": {}, "date": {"type": "date", "start": "2026-01-01"}}}
    area = "area=NW,date=2026-02-11"
    local_world.commit(area, 2)

    def earlier(number: int) -> None:
        Restoration(local_world.stream, local_world.partition(area), number).run()

    yield partial(earlier, first), "choose a later snapshot"
    earlier(first + 1)
    assert local_world.query("SELECT total FROM lake.sales") == [(1.0,)]
    return None


@case
def values_of_a_column_of_then_are_read_by_a_query(local_world: World) -> Steps:
    first = snapshot(local_world, 1)
    local_world.execute("ALTER TABLE lake.sales DROP COLUMN total", "ALTER TABLE lake.sales ADD COLUMN total DOUBLE")
    yield partial(back, local_world, first), "read them with a query of"
    with connect(local_world.config) as connection:
        then = f"SELECT total FROM main.sales AT (VERSION => {first})"
        assert connection.execute(then).fetchall() == [(1.0,)]
    return None


@case
def a_snapshot_whose_file_is_gone_is_another_one(local_world: World) -> Steps:
    first = snapshot(local_world, 1)
    (file,) = local_world.live_files()
    second = snapshot(local_world, 2)
    snapshot(local_world, 3)
    Path(file).unlink()
    yield partial(back, local_world, first), "choose another snapshot"
    back(local_world, second)
    return [2]


@case
def a_registered_object_is_ingested_in_place_of_a_restore(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    first = snapshot(local_world, 1)
    local_world.options = {}
    snapshot(local_world, 2)
    yield partial(back, local_world, first), "Ingest the partition again instead"
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    return [1]


@case
def a_registered_object_is_restored_in_place(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    first = snapshot(local_world, 1)
    file = Path(local_world.landing.uri("region=NW/date=2026-02-11/batch_1.parquet"))
    content, times = file.read_bytes(), file.stat()
    local_world.land(NW, sales(2, 3))
    yield partial(back, local_world, first), "restore these with their times"
    assert str(file) in command(local_world, "index", "sales", "--check", code=1)
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    command(local_world, "index", "sales", "--check")
    return [1]


@case
def a_file_that_was_copied_in_part_is_copied_again(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    first = snapshot(local_world, 1)
    snapshot(local_world, 2)

    def in_part(_source: object, _original: object, copy: Path, **_: object) -> None:
        copy.write_bytes(b"x")

    with monkeypatch.context() as full:
        full.setattr("lake_assets.storage.folder._copy_file", in_part)
        yield partial(back, local_world, first), "store.py: run it again"
    back(local_world, first)
    return [1]


# Backups of the catalog.


@case
def a_backup_of_another_catalog_is_one_of_its_type(local_world: World, tmp_path: Path) -> Steps:
    first, second = local_world.catalog, {"type": "duckdb", "path": str(tmp_path / "catalog.duckdb")}
    local_world.commit(NW, 1)
    of_first = make_backup(local_world.config.lakes["test"])
    local_world.catalog = second
    local_world.commit(NW, 2)
    of_second = make_backup(local_world.config.lakes["test"])
    yield partial(restored, local_world, of_first), "choose another backup"
    restored(local_world, of_second)
    assert local_world.totals() == [2]
    yield partial(restored, local_world, of_first), "give `catalog` the type "
    local_world.catalog = first
    restored(local_world, of_first)
    return [1]


@case
def the_backup_of_an_encrypted_catalog_lies_elsewhere(local_world: World, tmp_path: Path) -> Steps:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.commit(NW, 1)
    yield partial(make_backup, local_world.config.lakes["test"]), "give a folder elsewhere with --to"
    command(local_world, "catalog", "backup", "--to", str(tmp_path / "safe"))
    command(local_world, "catalog", "restore", "--replace", "--to", str(tmp_path / "safe"))
    return [1]


@case
def a_catalog_is_replaced_by_its_backup(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    lake = local_world.config.lakes["test"]
    backup = make_backup(lake)
    local_world.commit(NW, 2)
    yield partial(restore_backup, lake, backup), "--replace moves it aside, and makes the catalog that of the"
    command(local_world, "catalog", "restore", "--replace")
    return [1]


@case
def a_damaged_backup_is_another_one(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    lake = local_world.config.lakes["test"]
    make_backup(lake)
    local_world.commit(NW, 2)
    damaged = make_backup(lake)
    Path(local_world.storage["path"], BACKUPS, f"{damaged.name}.duckdb").write_bytes(b"x")
    again = partial(restore_backup, lake, replace=True)
    yield partial(again, damaged), "Choose another backup"
    again(backups(lake)[1])
    return [1]


# What maintenance and a restored catalog need.


def compacted(world: World, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Compact the table, and raise why a partition was left; something happens before each one."""
    with ended_by(meanwhile):
        results = compact(world.stream, 2, world.sessions)
    for result in results:
        if result.why is not None:
            raise CatalogError("left:", result.why)


@case
def a_data_file_with_other_rows_is_written_again(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    local_world.execute("INSERT INTO lake.sales VALUES (0, 2, 'NW', '2026-02-11')")
    for file in local_world.live_files():
        pq.write_table(sales(1, 2, 3), file)
    yield partial(compacted, local_world), "Ingest the partition again with --force"
    local_world.ingest(NW, force=True)
    compacted(local_world)
    return [1]


def adopted(world: World) -> None:
    """Adopt the files that the catalog lacks, and raise why those of a partition are not."""
    for lost in rebuild(world.stream, IngestOptions(), adopt=True):
        if lost.error is not None:
            raise CatalogError("not adopted:", lost.error)


@case
def files_of_other_columns_are_adopted_by_a_table_that_has_these(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    make_backup(local_world.config.lakes["test"])
    local_world.execute("ALTER TABLE lake.sales ADD COLUMN note VARCHAR")
    local_world.land(SW, sales(2).append_column("note", pa.array(["a"])))
    local_world.ingest(SW)
    local_world.unland(SW)
    command(local_world, "catalog", "restore", "--replace")
    yield partial(adopted, local_world), "alter the table as it was when the file was written"
    local_world.execute("ALTER TABLE lake.sales ADD COLUMN note VARCHAR")
    adopted(local_world)
    return [1, 2]


@case
def rows_that_no_file_name_describes_are_ingested(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    make_backup(local_world.config.lakes["test"])
    local_world.commit(NW, 2, name="b.parquet")
    command(local_world, "catalog", "restore", "--replace")
    yield partial(adopted, local_world), ", which reads what is still in the landing zone"
    command(local_world, "ingest", "sales", "--waiting")
    return [1, 2]


@pytest.mark.parametrize("steps", case)
def test_advice_that_is_followed_leads_to_the_rows_of_then(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
