"""What the driver tells the tasks, and what they tell back: plain values that pickle."""

import secrets
from dataclasses import dataclass, field

import pyarrow as pa

from lake_assets.config.storages import AnyStorage
from lake_assets.config.streams import Compression
from lake_assets.layout.derived import Derived
from lake_assets.layout.partition import Partition
from lake_assets.parquet.path_columns import PathColumns
from lake_assets.storage.store import LandedObject

# A file of a task's share is split when it is larger than the target; smaller ones share a task.
MIN_SHARE = 8 * 2**20  # bytes; below this a second task costs more than it saves


@dataclass(frozen=True, slots=True)
class Share:
    """The part of an object that one task reads: row groups `part·n/parts` up to `(part+1)·n/parts` of its n."""

    key: str
    etag: str
    size: int  # bytes, of the whole object
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """One partition's work."""

    partition: Partition
    objects: tuple[LandedObject, ...]
    destination: str  # folder below the storage's root that the new files go to, ending in a slash


@dataclass(frozen=True, slots=True)
class StagingKey:
    """The key under which a job's files are staged.

    A class of its own, so that a worker with an older version of this package, which would pass over a mere field of
    the job and write plain text, cannot even load the job.
    """

    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one Spark job: some partitions of one stream."""

    run_id: str
    source: AnyStorage
    storage: AnyStorage
    schema: pa.Schema  # of the data files
    compression: Compression
    target_file_size: int  # bytes
    partitions: tuple[PartitionJob, ...]
    evolves: bool = False  # a column may be missing; one that is new or wider is told, and not refused
    key: StagingKey | None = None  # the files are staged under it, not the table's own
    paths: PathColumns | None = None  # columns that the objects' paths say
    derived: tuple[Derived, ...] = ()  # partition columns that are made of another column of the objects
    selects: bool = False  # of the objects' rows, those of the partition, by the columns that are in the rows
    token: str = field(default_factory=lambda: secrets.token_hex(8))  # which no other job has, of this run or another

    @property
    def file_prefix(self) -> str:
        """What the name of each file of this job begins with, and of no other's."""
        return f"{self.run_id}-{self.token}"

    def file_key(self, folder: str) -> str:
        """A key for a new file, which no other attempt of a task can have.

        Args:
            folder: key prefix, ending in a slash.
        """
        return f"{folder}{self.file_prefix}{secrets.token_hex(8)}.parquet"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task wrote."""

    uri: str
    rows: int
    size: int  # bytes


@dataclass(slots=True)
class JobResult:
    """What became of one partition's work: its files, or the first error that makes it fail."""

    files: list[DataFile] = field(default_factory=list)
    error: Exception | None = None


def shares(objects: tuple[LandedObject, ...], target: int, cores: int) -> list[list[Share]]:
    """Spread objects over tasks: each task about as many bytes as the others, none above the target file size.

    The bytes are those of the compressed objects, which the listing tells; no footer is read for it.

    Args:
        objects: a partition's objects.
        target: bytes of a data file.
        cores: tasks that run side by side; the work is split for all of them if there is enough.
    """
    total = sum(o.size for o in objects)
    tasks = max(-(-total // target), min(cores, total // MIN_SHARE), 1)
    limit = -(-total // tasks)
    bins: list[list[Share]] = [[]]
    filled = 0
    for o in objects:
        parts = max(round(o.size / limit), 1)
        for part in range(parts):
            size = o.size // parts
            # A share goes to the next task when more of it would lie above this task's limit than below.
            if bins[-1] and filled + size / 2 > limit * len(bins):
                bins.append([])
            bins[-1].append(Share(o.key, o.etag, o.size, part, parts))
            filled += size
    return bins


def spark_tasks(bins: int, size: int, cores: int) -> int:
    """How many Spark tasks so many bins become: one each, but small ones share, since a task itself takes some 50 ms.

    Args:
        bins: lists of shares, as `shares` gives them for each partition.
        size: bytes of all objects together.
        cores: tasks that run side by side.
    """
    return max(min(bins, max(4 * cores, size // MIN_SHARE)), 1)
