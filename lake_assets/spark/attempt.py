"""What an attempt that failed has written, and its removal at once: a lake's storage that is full must not stay full.

Every file has a name of its own attempt, and only names that the attempt itself made are removed. Where the removal
fails too, maintenance does it later.
"""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lake_assets.config.storages import AnyStorage
from lake_assets.errors import StorageError
from lake_assets.spark.job import Job, JobResult
from lake_assets.storage.store import Store
from lake_assets.storage.uploads import abort_uploads

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_LISTINGS = 16  # side by side: a listing is a wait for the store
_PATIENCE = 10.0  # seconds until the tasks of a job that failed have ended; Spark kills their processes after two
_TICK = 0.1  # seconds


def discard(storage: AnyStorage, uris: Iterable[str]) -> None:
    """Remove files, as far as the store lets it."""
    store = Store(storage)
    with suppress(StorageError):
        store.delete(tuple(uri.removeprefix(f"{store.root}/") for uri in uris))


def discard_unfinished(storage: AnyStorage, uris: Sequence[str], error: BaseException) -> None:
    """Remove the files of a writer that failed, of which the last may not be whole; as far as the store lets it.

    Args:
        storage: where they are.
        uris: in the order in which they were begun.
        error: by which the writer failed.
    """
    if not uris:
        return
    _forget_sinks(error)
    discard(storage, uris)
    abort_uploads(storage, uris[-1].removeprefix(f"{storage.root}/"))


def _forget_sinks(error: BaseException) -> None:
    """Let go of the files that the functions an error came through have open: forgotten, each tries to close again.

    Later that would write an object which has been removed.
    """
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def discarding(storage: AnyStorage, task: Task) -> Task:
    """The task of a `mapInArrow`; the files that its rows name are removed if it fails.

    Args:
        storage: that the task writes to.
        task: its rows have a column `uri`, NULL or that of a file.
    """

    def attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written: list[str] = []
        try:
            for rows in task(batches):
                written += [uri for uri in rows.column("uri").to_pylist() if uri is not None]
                yield rows
        except BaseException:
            discard(storage, written)
            raise

    return attempt


def discard_failed(job: Job, results: Sequence[JobResult]) -> None:
    """Remove the files of the partitions that failed: other tasks have written them, and they will not be committed."""
    for result in results:
        if result.error is not None and result.files:
            discard(job.storage, [file.uri for file in result.files])
            result.files.clear()


def discard_job(spark: SparkSession, job: Job) -> None:
    """Remove all files of a job that failed as a whole, once its other tasks have ended; as far as it can."""
    _await_tasks(spark)
    store = Store(job.storage)

    def one(folder: str) -> None:
        prefix = f"{folder}{job.file_prefix}"
        discard(job.storage, [o.uri for o in store.list(folder) if o.key.startswith(prefix)])
        abort_uploads(job.storage, prefix)

    folders = dict.fromkeys(partition.destination for partition in job.partitions)
    with suppress(StorageError), ThreadPoolExecutor(_LISTINGS) as pool:
        list(pool.map(one, folders))


def _await_tasks(spark: SparkSession) -> None:
    """Let the tasks end that are at work. Those of other jobs of the session are waited for too, but not long."""
    end = time.monotonic() + _PATIENCE
    # A client of Spark Connect cannot ask, and of a JVM that has ended there is nothing to wait for.
    with suppress(Py4JError, PySparkException, ConnectionError, AttributeError):
        tracker: Any = spark.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - Python's own has no such call
        while time.monotonic() < end and any(info.numRunningTasks() for info in tracker.getExecutorInfos()):
            time.sleep(_TICK)
