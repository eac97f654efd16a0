"""Removal of the files of a failed attempt or job, at once, so that a full storage does not stay full.

The name of a file belongs to one attempt, and an attempt or a job removes only its own files. Maintenance removes those
that a killed process leaves, or that cannot be removed now.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from lake_assets.base.errors import StorageError, StorageUnreachableError, release_frames
from lake_assets.config.storages import AnyStorage
from lake_assets.spark.task.job import Job, JobResult
from lake_assets.storage.store import Store

_LISTINGS = 16  # in parallel: most of the time is network latency
_KILLED_AFTER = 3.0  # seconds, more than Spark's two (spark.python.task.killTimeout)


def discard(storage: AnyStorage, uris: Iterable[str]) -> bool:
    """Remove files, as far as the store allows; False if it cannot be reached."""
    store = Store(storage)
    try:
        store.delete(tuple(uri.removeprefix(f"{store.root}/") for uri in uris))
    except StorageUnreachableError:
        return False
    except StorageError:
        return True
    return True


def discard_unfinished(storage: AnyStorage, uris: Sequence[str], error: BaseException) -> None:
    """Remove the files of a writer that failed with this error; the last of them may be unfinished."""
    if not uris:
        return
    release_frames(error)  # a file that is closed later would write an object which has been removed
    if discard(storage, uris):
        Store(storage).abort_uploads(uris[-1].removeprefix(f"{storage.root}/"))


def discard_written(job: Job, files: Sequence[str], letters: Sequence[str]) -> None:
    """Remove data files of a job and its files of dead letters, by URI, because no commit will use them."""
    if files:
        discard(job.storage, files)
    if letters and job.letters is not None:
        discard(job.letters.storage, letters)


def discard_failed(job: Job, results: Sequence[JobResult]) -> None:
    """Remove the files of failed partitions, which other tasks have written."""
    for result in results:
        if result.error is not None:
            discard_written(job, [file.uri for file in result.files], [letter.uri for letter in result.letters])
            result.files.clear()
            result.letters.clear()


def discard_interrupted(job: Job) -> None:
    """Remove all files of a job that its server was asked to interrupt, also those of tasks that end late.

    A client does not see the tasks, and Spark kills the Python process of an interrupted one after two seconds.
    """
    for pause in (0.0, _KILLED_AFTER):
        time.sleep(pause)
        discard_all(job)


def discard_all(job: Job) -> None:
    """Remove all files of a job, by its own beginning of their names, as far as the store allows."""
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
