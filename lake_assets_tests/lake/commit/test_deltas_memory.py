"""The memory of an export does not grow with the partition: DuckDB spills, and batches are written as they come."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lake_assets_tests.lake.commit.test_deltas import exporting
from lake_assets_tests.world import World

ROWS = 2_000_000
PEAK = 720  # MB. Without a limit of DuckDB it was 790; Python with its packages takes 230, a million rows of data 150.


@pytest.mark.long
def test_a_partition_far_larger_than_duckdbs_memory_is_compared(local_world: World, tmp_path: Path) -> None:
    exporting(local_world, tmp_path / "deltas")
    fields = ("catalog", "storage", "source", "options", "lake_options")
    file = tmp_path / "world.json"
    file.write_text(json.dumps({name: getattr(local_world, name) for name in fields}))
    command = [sys.executable, "-m", "lake_assets_tests.lake.commit.large_export", str(file), str(ROWS), "100MB"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < PEAK
    counted = local_world.query(
        "SELECT snapshot_id, sum(rows_inserted), sum(rows_deleted) FROM lake.ingest_deltas GROUP BY 1 ORDER BY 1"
    )
    assert [figures for _, *figures in counted] == [[ROWS, 0], [ROWS, ROWS]]
