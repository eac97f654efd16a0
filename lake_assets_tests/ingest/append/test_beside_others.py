"""Mode append beside deltas, restores and holds."""

from pathlib import Path

import pyarrow.parquet as pq

from lake_assets.history.history_entries import history
from lake_assets.history.restore import restore
from lake_assets_tests.ingest.append.test_append import APPEND
from lake_assets_tests.world import NW, World, sales


def test_deltas_of_an_addition_have_the_added_rows_only(either_lake: World, tmp_path: Path) -> None:
    plaintext = bool(either_lake.lake_options)
    either_lake.options = APPEND | {"deltas": {"to": str(tmp_path / "deltas"), "plaintext": plaintext}}
    for number in range(2):
        either_lake.land(NW, sales(number), f"{number}.parquet")
        either_lake.ingest(NW)
    assert either_lake.ingest(NW).row.status == "skipped"

    changes = [pq.read_table(file).to_pylist() for file in sorted((tmp_path / "deltas").rglob("*.parquet"))]

    assert [[(row["_change"], row["total"]) for row in rows] for rows in changes] == [[("insert", 0)], [("insert", 1)]]


def test_a_restore_says_that_the_next_refresh_adds_new_objects(local_world: World) -> None:
    local_world.options = APPEND
    local_world.land(NW, sales(1), "1.parquet")
    first = local_world.ingest(NW).row.snapshot_id or 0
    local_world.land(NW, sales(2), "2.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(3), "3.parquet")

    restored = restore(local_world.stream, local_world.partition(NW), first)

    assert restored.next.startswith("The next refresh adds the rows of 1 new object.")
    local_world.ingest(NW)
    assert local_world.totals() == [1, 3]


def test_the_history_has_the_rows_of_the_partition_also_of_expired_snapshots(local_world: World) -> None:
    local_world.options = APPEND
    for number in range(3):
        local_world.land(NW, sales(number, number), f"{number}.parquet")
        local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("CALL ducklake_expire_snapshots('lake', older_than => now())")

    entries = history(local_world.stream, local_world.partition(NW))

    assert [(entry.rows_before, entry.rows) for entry in entries] == [(4, 6), (2, 4), (0, 2)]
