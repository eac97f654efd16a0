"""Reading a range of a store's keys into digests, folder by folder, within a time budget."""

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Protocol

from lake_assets.base.texts import HASH_BITS, hash_of, storable
from lake_assets.config.layout.partition import Partition
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.overlapping import listing_position
from lake_assets.streams.calendar import deferred
from lake_assets.streams.left_out import LeftOutClass, class_of
from lake_assets.streams.locator import PartitionLocator

MOST = 1000  # ranges; their cursor has about 12 kB, which Dagster stores with every tick
MOST_OBJECTS = 10_000  # of a range: it is read whole or not at all, and that must not take long


@dataclass(frozen=True, slots=True)
class FolderDigest:
    """The sum of the objects' hashes and their number.

    A sum does not depend on the order of the objects, can be computed over several ticks, and can be added to the
    digests of other folders.
    """

    hash_sum: int = 0
    objects: int = 0

    def plus(self, other: "FolderDigest") -> "FolderDigest":
        """Return the digest of both sets together."""
        return FolderDigest((self.hash_sum + other.hash_sum) % 2**HASH_BITS, self.objects + other.objects)


EMPTY_DIGEST = FolderDigest()


def total_digest(digests: Iterable[FolderDigest]) -> FolderDigest:
    """Return the digest of all sets together."""
    return reduce(FolderDigest.plus, digests, EMPTY_DIGEST)


def folder_digest(objects: Iterable[LandedObject]) -> FolderDigest:
    """Return the digest of these objects, from keys, ETags and sizes, so that a rewritten object changes it.

    Times are not used: clocks differ, a multipart upload has the time of its beginning, and a moved file keeps its
    old time. A time replaces the ETag if a store has none.
    """
    hashes = [hash_of(obj.key, obj.etag or obj.last_modified.timestamp(), obj.size) for obj in objects]
    return FolderDigest(sum(hashes) % 2**HASH_BITS, len(hashes))


@dataclass(frozen=True, slots=True)
class DigestRange:
    """The digest of one folder, or of all folders from `first` to `last`."""

    first: str
    last: str
    digest: FolderDigest
    folders: int = 1

    def joined(self, other: "DigestRange") -> "DigestRange":
        """Return the range of both; `other` follows this one."""
        return DigestRange(self.first, other.last, self.digest.plus(other.digest), self.folders + other.folders)


class DigestRanges:
    """Ranges that do not overlap, in the order in which the store lists their folders.

    Each folder has its own range, up to `MOST` ranges. Above that, neighbours are joined. `tree` says that the store
    lists folder by folder.
    """

    def __init__(self, ranges: Iterable[DigestRange] = (), *, tree: bool = False) -> None:
        self._tree = tree
        self._ranges = sorted(ranges, key=self._at)

    def __iter__(self) -> Iterator[DigestRange]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def of(self, folder: str) -> DigestRange | None:
        """Return the range that holds the folder; None if there is none."""
        key_position = listing_position(folder, tree=self._tree)
        at = bisect_right(self._ranges, key_position, key=self._at) - 1
        is_held = at >= 0 and key_position <= listing_position(self._ranges[at].last, tree=self._tree)
        return self._ranges[at] if is_held else None

    def add(self, folder: str, digest: FolderDigest) -> None:
        """Add a folder that no range counts yet. One within a joined range becomes part of it."""
        range_ = self.of(folder)
        if range_ is None:
            self.put(DigestRange(folder, folder, digest))
        else:
            self.remove(range_)
            self.put(DigestRange(range_.first, range_.last, range_.digest.plus(digest), range_.folders + 1))

    def put(self, range_: DigestRange) -> None:
        """Add a range that overlaps no other."""
        insort(self._ranges, range_, key=self._at)

    def remove(self, range_: DigestRange) -> None:
        """Remove a range."""
        del self._ranges[bisect_left(self._ranges, self._at(range_), key=self._at)]

    def _at(self, range_: DigestRange) -> str:
        return listing_position(range_.first, tree=self._tree)

    def shrink(self, most: int = MOST) -> None:
        """Join neighbours, the smallest first, until `most` ranges are left or all are too large to join."""
        size = 2
        while len(self._ranges) > most and size <= 2**20:
            joined: list[DigestRange] = []
            for range_ in self._ranges:
                last = joined[-1] if joined else None
                if (
                    last is not None
                    and last.folders + range_.folders <= size
                    and last.digest.objects + range_.digest.objects <= MOST_OBJECTS
                ):
                    joined[-1] = last.joined(range_)
                else:
                    joined.append(range_)
            self._ranges = joined
            size *= 2


# A sensor names these objects.
REPORTED: frozenset[LeftOutClass] = frozenset({"unmatched", "spelling", "outside", "odd"})
MOST_UNMATCHED = 1000  # unmatched objects that one reading names; further ones are counted
MOST_KEPT = 100_000  # objects that one reading keeps: some 50 MB


class Listing(Protocol):
    """A store that lists its objects in the order of their keys: `Store`, or a test's store in memory."""

    def pages(self, prefix: str = "", after: str = "", *, tree: bool = False) -> Iterator[Sequence[LandedObject]]:
        """Yield the objects below a folder whose keys sort after a text, a page for each request; see `Store.pages`."""

    def folders(self, prefix: str = "") -> Sequence[str]:
        """Return the paths of the folders directly below a folder, without a slash at their ends."""

    def is_marker(self, landed: LandedObject) -> bool:
        """Return whether an object is the marker of a folder; see `Store.is_marker`."""


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """The position of a pass over the keys below a prefix."""

    prefix: str  # a folder with a slash at its end, or the empty text
    after: str = ""  # keys up to this text have been read
    folder: str = ""  # that was being read when time ran out; the empty text between two folders
    digest: FolderDigest = EMPTY_DIGEST  # of that folder's objects so far
    partitions: tuple[str, ...] = ()  # of these objects, as `Partition.path`


@dataclass(slots=True)
class ScannedFolder:
    """The objects of a folder, or of a stem if the layout has the names of files, as digests."""

    path: str  # with a slash at its end; or the stem
    digest: FolderDigest = EMPTY_DIGEST  # of all objects
    older: FolderDigest = EMPTY_DIGEST  # that of the objects that are older than the scan before this one
    newest: float = 0  # Unix time of the newest object, in seconds
    size: int = 0  # bytes of the objects, without those of an interrupted reading before
    # By partition, of which there is one unless the layout is `nested`: the objects, as far as the reading keeps them.
    partitions: dict[Partition, list[LandedObject]] = field(default_factory=dict)
    is_kept: bool = True  # the reading keeps all objects that it counts

    def count(self, objects: Sequence[LandedObject], partition: Partition, since: float, *, keep: bool) -> None:
        """Add objects of one partition."""
        times = [landed.last_modified.timestamp() for landed in objects]
        self.digest = self.digest.plus(folder_digest(objects))
        self.newest = max(self.newest, *times)
        self.size += sum(landed.size for landed in objects)
        older = [landed for landed, time in zip(objects, times, strict=True) if time < since]
        self.older = self.older.plus(folder_digest(older))
        self.partitions.setdefault(partition, []).extend(objects if keep else ())
        self.is_kept = self.is_kept and keep

    def end(self, *, tree: bool) -> str:
        """Return a text that sorts after all keys of the folder and before those of the next."""
        return f"{self.path[:-1]}\x01" if tree else f"{self.path[:-1]}0"  # the character that follows the slash


@dataclass(frozen=True, slots=True)
class UnmatchedKey:
    """An object in no partition, or a message that cannot be used."""

    key: str
    reason: str

    @property
    def hash(self) -> int:
        """Identifies the object and the reason in the cursor."""
        return hash_of(self.key, self.reason, bits=32)


@dataclass(slots=True)
class Reading:
    """The result of reading a range of keys."""

    start: ScanPosition
    tree: bool  # the store lists folder by folder
    folders: list[ScannedFolder] = field(default_factory=list)  # whole folders with data, in the order of their keys
    unmatched: list[UnmatchedKey] = field(default_factory=list)  # up to `MOST_UNMATCHED`
    left_out: dict[str, LeftOutClass] = field(default_factory=dict)  # each object that no refresh reads, by key
    objects: int = 0  # that were listed
    rest: ScanPosition | None = None  # the position to continue from; None at the end of the prefix

    def covers(self, folder: str) -> bool:
        """Return whether the reading has all objects of a folder, if it has any."""
        at = listing_position(folder, tree=self.tree)
        start = listing_position(self.start.after, tree=self.tree)
        if not folder.startswith(self.start.prefix) or (at < start and folder != self.start.folder):
            return False
        if self.rest is None:
            return True
        return at < listing_position(self.rest.after, tree=self.tree) and folder != self.rest.folder

    def lists(self, prefix: str) -> bool:
        """Return whether the reading has listed every key below a folder, also those in the folders within it."""
        at = listing_position(prefix, tree=self.tree)
        if not prefix.startswith(self.start.prefix) or at < listing_position(self.start.after, tree=self.tree):
            return False
        rest = self.rest
        return rest is None or (at < listing_position(rest.after, tree=self.tree) and not rest.after.startswith(prefix))


@dataclass(frozen=True)
class Reader:
    """Reads keys for one scan."""

    listing: Listing
    depth: int  # at which folders have a digest of their own
    locator: PartitionLocator
    deadline: float  # of `clock`: reading stops after the page at hand
    tree: bool = False  # the store lists folder by folder
    keeps: bool = False  # the folders have their objects
    clock: Callable[[], float] = time.monotonic  # seconds

    def is_late(self) -> bool:
        """Return whether the time budget is used up."""
        return self.clock() > self.deadline

    def read(
        self,
        start: ScanPosition,
        *,
        since: float = 0,
        most: int | None = None,
        may_stop: Callable[[str, str], bool] = lambda *_: True,
    ) -> Reading:
        """Read the keys from a position on.

        Objects older than `since`, Unix time in seconds, also have a digest of their own, `Folder.older`. After `most`
        objects it stops between two folders, if `may_stop` says so of these.
        """
        reading = Reading(start, self.tree)
        folder = ScannedFolder(
            start.folder, start.digest, partitions={self.locator.at(path): [] for path in start.partitions}
        )
        last = start.after
        of_files = self.locator.template.file_parts > 0
        for page in self.listing.pages(start.prefix, start.after, tree=self.tree):
            for of_group, objects in self._groups(page):
                # Behind objects that fit no name of files, others of the stem may follow.
                is_between = of_group is None and objects[0].key.startswith(folder.path)
                path = folder.path if is_between else of_group or ""
                if folder.path != path or (of_files and not path):
                    _close(reading, folder)
                    ends = (folder.path or last, path or objects[0].key)
                    if most is not None and reading.objects >= most and may_stop(*ends):
                        end = folder.end(tree=self.tree) if self._is_whole(folder) and not of_files else last
                        reading.rest = ScanPosition(start.prefix, end)
                        return reading
                    folder = ScannedFolder(path)
                reading.objects += len(objects)
                last = objects[-1].key
                self._count(reading, folder, objects, since)
            if self.is_late():
                reading.rest = self._interrupted(reading, folder, last)
                return reading
        _close(reading, folder)
        return reading

    def _count(self, reading: Reading, folder: ScannedFolder, objects: Sequence[LandedObject], since: float) -> None:
        """Add the objects of one directory to the folder, or to the unmatched objects."""
        data: dict[Partition, list[LandedObject]] = {}
        for landed in objects:
            location = self.locator.find(landed.key)
            if isinstance(location, Partition):
                if not self.listing.is_marker(landed):
                    data.setdefault(location, []).append(landed)
                continue
            kind = reading.left_out[landed.key] = class_of(location)
            if kind in REPORTED and len(reading.unmatched) < MOST_UNMATCHED:
                reading.unmatched.append(UnmatchedKey(storable(landed.key), str(deferred(location))))
        for partition, of_partition in data.items():
            folder.count(of_partition, partition, since, keep=self.keeps and reading.objects <= MOST_KEPT)

    def _groups(self, page: Sequence[LandedObject]) -> Iterator[tuple[str | None, list[LandedObject]]]:
        """Yield neighbouring objects with their folder or stem; None for those that fit no name of files."""
        template = self.locator.template
        if template.file_parts:
            for stem, group in groupby(page, key=lambda landed: template.stem(landed.key)):
                yield stem, list(group)
        else:
            for directory, of_directory in groupby(page, key=_directory):
                yield "".join(f"{name}/" for name in directory[: self.depth]), list(of_directory)

    def _is_whole(self, folder: ScannedFolder) -> bool:
        """Return whether the folder has the layout's depth; above that depth there are only unmatched objects."""
        return bool(folder.path) if self.locator.template.file_parts else folder.path.count("/") == self.depth

    def _interrupted(self, reading: Reading, folder: ScannedFolder, last: str) -> ScanPosition:
        """Return the position after an interruption: an unfinished folder's start, unless it takes a whole scan."""
        prefix = reading.start.prefix
        if not self._is_whole(folder):
            return ScanPosition(prefix, last)
        if reading.folders:
            return ScanPosition(prefix, folder.path)
        return ScanPosition(
            prefix, last, folder.path, folder.digest, tuple(partition.path for partition in folder.partitions)
        )


def _directory(landed: LandedObject) -> list[str]:
    return landed.key.split("/")[:-1]


def _close(reading: Reading, folder: ScannedFolder) -> None:
    if folder.digest.objects:
        reading.folders.append(folder)
