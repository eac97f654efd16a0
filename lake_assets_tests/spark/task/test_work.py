"""A task whose stores are remote works on some partitions at a time; its reports are in their order."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import StorageUnreachableError
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import S3Storage
from lake_assets.spark.task.job import Job
from lake_assets.spark.task.work import Bin, TaskReport, discarding, encode
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.store import Store

SCHEMA = pa.schema([("n", pa.int64())])
COUNT = 12


class Task:
    """Some partitions of one object each in a bucket, which are written to another bucket."""

    def __init__(self, landing: S3Storage, lake: S3Storage) -> None:
        self.lake = Store(lake)
        self.job = Job("run", LandingZone(landing), lake, SCHEMA, "zstd", 2**20, ())
        for number in range(COUNT):
            with Store(landing).create(f"{number:02}.parquet") as file:
                pq.write_table(pa.table({"n": [number] * (number + 1)}, SCHEMA), file)
        column = PartitionColumn("key", "integer")
        self.bins = [
            Bin(number, Partition.of([column], {"key": str(number)}), f"{number}/", (Share(o),))
            for number, o in enumerate(Store(landing).list())
        ]

    def run(self) -> Iterator[TaskReport]:
        return discarding(self.job, encode(self.job, iter(self.bins)))

    def left(self) -> list[str]:
        return [obj.key for obj in self.lake.list()]


@pytest.fixture
def task(s3_location: Callable[[], Any]) -> Task:
    return Task(S3Storage.model_validate(s3_location()), S3Storage.model_validate(s3_location()))


def test_uploads_overlap_and_reports_are_in_the_order_of_the_partitions(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, create = threading.Barrier(2, timeout=60), Store.create

    def together(store: Store, key: str) -> pa.NativeFile:
        both.wait()  # until another upload begins
        return create(store, key)

    monkeypatch.setattr(Store, "create", together)

    reports = list(task.run())

    files = [(report.index, report.file.rows) for report in reports if report.file is not None]
    assert files == [(number, number + 1) for number in range(COUNT)]
    assert [dict(r.rows) for r in reports if r.rows] == [
        {f"{number:02}.parquet": number + 1} for number in range(COUNT)
    ]
    assert len(task.left()) == COUNT


def test_a_task_that_fails_leaves_no_file_of_its_other_partitions(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Store.create

    def failing(store: Store, key: str) -> pa.NativeFile:
        if key.startswith("5/"):
            raise StorageUnreachableError("the store is away:", "wait.")
        return create(store, key)

    monkeypatch.setattr(Store, "create", failing)

    with pytest.raises(StorageUnreachableError):
        list(task.run())

    assert task.left() == []


def test_a_task_that_is_ended_early_leaves_no_file(task: Task) -> None:
    reports = task.run()
    next(reports)

    reports.close()  # type: ignore[attr-defined]

    assert task.left() == []
