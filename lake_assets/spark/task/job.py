"""The values that the driver sends to the tasks, and their results, all of which pickle; and a failed job's clean-up.

The name of a file belongs to one attempt. An attempt or a job that fails removes its own files at once, so that a full
storage does not stay full. Maintenance removes those that a killed process leaves, or that cannot be removed now.
"""

import datetime as dt
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from lake_assets.base.errors import StorageError, StorageUnreachableError, release_frames
from lake_assets.base.json_dataclasses import Documented
from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition
from lake_assets.config.modes import Compression
from lake_assets.config.storages import AnyStorage
from lake_assets.schema.fitter import Target
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Part, Share
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store

_OF_DUCKLAKE = "ducklake-"  # with which the names begin that DuckLake gives
_MOST = 255  # bytes of a file name on most file systems

MARK = "held"  # in place of the fingerprint of a partition that refreshes leave alone; the ledger has its fingerprint

# No name that this package or DuckLake gave before ends like this: `fp` contains a letter that no hexadecimal has.
_FINGERPRINT = re.compile(r"-fp([0-9a-f]{64})\.parquet\Z")


def new_name(prefix: str, fingerprint: str | None) -> str:
    """Return a name that no other attempt of a task can have.

    The fingerprint of the landed objects, or `MARK`, is left out if it is None or the name is too long.
    """
    stem = f"{prefix}{secrets.token_hex(8)}"
    name = stem if fingerprint is None else f"{stem}-{MARK}" if fingerprint == MARK else f"{stem}-fp{fingerprint}"
    return f"{name if len(f'{name}.parquet'.encode()) <= _MOST else stem}.parquet"


def is_marked(path: str) -> bool:
    """Return whether a data file was written for a partition that was held then."""
    return path.endswith(f"-{MARK}.parquet")


def may_be_marked(path: str) -> bool:
    """Return whether a file may have rows of a partition that was held: DuckLake names files of updated rows itself."""
    return is_marked(path) or path.rpartition("/")[2].startswith(_OF_DUCKLAKE)


def named_fingerprint(path: str) -> str | None:
    """Return the fingerprint in the name of a data file; None if there is none."""
    match = _FINGERPRINT.search(path)
    return match.group(1) if match else None


MIN_SHARE = 8 * 2**20  # bytes of a task; below this a second task costs more than it saves
_MOST_THREADS = 4  # of a task; Python's own work for each object allows no more, and the cores may be other machines'


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """One partition of a job."""

    partition: Partition
    objects: tuple[LandedObject, ...]
    destination: str  # folder of the new files below the storage's root, ending in a slash


@dataclass(frozen=True, slots=True)
class StagingKey:
    """The key that encrypts a job's staged files.

    It is a class, so that a worker with an older version of this package cannot load the job. If it were a plain field,
    that worker would ignore it and write unencrypted files.
    """

    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CopyRules:
    """Which landed objects become data files of the table as they are."""

    codec: Compression | None  # that all their pages must have; None: any that every reader has
    least: int  # bytes of an object
    most: int  # bytes of an object
    reads_pages: bool  # read all their pages before, and not only the footer
    may_link: bool  # files of the landing zone never change in place

    def admits(self, landed: LandedObject) -> bool:
        """Return whether an object of this size may be copied."""
        return self.least <= landed.size <= self.most


@dataclass(frozen=True, slots=True)
class LetterRules:
    """Where the rows go that are left out one by one."""

    storage: AnyStorage
    folder: str  # key prefix of all partitions' files, ending in a slash
    tag: str  # the table's, in the files' names

    def folder_of(self, partition: Partition) -> str:
        """Return the key prefix of a partition's files, ending in a slash."""
        return f"{self.folder}{partition.path}/"


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one Spark job: some partitions of one stream."""

    run_id: str
    landed: LandingZone
    storage: AnyStorage
    schema: pa.Schema  # the data files'
    compression: Compression
    target_file_size: int  # bytes
    partitions: tuple[PartitionJob, ...]
    key: StagingKey | None = None  # of staged files; None for data files of the table
    fingerprints: Mapping[str, str] = field(default_factory=dict)  # for the files' names, by the partition's folder
    copies: CopyRules | None = None  # None: all objects are encoded
    letters: LetterRules | None = None  # where rows go that the rules of `landed` split off
    known: pa.Schema | None = None  # `schema` with the type null for columns, and parts, that have no type yet
    digests: bool = False  # report the digest of each object of which a task reads all bytes
    written_at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))  # of all rows, after the listing
    token: str = field(default_factory=lambda: secrets.token_hex(8))  # unique for each job

    @property
    def target(self) -> Target:
        """What the result of a transform is to fit."""
        return Target(self.known or self.schema, self.landed.rules.of_table)

    @property
    def file_prefix(self) -> str:
        """The begin of the name of each file of this job, and of no other."""
        return f"{self.run_id}-{self.token}"

    def file_key(self, folder: str) -> str:
        """Return a new key below a folder, which ends in a slash. No other attempt of a task can have the same key."""
        return folder + new_name(self.file_prefix, self.fingerprints.get(folder))

    def letter_key(self, rules: LetterRules, partition: Partition) -> str:
        """Return a new key of a file of rows that were left out. No other attempt of a task can have the same key."""
        return f"{rules.folder_of(partition)}{self.file_prefix}{secrets.token_hex(8)}-{rules.tag}.parquet"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task wrote."""

    uri: str
    rows: int
    size: int  # bytes
    is_copy: bool = False  # of a landed object; the others are encoded
    footer: bytes | None = field(default=None, repr=False)  # as in `footers`; None: unknown, or large


@dataclass(frozen=True, slots=True)
class LetterFile(Documented):
    """A file of landed rows that are not in the lake."""

    landed: Annotated[str, Field(serialization_alias="object")]
    """Path or URI of the landed object."""
    uri: str
    """Path or URI of the file."""
    rows: int
    """Its rows."""
    size: Annotated[int, Field(serialization_alias="bytes")]
    """Its size in bytes."""
    reason: Annotated[str, Field(serialization_alias="why")]
    """What is wrong with its first row."""

    def __str__(self) -> str:
        return f"{count(self.rows, 'row')} of {self.landed} in {self.uri}, the first: {self.reason}"


@dataclass(slots=True)
class JobResult:
    """The result of one partition: its files, or its first error."""

    files: list[DataFile] = field(default_factory=list)
    letters: list[LetterFile] = field(default_factory=list)
    error: Exception | None = None
    rows: Counter[str] = field(default_factory=Counter)  # that were read, with those in letters, by the objects' keys
    digests: dict[str, str] = field(default_factory=dict)  # of the objects' content, by key
    refused: dict[str, str] = field(default_factory=dict)  # why objects are bad, or are not copied, by key


def split_objects(objects: tuple[LandedObject, ...], target: int, cores: int) -> list[list[Share]]:
    """Distribute a partition's objects over tasks with about equal bytes, at least one for each core if it has enough.

    No task gets more than the target, in bytes of a data file. An object that is larger than a task's share is split.
    Bytes are those of the listing; no footer is read.
    """
    total = sum(obj.size for obj in objects)
    tasks = max(-(-total // target), min(cores, total // MIN_SHARE), 1)
    limit = max(-(-total // tasks), 1)  # objects may be empty
    bins: list[list[Share]] = [[]]
    filled = 0
    for obj in objects:
        parts = max(round(obj.size / limit), 1)
        for part in range(parts):
            size = obj.size // parts
            # A share goes to the next task if more than half of it would exceed this task's limit.
            if bins[-1] and filled + size / 2 > limit * len(bins):
                bins.append([])
            bins[-1].append(Share(obj, Part(part, parts)))
            filled += size
    return bins


def spark_tasks(bins: int, size: int, cores: int) -> int:
    """Return the number of Spark tasks for lists of shares with these bytes; small lists share a task.

    Between two tasks a core waits for some ten milliseconds, so there are just two for each.
    """
    return max(min(bins, max(2 * cores, size // MIN_SHARE)), 1)


def task_threads(tasks: int, cores: int) -> int:
    """Return how many threads of a task decode small objects: those of the cores that the job leaves idle."""
    return max(min(cores // tasks, _MOST_THREADS), 1)


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
        with suppress(StorageError):
            discard(storage, [obj.uri for obj in store.list(folder) if obj.key.startswith(prefix)])
            store.abort_uploads(prefix)

    list(requested(storage, discard_folder, dict.fromkeys(folders)))
