"""The memory of dead letters does not grow with their number: they are written in parts.

    python -m lake_assets_tests.spark.task.test_letters_memory FOLDER OBJECT.parquet

does the work of one task, with dead letters, and prints its peak memory in MB, and its dead letters.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import LocalStorage
from lake_assets.schema.column_rules import Rules
from lake_assets.spark.task.job import Job, LetterRules, PartitionJob
from lake_assets.spark.task.work import Bin, encode
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.store import Store
from lake_assets_tests.memory import peak

ROWS = 2_000_000
MORE = 130  # MB. It is about 70; a task that held its dead letters until the object's end would take 210.
SCHEMA = pa.schema([("id", pa.int32()), ("total", pa.float64()), ("note", pa.string())])


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    landing, lake = (LocalStorage(type="local", path=str(folder / part)) for part in ("landing", "lake"))
    Path(lake.path).mkdir(exist_ok=True)
    (landed,) = (obj for obj in Store(landing).list() if obj.key == name)
    partition = Partition((PartitionColumn("region", "string"),), ("NW",))
    jobs = (PartitionJob(partition, (landed,), "files/"),)
    rules = LetterRules(lake, "letters/", "tag")
    job = Job(
        "run", LandingZone(landing, rules=Rules(splits=True)), lake, SCHEMA, "zstd", 512 * 2**20, jobs, letters=rules
    )
    share = Share(landed)

    reports = list(encode(job, [Bin(0, partition, "files/", (share,))]))

    letters = sum(report.letter.rows for report in reports if report.letter)
    print(peak(), letters)  # noqa: T201 - the parent reads it


def peak_of(folder: Path, name: str) -> tuple[int, int]:
    """The peak memory of a task that reads this object, in MB, and its dead letters."""
    command = [sys.executable, "-m", "lake_assets_tests.spark.task.test_letters_memory", str(folder), name]
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

    (without, none), (with_letters, letters) = (peak_of(tmp_path, f"{name}.parquet") for name in ("good", "bad"))

    assert (none, letters) == (0, ROWS // 2)
    assert with_letters - without < MORE, (with_letters, without)


if __name__ == "__main__":
    main()
