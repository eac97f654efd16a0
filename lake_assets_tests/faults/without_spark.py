"""Spark's jobs in this process: the work of the tasks is the same plain Python, and nothing has to start."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast
from unittest import mock

from pyspark.sql import SparkSession

from lake_assets.parquet.job import Job, JobResult
from lake_assets.parquet.task import Bin, Task, discarding
from lake_assets.spark import pass_through, tasks


def no_session() -> SparkSession:
    """In place of a session, which the jobs of `jobs_here` do not use."""
    return cast("SparkSession", object())


@contextmanager
def jobs_here() -> Iterator[None]:
    """Let pass-through jobs run here while the block runs, as one task; its rules for failed tasks are Spark's."""
    with (
        mock.patch.object(pass_through, "run_tasks", _run_here),
        mock.patch.object(pass_through, "spark_cores", return_value=1),
    ):
        yield


def _run_here(spark: SparkSession, job: Job, task: Task, bins: Sequence[Bin], _: int) -> list[JobResult]:
    return tasks._results(spark, job, lambda: list(discarding(job, task(iter(bins)))))
