"""The two ways of a job through Spark, RDD and DataFrame, have the same results."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaDriftError, SchemaError, StorageError
from lake_assets.base.events import Event, about, listening
from lake_assets.config.storages import LocalStorage
from lake_assets.spark.spark_jobs import run_tasks, spark_cores
from lake_assets.spark.task.job import DataFile, Job, LetterFile, PartitionJob
from lake_assets.spark.task.work import Bin, Refusal, TaskReport
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets_tests.world import NW, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.conf import RuntimeConfig

A, B = pa.schema([("a", pa.int64())]), pa.schema([("b", pa.string())])

REPORTS = {
    "files": [TaskReport(0, DataFile(f"/l/{n}.parquet", n, 2**40, n == 1, b"PAR1\0" if n else None)) for n in range(3)],
    "error": [TaskReport(1, error=StorageError("no such name.", "correct it."))],
    "drift": [
        TaskReport(2, error=SchemaDriftError("new columns:", "run it again.", [(f"object {n}", schema)]))
        for n, schema in enumerate((A, B, A))
    ],
    "drift and error": [
        TaskReport(3, error=SchemaDriftError("new:", "", [("x", A)])),
        TaskReport(3, error=SchemaError("bad.")),
    ],
    "refusals": [TaskReport(4, refusal=Refusal(f"{n}.parquet", "it has a NaN")) for n in range(2)],
    "letters": [TaskReport(5, letter=LetterFile("/s/o", f"/s/{n}.parquet", n, 2**40, "a reason")) for n in range(2)],
}


class Frames:
    """A session without RDDs, as that of Spark Connect."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    @property
    def conf(self) -> "RuntimeConfig":
        return self._spark.conf

    def range(self, *args: int, **options: int) -> "DataFrame":
        return self._spark.range(*args, **options)


def reports_of(_: Job, bins: Iterator[Bin]) -> Iterator[TaskReport]:
    for item in bins:
        yield from list(REPORTS.values())[item.index]


@pytest.mark.parametrize("way", ["rdd", "frame"])
def test_files_and_errors_come_back_as_the_tasks_reported_them(
    spark: "SparkSession", local_world: World, tmp_path: Path, way: str
) -> None:
    """Pickled by reference, as the package's own tasks are: the workers import this module."""
    partition = local_world.partition(NW)
    storage = LocalStorage(path=str(tmp_path))
    parts = tuple(PartitionJob(partition, (), "main/t/") for _ in REPORTS)
    job = Job("run", LandingZone(storage), storage, A, "none", 1, parts)
    bins = [Bin(index, partition, "main/t/", ()) for index in range(len(REPORTS))]
    session = spark if way == "rdd" else Frames(spark)

    events: list[Event] = []
    with listening(events.append), about(run="r"):
        files, error, drift, both, refusals, letters = run_tasks(session, job, reports_of, bins, 2)  # type: ignore[arg-type]

    assert files.files == [report.file for report in REPORTS["files"]]
    assert isinstance(error.error, StorageError)
    assert str(error.error) == "no such name. correct it."
    assert isinstance(drift.error, SchemaDriftError)
    assert drift.error.schemas == [("object 0", A), ("object 1", B)]
    assert type(both.error) is SchemaError
    assert refusals.refused == {"0.parquet": "it has a NaN", "1.parquet": "it has a NaN"}
    assert letters.letters == [report.letter for report in REPORTS["letters"]]
    tasks = [event for event in events if event.event == "task"]
    assert {(task.run, task.host) for task in tasks} == {("r", socket.gethostname())}
    figures = [sum(getattr(task, name) for task in tasks) for name in ("files", "rows", "bytes")]
    assert figures == [3, 3, 3 * 2**40]
    assert len(tasks) == spark_cores(session) == 2  # type: ignore[arg-type]
