"""A partition's rows of an earlier snapshot come back as a new one, and a hold keeps refreshes off them."""

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import CatalogError, PartitionError, StorageError
from lake_assets.storage.store import Store
from lake_assets.upkeep.history.restore import Restoration, Restored, release
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales


def back(world: World, snapshot: int | None, text: str = NW, *, hold: bool = False, dry_run: bool = False) -> Restored:
    assert snapshot is not None
    restoration = Restoration(world.stream, world.partition(text), snapshot, hold)
    return restoration.dry_run() if dry_run else restoration.run()


def ingested(world: World, *totals: float, text: str = NW) -> int:
    """Land the partition again with these totals and ingest it; returns the snapshot."""
    world.land(text, sales(*totals))
    snapshot = world.ingest(text).row.snapshot_id
    assert snapshot is not None
    return snapshot


def objects(world: World, run_id: str) -> list[tuple[Any, ...]]:
    """What the manifest has of the objects of a run."""
    return world.query("SELECT uri, etag, size, last_modified FROM lake.ingest_files WHERE run_id = ?", run_id)


@pytest.mark.journey
def test_the_rows_of_a_snapshot_come_back_as_a_new_one(world: World) -> None:
    first = ingested(world, 1, 2, 100)
    original = world.ledger(NW)[0]
    ingested(world, 7, text=SW)
    second = ingested(world, 4, 5)
    files, ledger = world.data_files(), world.ledger()

    dry = back(world, first, dry_run=True)
    assert (dry.rows, dry.rows_before, dry.files, dry.row) == (3, 2, 1, None)
    assert (world.data_files(), world.ledger()) == (files, ledger)
    restored = back(world, first)

    assert (world.totals(NW), world.totals(SW)) == ([1, 2, 100], [7])
    of_second = f"SELECT total FROM lake.sales AT (VERSION => {second}) WHERE region = 'NW' ORDER BY 1"
    assert world.query(of_second) == [(4.0,), (5.0,)]
    row = world.ledger(NW)[0]
    assert (row.mode, row.status, row.row_count, row.rows_before, row.files_copied) == ("restore", "committed", 3, 2, 1)
    assert row == restored.row
    assert row.snapshot_id == second + 1
    assert row.source_fingerprint == original.source_fingerprint
    assert objects(world, row.run_id) == objects(world, original.run_id) != []
    assert len(world.data_files() - files) == 1
    assert "has other objects than that snapshot" in restored.next
    assert world.query("SELECT count(*) FROM lake.sales WHERE total > 50") == [(1,)]
    assert world.query("SELECT sum(id) FROM lake.sales WHERE region = 'NW'") == [(3,)]
    assert plan(world.stream, world.partition(NW)).decision.action == "replace"
    assert back(world, second).next.startswith("The next refresh leaves it as it is")
    assert world.ingest(NW).row.status == "skipped"


def test_a_path_is_never_registered_twice_and_expiry_keeps_the_restored_rows(local_world: World) -> None:
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)
    back(local_world, first)

    with local_world.stream.lake.open() as lake:
        paths = lake.rows(f"SELECT path FROM {lake.metadata}.ducklake_data_file")
    assert len(paths) == len(set(paths))
    local_world.lake_options = {
        "maintenance": {"expire_older_than": 1e-6, "delete_older_than": 0, "orphans_older_than": 0.5}
    }
    for days in (1, 2):
        local_world.tidy(days)
    assert len(local_world.data_files()) == 1
    assert local_world.totals(NW) == [1, 2]


def test_rows_that_others_deleted_in_that_snapshot_stay_deleted(local_world: World) -> None:
    ingested(local_world, 1, 2, 3)
    with local_world.stream.lake.open() as lake:
        lake.rows(f"DELETE FROM {local_world.stream.table.sql} WHERE total = 2")
        deleted = lake.current_snapshot()
    ingested(local_world, 9)

    restored = back(local_world, deleted)

    assert local_world.totals(NW) == [1, 3]
    assert restored.files is None
    assert local_world.ledger(NW)[0].row_count == 2
    assert local_world.ledger(NW)[0].files_written == 1


def test_snapshots_that_cannot_be_restored(local_world: World) -> None:
    first = ingested(local_world, 1)
    ingested(local_world, 2, text=SW)
    with pytest.raises(PartitionError, match=f"was not there in snapshot {first}: `lake-assets history sales"):
        back(local_world, first, SW)
    with pytest.raises(CatalogError, match="there is no snapshot 999: the newest is"):
        back(local_world, 999)
    with pytest.raises(CatalogError, match=r"did not exist in snapshot 0; snapshot \d+ created it"):
        back(local_world, 0)
    local_world.execute(f"CALL ducklake_expire_snapshots('lake', versions => [{first}])")
    with pytest.raises(CatalogError, match=f"snapshot {first} has expired"):
        back(local_world, first)
    local_world.options = {"mode": "index"}
    with pytest.raises(PartitionError, match="registers landed files in place"):
        back(local_world, first)


@pytest.mark.parametrize("when", ["before", "while it is copied"])
def test_a_file_of_the_snapshot_that_is_gone_is_named_and_no_copy_is_left(
    local_world: World, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ingested(local_world, 1)
    (lost,) = local_world.data_files()
    ingested(local_world, 2)
    store = Store(local_world.config.lakes["test"].own_storage)
    files = local_world.data_files() - {lost}
    if when == "before":
        store.delete((lost,))
    else:
        copy = Store.copy

        def late(*args: Any, **options: Any) -> None:
            store.delete((lost,))
            copy(*args, **options)

        monkeypatch.setattr(Store, "copy", late)

    with pytest.raises(StorageError, match=rf"the data file .*{lost} of the snapshot is gone"):
        back(local_world, first)
    assert local_world.data_files() == files
    assert local_world.totals(NW) == [2]


@pytest.mark.more
def test_rows_of_then_get_the_columns_of_today(either_lake: World) -> None:
    either_lake.options = {"schema_policy": "evolve"}
    first = ingested(either_lake, 1, 2)
    either_lake.land(NW, sales(5).append_column("note", pa.array(["new"])))
    either_lake.ingest(NW)

    restored = back(either_lake, first)

    assert either_lake.query("SELECT total, note FROM lake.sales ORDER BY total") == [(1.0, None), (2.0, None)]
    assert list(restored.differences) == ["column note was added since"]
    assert either_lake.query("SELECT count(*) FROM lake.sales WHERE note IS NULL") == [(2,)]


def test_a_renamed_column_keeps_its_values_and_one_that_was_made_again_is_refused(local_world: World) -> None:
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)
    local_world.execute("ALTER TABLE lake.sales RENAME COLUMN total TO amount")

    restored = back(local_world, first)

    assert local_world.query("SELECT amount FROM lake.sales ORDER BY 1") == [(1.0,), (2.0,)]
    assert list(restored.differences) == ["column total is amount now"]
    local_world.execute("ALTER TABLE lake.sales DROP COLUMN amount", "ALTER TABLE lake.sales ADD COLUMN total DOUBLE")
    with pytest.raises(CatalogError, match=r"column total of main\.sales was dropped and added again after"):
        back(local_world, first)


@pytest.mark.parametrize("lake", ["files", *more(["encrypted", "deleted"])])
def test_rows_from_before_a_column_got_its_type_come_back(local_world: World, lake: str) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": lake == "encrypted"}}
    columns = {"note": pa.nulls(1), "s": pa.array([{"a": None}], pa.struct([("a", pa.null())]))}
    local_world.land(NW, pa.table({"total": [1.0], **columns}))
    first = local_world.ingest(NW).row.snapshot_id
    local_world.land(NW, pa.table({"total": [2.0], "note": ["x"], "s": [{"a": "y"}]}))
    local_world.ingest(NW)
    if lake == "deleted":
        local_world.execute("DELETE FROM lake.sales")  # so DuckLake reads and writes the rows

    restored = back(local_world, first)

    assert local_world.query("SELECT total, note, s FROM lake.sales") == [(1.0, None, {"a": None})]
    wanted = {"column note had no value and no type yet", "column s.a was int32 and is varchar now"}
    assert set(restored.differences) == wanted
    assert local_world.query("SELECT count(*) FROM lake.sales WHERE note IS NULL AND s.a IS NULL") == [(1,)]
    assert local_world.ingest(NW).row.row_count == 1


def test_nested_columns_that_grew_since_have_the_values_of_then(local_world: World) -> None:
    local_world.options = {"schema_policy": "evolve"}
    struct, wider = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    local_world.land(NW, sales(1).append_column("s", pa.array([{"a": 7}], struct)))
    first = local_world.ingest(NW).row.snapshot_id
    local_world.land(NW, sales(2).append_column("s", pa.array([{"a": 2**40, "b": "x"}], wider)))
    local_world.ingest(NW)

    restored = back(local_world, first)

    assert local_world.query("SELECT s FROM lake.sales") == [({"a": 7, "b": None},)]
    assert set(restored.differences) == {"column s.b was added since", "column s.a was int32 and is int64 now"}
    local_world.execute("DELETE FROM lake.sales")
    back(local_world, first)  # by INSERT
    assert local_world.query("SELECT s FROM lake.sales") == [({"a": 7, "b": None},)]


@pytest.mark.more
def test_objects_that_were_left_out_are_noted_with_their_reason(local_world: World) -> None:
    local_world.options = {"on_bad_object": "quarantine"}
    local_world.land(NW, sales(1, 2), "a.parquet")
    bad = local_world.land(NW, b"no parquet", "bad.parquet")
    first = local_world.ingest(NW).row.snapshot_id
    local_world.unland(NW, "bad.parquet")
    local_world.ingest(NW)

    restored = back(local_world, first).row

    assert restored is not None
    assert restored.files_quarantined == 1
    found = dict(local_world.query("SELECT uri, reason FROM lake.ingest_files WHERE run_id = ?", restored.run_id))
    assert len(found) == 2
    assert "Parquet" in found[bad]


def test_a_refresh_that_began_before_the_hold_does_not_replace_the_rows(either_lake: World) -> None:
    first = ingested(either_lake, 1, 2)
    ingested(either_lake, 3)
    either_lake.land(NW, sales(4))
    other = dataclasses.replace(either_lake, _opened=None)
    with before("transaction", lambda _: back(other, first, hold=True)):
        result = either_lake.ingest(NW)

    for row in (result.row, either_lake.ingest(NW).row):
        assert (row.status, row.hold) == ("skipped", "held")
    assert either_lake.totals(NW) == [1, 2]


@pytest.mark.more
@pytest.mark.parametrize("had_rows", [False, True])
def test_a_refresh_that_began_before_an_empty_partition_was_held_does_not_fill_it(
    local_world: World, had_rows: bool
) -> None:
    """No file of the partition says then that it is held."""
    local_world.options = {"on_empty": "clear"}
    ingested(local_world, 1)
    local_world.unland(NW)
    empty = local_world.ingest(NW).row.snapshot_id
    if had_rows:
        ingested(local_world, 2)
    local_world.land(NW, sales(3))
    other = dataclasses.replace(local_world, options={}, _opened=None)
    with before("transaction", lambda _: back(other, empty, hold=True)):
        result = local_world.ingest(NW)

    assert (result.row.status, result.row.hold) == ("skipped", "held")
    assert local_world.totals(NW) == []


@pytest.mark.parametrize("change", ["UPDATE {} SET total = total + 10", *more(["DELETE FROM {} WHERE total = 1"])])
def test_rows_that_another_client_changed_are_held_too(local_world: World, change: str) -> None:
    """DuckLake's extension replaces such rows, and the files of an update have names that DuckLake gave them."""
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)
    held: list[list[float]] = []

    def hold_and_change(_: object) -> None:
        back(dataclasses.replace(local_world, _opened=None), first, hold=True)
        with plain_client(local_world.config.lakes["test"], read_only=False) as client:
            client.execute(change.format("lake.sales"))
        held.append(local_world.totals(NW))

    local_world.land(NW, sales(4))
    with before("transaction", hold_and_change):
        result = local_world.ingest(NW)

    assert (result.row.status, result.row.hold) == ("skipped", "held")
    assert local_world.totals(NW) == held[0]


def test_a_held_partition_is_not_compacted(local_world: World) -> None:
    ingested(local_world, 1)
    for number in range(3):
        with local_world.stream.lake.open() as lake:
            lake.rows(f"INSERT INTO {local_world.stream.table.sql} VALUES ({number}, 1, 'NW', '2026-02-11')")
            snapshot = lake.current_snapshot()
    back(local_world, snapshot, hold=True)

    assert compact(local_world.stream, 2, local_world.sessions) == []
    release(local_world.stream, local_world.partition(NW))
    assert [result.files_before for result in compact(local_world.stream, 2, local_world.sessions)] == [4]
