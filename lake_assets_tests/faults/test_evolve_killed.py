"""`kill -9` while a table's columns change: they are the old ones or the new ones, and the next run needs no help."""

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets_tests.faults.evolver import LANDED
from lake_assets_tests.faults.modules import start
from lake_assets_tests.world import NW, SW, World

pytestmark = pytest.mark.kill

NEW = [(1, {"x": 2, "deep": None}, None), (2, {"x": 2**40, "deep": [{"y": "new"}, None]}, "new")]


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("BEGIN", marks=pytest.mark.kill_all),
        "SET DATA TYPE",
        pytest.param("after SET DATA TYPE", marks=pytest.mark.kill_all),
        "after ADD COLUMN",
        "COMMIT",
        "after COMMIT",
    ],
)
def test_columns_are_the_old_ones_or_the_new_ones(local_world: World, tmp_path: Path, statement: str) -> None:
    local_world.options = {"schema_policy": "evolve"}
    point = pa.array([{"x": 2}], pa.struct([("x", pa.int32())]))
    local_world.land(NW, pa.table({"id": pa.array([1], pa.int64()), "point": point}))
    local_world.ingest(NW)
    before = local_world.query("DESCRIBE lake.sales")

    _, errors = (child := start(local_world, tmp_path, statement, module="evolver")).communicate(timeout=60)

    assert child.returncode == -signal.SIGKILL, errors
    after = local_world.query("DESCRIBE lake.sales")
    assert (after == before) == (statement != "after COMMIT")
    assert local_world.query("SELECT id, point.x FROM lake.sales") == [(1, 2)]
    row = {"id": 2, "point": {"x": 2**40, "deep": [{"y": "new"}, None]}, "note": "new"}
    local_world.land(SW, pa.Table.from_pylist([row], LANDED))
    result = local_world.ingest(SW)
    assert bool(result.changes) == (statement != "after COMMIT")
    assert local_world.query("SELECT id, point, note FROM lake.sales ORDER BY id") == NEW
