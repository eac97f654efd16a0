"""What a partition of a run costs its driver and its tasks: processor time, which other processes change little."""

import datetime as dt
import io
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dev.benchmarks import retail
from dev.benchmarks.scale.results import Grown
from lake_assets.api import open_stream
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.spark.spark_session import spark_config, start_session

SIZES = (100, 300, 1_000)
QUICK = (5, 10)
ROWS = 100  # of each object
OBJECTS = 20  # of each partition of the second load, which has fewer of them
_FIRST = dt.date(2020, 1, 1)


def driver(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Grown]:
    """Each size: a first load of so many partitions of one object, a run that finds nothing new, and larger ones."""
    spark = start_session(spark_config(app_name="lake-assets-scale", settings={"spark.master": "local[2]"}))
    try:
        costs(folder / "warm", spark, QUICK[-1], 1)
        sizes = QUICK if quick else SIZES
        grown = [Grown(size=size, seconds=_of_both(folder / str(size), spark, size)) for size in sizes]
    finally:
        spark.stop()
    for one in grown:
        figures = ", ".join(f"{name}: {seconds * 1000:.2f} ms" for name, seconds in one.seconds.items())
        say(f"{one.size:,} partitions: {figures}")
    return grown


def _of_both(folder: Path, spark: SparkSession, size: int) -> dict[str, float]:
    refresh, still, tasks = costs(folder / "small", spark, size, 1)
    many, _, tasks_of_many = costs(folder / "larger", spark, min(size, SIZES[0]), OBJECTS)
    return {
        "driver": refresh,
        f"driver, {OBJECTS} objects each": many,
        "driver, nothing new": still,
        "Spark and tasks": tasks,
        f"Spark and tasks, {OBJECTS} objects each": tasks_of_many,
    }


def costs(folder: Path, spark: SparkSession, size: int, objects: int) -> tuple[float, float, float]:
    """The processor seconds of a partition: the driver's, in a first load and if nothing is new, and the tasks'."""
    body = io.BytesIO()
    pq.write_table(retail.transactions(ROWS, 1), body)
    days = [str(_FIRST + dt.timedelta(days=number)) for number in range(size)]
    landing = folder / "landing"
    for day in days:
        (landing / f"date={day}").mkdir(parents=True)
        for number in range(objects):
            (landing / f"date={day}" / f"part-{number}.parquet").write_bytes(body.getvalue())
    catalog = {"type": "sqlite", "path": str(folder / "catalog.sqlite")}
    config = {
        "lakes": {"bench": {"catalog": catalog, "storage": str(folder / "lake")}},
        "streams": {
            "sales": {
                "source": str(landing),
                "partitions": {"date": {"type": "date", "start": str(_FIRST)}},
                "destination": {"table": "sales"},
            }
        },
    }
    stream = open_stream(LakeConfig.model_validate(config), "sales")
    partitions = [stream.config.partition(f"date={day}") for day in days]

    def spent() -> tuple[float, float]:
        before, tasks = time.process_time(), _of_children()
        assert all(outcome.error is None for outcome in ingest_all(stream, partitions, lambda: spark))
        return (time.process_time() - before) / size, (_of_children() - tasks) / size

    (refresh, tasks), (still, _) = spent(), spent()
    return refresh, still, tasks


def _of_children() -> float:
    """The processor seconds of the JVM and of Python's workers."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(one.user + one.system for one in times)
