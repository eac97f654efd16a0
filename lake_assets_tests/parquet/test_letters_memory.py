"""The memory of dead letters does not grow with their number: they are written in parts."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 2_000_000
MORE = 130  # MB. It is about 70; a task that held its dead letters until the object's end would take 210.


def peak(folder: Path, name: str) -> tuple[int, int]:
    """The peak memory of a task that reads this object, in MB, and its dead letters."""
    command = [sys.executable, "-m", "lake_assets_tests.parquet.large_letters", str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    megabytes, letters = map(int, done.stdout.split())
    return megabytes, letters


@pytest.mark.soak
def test_a_million_bad_rows_take_little_more_memory_than_none(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    random = np.random.default_rng(1)
    numbers = np.arange(ROWS)
    notes = pa.array([f"{note:050x}" for note in random.integers(0, 2**62, ROWS)])
    for name, ids in {"good": numbers, "bad": numbers + (numbers % 2) * 2**31}.items():
        table = pa.table({"id": pa.array(ids), "total": random.random(ROWS), "note": notes})
        pq.write_table(table, tmp_path / "landing" / f"{name}.parquet")

    (without, none), (with_letters, letters) = (peak(tmp_path, f"{name}.parquet") for name in ("good", "bad"))

    assert (none, letters) == (0, ROWS // 2)
    assert with_letters - without < MORE, (with_letters, without)
