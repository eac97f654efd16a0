"""Spark's jobs in this process: the work of the tasks is the same plain Python, and nothing has to start."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from lake_assets.cli.common import Session
from lake_assets.spark import spark_jobs
from lake_assets.spark.task.job import Job, JobResult
from lake_assets.spark.task.work import Bin, Task, discarding


def no_session() -> SparkSession:
    """In place of a session, which the jobs of `jobs_here` do not use."""
    return cast("SparkSession", object())


@contextmanager
def jobs_here() -> Iterator[None]:
    """Let pass-through jobs run here while the block runs, as one task; its rules for failed tasks are Spark's."""
    with (
        mock.patch.object(spark_jobs, "run_tasks", _run_here),
        mock.patch.object(spark_jobs, "spark_cores", return_value=1),
    ):
        yield


class _LateSession:
    """A session that begins when something of it is needed, for a transform."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._begins = threading.RLock()  # the thread that looks for executors may ask while Spark still starts

    def __getattr__(self, name: str) -> Any:
        with self._begins:
            session = self._start()
        return getattr(session, name)


@pytest.fixture
def sessions(request: pytest.FixtureRequest) -> Iterator[Callable[[], SparkSession]]:
    """In place of the fixture of this name, where it does not matter where tasks ran.

    Worlds ingest in this process, and so do commands that this process runs.
    """
    session = cast("SparkSession", _LateSession(lambda: request.getfixturevalue("spark")))
    with jobs_here(), mock.patch.object(Session, "__call__", return_value=session):
        yield lambda: session


def _run_here(spark: SparkSession, job: Job, task: Task, bins: Sequence[Bin], _: int) -> list[JobResult]:
    return spark_jobs._results(spark, job, lambda: list(discarding(job, task(job, iter(bins)))))
