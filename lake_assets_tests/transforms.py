"""Transforms that the tests name in configs."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from lake_assets.spark.cluster import is_client


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("total", f.col("total") * 2)


def no_frame(frame: DataFrame) -> int:
    return len(frame.columns)


def faulty(frame: DataFrame) -> DataFrame:
    return frame.limit(1 // (len(frame.columns) - len(frame.columns)))


def failing(frame: DataFrame) -> DataFrame:
    """Rows that cannot be had: the task says something and fails."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            sys.stderr.write("this is a worker's standard error\n")
            raise ValueError("failed on purpose")
        yield from ()

    return frame.mapInArrow(fail, frame.schema)


def of_one_task(frame: DataFrame) -> DataFrame:
    """Rows whose tasks end where another runs beside them, as where memory is for one."""
    return _ending(frame, lambda: os._exit(9))


def of_little_memory(frame: DataFrame) -> DataFrame:
    """The same, where Python notices that there is no memory."""
    return _ending(frame, lambda: bytes(1 << 62))


def _ending(frame: DataFrame, end: Callable[[], object]) -> DataFrame:
    beside = frame.sparkSession.sparkContext.defaultParallelism > 1

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if beside:
                end()
            yield batch

    return frame.mapInArrow(work, frame.schema)


def of_much_memory(frame: DataFrame) -> DataFrame:
    """Rows whose task kills the JVM of its driver, executor or server without a gigabyte, if it is not alone there."""
    session: Any = frame.sparkSession
    is_small = "1g" not in {session.conf.get(f"spark.{name}.memory", "") for name in ("driver", "executor")}
    is_small &= not session.conf.get("spark.master", "").startswith("local[1")
    if is_client(session):
        session.client.set_retry_policies([])  # it would try for minutes

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if is_small:
                stat = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(stat.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
            yield batch

    return frame.mapInArrow(work, frame.schema)


def of_a_session(frame: DataFrame) -> DataFrame:
    """Rows for which the server closes the session, if the environment says so."""
    session: Any = frame.sparkSession
    if "CLOSE_SESSIONS" in os.environ:
        session.client.release_session()
    return frame
