"""Mode append beside deltas, restores and holds."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lake_assets.history.restore import restore
from lake_assets_tests.ingest.append.test_append import APPEND
from lake_assets_tests.world import NW, World, sales


@pytest.mark.parametrize("lake_options", [{}, {"attach_options": {"encrypted": True}}], ids=["files", "encrypted"])
def test_deltas_of_an_addition_have_the_added_rows_only(
    local_world: World, lake_options: dict[str, object], tmp_path: Path
) -> None:
    local_world.lake_options = lake_options
    local_world.options = APPEND | {"deltas": {"to": str(tmp_path / "deltas"), "plaintext": bool(lake_options)}}
    for number in range(2):
        local_world.land(NW, sales(number), f"{number}.parquet")
        local_world.ingest(NW)
    assert local_world.ingest(NW).row.status == "skipped"

    changes = [pq.read_table(file).to_pylist() for file in sorted((tmp_path / "deltas").rglob("*.parquet"))]

    assert [[(row["_change"], row["total"]) for row in rows] for rows in changes] == [[("insert", 0)], [("insert", 1)]]


@pytest.mark.parametrize("hold", [False, True])
def test_a_restore_takes_rows_back_whose_objects_stay_known(local_world: World, hold: bool) -> None:
    local_world.options = APPEND
    snapshots = []
    for number in range(3):
        local_world.land(NW, sales(number), f"{number}.parquet")
        snapshots.append(local_world.ingest(NW).row.snapshot_id)

    restore(local_world.stream, local_world.partition(NW), snapshots[1] or 0, hold=hold)

    assert local_world.totals() == [0, 1]
    assert local_world.ingest(NW).row.status == "skipped"
    local_world.land(NW, sales(3), "3.parquet")
    assert local_world.ingest(NW).row.status == ("skipped" if hold else "committed")
    assert local_world.totals() == ([0, 1] if hold else [0, 1, 3])
    local_world.ingest(NW, force=True)
    assert local_world.totals() == [0, 1, 2, 3]
