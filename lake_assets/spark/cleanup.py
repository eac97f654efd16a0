"""Removal of the files of a failed Spark job, at once, because no commit will use them.

A job removes only its own files. Maintenance removes those that a killed process leaves.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lake_assets.base.errors import StorageError
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.config.storages import AnyStorage
from lake_assets.spark.task.attempt import discard
from lake_assets.spark.task.job import Job, JobResult
from lake_assets.storage.store import Store

_LISTINGS = 16  # in parallel: most of the time is network latency
_RETRY_SECONDS = Limit(seconds=10.0)  # for the tasks of a failed job; Spark kills their processes after two
_KILLED_AFTER = 3.0  # seconds, more than Spark's two (spark.python.task.killTimeout)
_TICK = pause_between(0.1, 0.1)


def discard_failed(job: Job, results: Sequence[JobResult]) -> None:
    """Remove the files of failed partitions, which other tasks have written."""
    for result in results:
        if result.error is not None and result.files:
            discard(job.storage, [file.uri for file in result.files])
            result.files.clear()
        if result.error is not None and result.letters and job.letters is not None:
            discard(job.letters.storage, [letter.uri for letter in result.letters])
            result.letters.clear()


def discard_job(spark: SparkSession, job: Job) -> None:
    """Remove all files of a failed job, after its other tasks have ended, as far as the store allows."""
    _await_tasks(spark)
    _discard_all(job)


def discard_interrupted(job: Job) -> None:
    """Remove all files of a job that its server was asked to interrupt, also those of tasks that end late.

    A client does not see the tasks, and Spark kills the Python process of an interrupted one after two seconds.
    """
    for pause in (0.0, _KILLED_AFTER):
        time.sleep(pause)
        _discard_all(job)


def _discard_all(job: Job) -> None:
    _discard_folders(job, job.storage, [partition.destination for partition in job.partitions])
    if (rules := job.letters) is not None:
        _discard_folders(job, rules.storage, [rules.folder_of(partition.partition) for partition in job.partitions])


def _discard_folders(job: Job, storage: AnyStorage, folders: Sequence[str]) -> None:
    store = Store(storage)

    def discard_folder(folder: str) -> None:
        prefix = f"{folder}{job.file_prefix}"
        discard(storage, [obj.uri for obj in store.list(folder) if obj.key.startswith(prefix)])
        store.abort_uploads(prefix)

    with suppress(StorageError), ThreadPoolExecutor(_LISTINGS) as pool:
        list(pool.map(discard_folder, dict.fromkeys(folders)))


def _await_tasks(spark: SparkSession) -> None:
    """Wait until no task of the session runs, up to the limit; that includes tasks of other jobs."""
    # A client of Spark Connect has no tracker, and a JVM that has ended has no tasks.
    with suppress(Py4JError, PySparkException, ConnectionError, AttributeError):
        tracker: Any = spark.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - pyspark's has no such call
        poll(
            lambda: not any(info.numRunningTasks() for info in tracker.getExecutorInfos()),
            pause=_TICK,
            limit=_RETRY_SECONDS,
        )
