"""A process that does the work of one task, with dead letters, and prints its peak memory in MB, and its dead letters.

python -m lake_assets_tests.parquet.large_letters FOLDER OBJECT.parquet
"""

import sys
from pathlib import Path

import pyarrow as pa

from lake_assets.config.storages import LocalStorage
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.parquet.job import Job, LetterRules, PartitionJob
from lake_assets.parquet.landed import Landed
from lake_assets.parquet.landed_rows import Share
from lake_assets.parquet.task import Bin, encode
from lake_assets.storage.store import Store
from lake_assets_tests.memory import peak

SCHEMA = pa.schema([("id", pa.int32()), ("total", pa.float64()), ("note", pa.string())])


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    landing, lake = (LocalStorage(type="local", path=str(folder / part)) for part in ("landing", "lake"))
    Path(lake.path).mkdir(exist_ok=True)
    (landed,) = (obj for obj in Store(landing).list() if obj.key == name)
    partition = Partition((PartitionColumn("region", "string"),), ("NW",))
    jobs = (PartitionJob(partition, (landed,), "files/"),)
    rules = LetterRules(lake, "letters/", "tag")
    job = Job("run", Landed(landing), lake, SCHEMA, "zstd", 512 * 2**20, jobs, letters=rules)
    share = Share(landed.key, landed.etag, landed.size)

    reports = list(encode(job, [Bin(0, partition, "files/", (share,))]))

    letters = sum(report.letter.rows for report in reports if report.letter)
    print(peak(), letters)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main()
