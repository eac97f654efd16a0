"""The changes from history agree with the tables that a plain client sees before and after each snapshot."""

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.errors import CatalogError, ExpiredSnapshotError
from lake_assets.maintenance.cleaning import expire_snapshots
from lake_assets_tests.world import NW, SW, World

META = ["_change", "_snapshot", "_run_id", "_committed_at"]


def changes(world: World, since: int = 0, until: int | None = None, partition: str | None = None) -> pa.Table:
    stream = world.stream if partition is None else world.stream.partition(partition)
    with stream.changes(since, until) as reader:
        return reader.read_all()


def totals(table: pa.Table) -> list[tuple[str, float]]:
    return sorted(zip(table["_change"].to_pylist(), table["total"].to_pylist(), strict=True))


def committed(world: World, text: str, *totals: float) -> int:
    """Land and ingest; the snapshot."""
    snapshot = world.commit(text, *totals).snapshot_id
    assert snapshot is not None
    return snapshot


@pytest.mark.more
def test_a_refresh_is_what_it_removed_and_added(world: World) -> None:
    first = committed(world, NW, 1, 2)
    committed(world, SW, 7)
    last = committed(world, NW, 1, 3, 3)

    table = changes(world)

    assert table.column_names == ["id", "total", "region", "date", *META]
    assert totals(changes(world, first, first)) == [("insert", 1), ("insert", 2)]
    assert totals(changes(world, partition=SW)) == [("insert", 7)]
    # The row (0, 1.0) is in the partition before and after, so it has not changed.
    assert totals(changes(world, last)) == [("delete", 2), ("insert", 3), ("insert", 3)]
    assert changes(world, last)["_change"].to_pylist() == ["delete", "insert", "insert"]
    assert table["_snapshot"].to_pylist() == sorted(table["_snapshot"].to_pylist())
    row = world.ledger(NW)[0]
    assert set(changes(world, last)["_run_id"].to_pylist()) == {row.run_id}
    ((moment,),) = world.query("SELECT snapshot_time FROM ducklake_snapshots('lake') WHERE snapshot_id = ?", last)
    assert set(changes(world, last)["_committed_at"].to_pylist()) == {moment.astimezone(dt.UTC)}


def test_changes_lead_from_each_snapshot_to_the_next(local_world: World) -> None:
    """Other clients insert, delete, update and rewrite too; the sums agree at every snapshot."""
    first = committed(local_world, NW, 1, 2, 3)
    committed(local_world, SW, 7, 7)
    local_world.execute(
        "DELETE FROM lake.sales WHERE total = 2",
        "UPDATE lake.sales SET total = 30 WHERE total = 3",
        "INSERT INTO lake.sales SELECT 9, 9.0, 'NW', DATE '2026-02-11' FROM range(3)",
        "CALL ducklake_rewrite_data_files('lake', 'sales', delete_threshold => 0)",
        "DELETE FROM lake.sales WHERE region = 'SW'",
    )
    last = committed(local_world, NW, 1, 2, 4)
    seen: Counter[tuple[Any, ...]] = Counter()
    for snapshot in range(first, last + 1):
        columns = ["id", "total", "region", "date", "_change"]
        for row in changes(local_world, snapshot, snapshot).select(columns).to_pylist():
            change = row.pop("_change")
            seen[tuple(row.values())] += 1 if change == "insert" else -1
        now = local_world.query(f"SELECT id, total, region, date FROM lake.sales AT (VERSION => {snapshot})")
        assert +seen == Counter(now), snapshot
        assert not -seen, snapshot


def test_an_expired_snapshot_gives_one_clear_error(local_world: World) -> None:
    committed(local_world, NW, 1)
    committed(local_world, NW, 2)
    with local_world.stream.lake.open() as lake:
        *_, newest = expired = expire_snapshots(lake, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    last = committed(local_world, NW, 3)

    assert len(expired) > 1
    with pytest.raises(ExpiredSnapshotError, match=rf"snapshot {newest} has expired.*from snapshot 2 on.*begin at"):
        changes(local_world, 2)
    # What the oldest snapshot removed was in the expired one only.
    with pytest.raises(ExpiredSnapshotError, match=f"begin at snapshot {newest + 2} or later"):
        changes(local_world, newest + 1)
    assert totals(changes(local_world, newest + 2)) == [("delete", 2), ("insert", 3)]
    assert last >= newest + 2


def test_a_snapshot_that_does_not_exist_and_a_column_with_a_name_of_the_changes_are_named(local_world: World) -> None:
    committed(local_world, NW, 1)
    with pytest.raises(CatalogError, match="is after the last"):
        changes(local_world, 900)
    with pytest.raises(CatalogError, match="no snapshot 900"):
        changes(local_world, 1, 900)
    local_world.execute("ALTER TABLE lake.sales ADD COLUMN _Change INTEGER")
    with pytest.raises(CatalogError, match="column _change"):
        changes(local_world)


def test_columns_are_those_of_the_last_snapshot(local_world: World) -> None:
    committed(local_world, NW, 1)
    local_world.execute(
        "ALTER TABLE lake.sales RENAME COLUMN total TO amount",
        "ALTER TABLE lake.sales ADD COLUMN more INTEGER",
        "ALTER TABLE lake.sales ALTER COLUMN more SET DATA TYPE BIGINT",
    )

    table = changes(local_world)

    assert table.select(["id", "amount", "more"]).to_pylist() == [{"id": 0, "amount": 1.0, "more": None}]
    assert table.schema.field("more").type == pa.int64()
    assert changes(local_world, until=table["_snapshot"][0].as_py()).column_names[:2] == ["id", "total"]


def test_only_files_of_these_snapshots_are_read(local_world: World) -> None:
    committed(local_world, SW, 7)
    last = committed(local_world, NW, 1)
    storage = local_world.config.lakes["test"].own_storage
    for key in local_world.data_files():
        if "region=SW" in key:
            Path(storage.root, key).write_bytes(b"cannot be read")

    assert totals(changes(local_world, last)) == [("insert", 1)]
