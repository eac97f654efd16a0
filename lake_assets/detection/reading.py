"""Reading a stretch of a store's keys into digests, folder by folder, within a budget."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lake_assets.detection.digests import NOTHING, FolderDigest, digest_of, hash_of
from lake_assets.detection.listing import Listing
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import storable
from lake_assets.storage.names import is_data, is_hidden
from lake_assets.storage.store import LandedObject
from lake_assets.storage.walk import position
from lake_assets.streams.locator import PartitionLocator

# Objects outside the layout that one tick names; the others are counted.
MOST_UNMATCHED = 1000


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """How far a pass over the keys below a prefix has come.

    Attributes:
        prefix: a folder with a slash at its end, or the empty text.
        after: keys up to this text have been read.
        folder: what was being read when time ran out; the empty text between two folders.
        digest: of that folder's objects so far.
        partitions: of these objects, as `Partition.path`.
    """

    prefix: str
    after: str = ""
    folder: str = ""
    digest: FolderDigest = NOTHING
    partitions: tuple[str, ...] = ()


@dataclass(slots=True)
class Folder:
    """What a folder holds.

    Attributes:
        path: with a slash at its end.
        digest: of all its objects.
        older: of those that are older than the scan before this one.
        newest: the latest time of its objects, in seconds of Unix time.
        partitions: which its objects belong to; one, unless the layout is `nested`.
    """

    path: str
    digest: FolderDigest = NOTHING
    older: FolderDigest = NOTHING
    newest: float = 0
    partitions: dict[Partition, None] = field(default_factory=dict)

    def count(self, objects: Sequence[LandedObject], partition: Partition, since: float) -> None:
        """Count some objects of one partition in."""
        times = [landed.last_modified.timestamp() for landed in objects]
        self.digest = self.digest.plus(digest_of(objects))
        self.newest = max(self.newest, *times)
        older = [landed for landed, time in zip(objects, times, strict=True) if time < since]
        self.older = self.older.plus(digest_of(older))
        self.partitions.setdefault(partition)

    def end(self, *, tree: bool) -> str:
        """A text after all keys of the folder and before those of the next."""
        return f"{self.path[:-1]}\x01" if tree else f"{self.path[:-1]}0"  # the character that follows the slash


@dataclass(frozen=True, slots=True)
class UnmatchedKey:
    """An object that belongs to no partition."""

    key: str
    reason: str

    @property
    def hash(self) -> int:
        """By which it is known again; the same object for another reason is another one."""
        return hash_of(self.key, self.reason, bits=32)


@dataclass(slots=True)
class Reading:
    """What was read.

    Attributes:
        start: where.
        tree: the store lists folder by folder.
        folders: in the order of their keys, all whole; those without data are left out.
        unmatched: the first of them.
        objects: how many were listed.
        left: where to go on; None at the end of the prefix.
    """

    start: ScanPosition
    tree: bool
    folders: list[Folder] = field(default_factory=list)
    unmatched: list[UnmatchedKey] = field(default_factory=list)
    objects: int = 0
    left: ScanPosition | None = None

    def covers(self, folder: str) -> bool:
        """Whether a folder of this name would have been read whole, if it had objects."""
        at = position(folder, tree=self.tree)
        start = position(self.start.after, tree=self.tree)
        if not folder.startswith(self.start.prefix) or (at < start and folder != self.start.folder):
            return False
        if self.left is None:
            return True
        return at < position(self.left.after, tree=self.tree) and folder != self.left.folder


@dataclass(frozen=True)
class Reader:
    """How keys are read in one scan.

    Attributes:
        listing: the store.
        files: pattern of the file names that count.
        depth: folders of a path that are taken as one.
        locator: finds the partitions.
        deadline: of `clock`, when to stop wherever that is.
        tree: the store lists folder by folder.
        clock: seconds of a clock that only goes forward.
    """

    listing: Listing
    files: str
    depth: int
    locator: PartitionLocator
    deadline: float
    tree: bool = False
    clock: Callable[[], float] = time.monotonic

    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.clock() > self.deadline

    def read(
        self,
        start: ScanPosition,
        *,
        since: float = 0,
        most: int | None = None,
        may_stop: Callable[[str, str], bool] = lambda *_: True,
    ) -> Reading:
        """Read on from a position.

        Args:
            start: the position to begin at.
            since: Unix time; objects older than that have a digest of their own too.
            most: objects, after which to stop between two folders.
            may_stop: whether to stop between these two folders then.

        Raises:
            StorageError: the store cannot be listed.
        """
        reading = Reading(start, self.tree)
        folder = Folder(
            start.folder, start.digest, partitions=dict.fromkeys(self.locator.at(path) for path in start.partitions)
        )
        last = start.after
        for page in self.listing.pages(start.prefix, start.after, tree=self.tree):
            for directory, found in groupby(page, key=_directory):
                path = "".join(f"{name}/" for name in directory[: self.depth])
                if folder.path != path:
                    _close(reading, folder)
                    if most is not None and reading.objects >= most and may_stop(folder.path, path):
                        end = folder.end(tree=self.tree) if self._is_whole(folder) else last
                        reading.left = ScanPosition(start.prefix, end)
                        return reading
                    folder = Folder(path)
                objects = list(found)
                reading.objects += len(objects)
                last = objects[-1].key
                if not is_hidden(directory):
                    data = [o for o in objects if is_data([o.key.rpartition("/")[2]], self.files)]
                    self._count(reading, folder, data, since)
            if self.is_late():
                reading.left = self._interrupted(reading, folder, last)
                return reading
        _close(reading, folder)
        return reading

    def _count(self, reading: Reading, folder: Folder, objects: Sequence[LandedObject], since: float) -> None:
        """Count what one directory holds of data in, or note that it belongs to no partition."""
        if not objects:
            return
        try:
            partition = self.locator.of(objects[0].key)
        except LakeAssetsError as error:
            room = MOST_UNMATCHED - len(reading.unmatched)
            reading.unmatched += [UnmatchedKey(storable(landed.key), str(error)) for landed in objects[:room]]
        else:
            folder.count(objects, partition, since)

    def _is_whole(self, folder: Folder) -> bool:
        """Whether this is a folder of the layout's depth; above it lie only unmatched objects, each for itself."""
        return folder.path.count("/") == self.depth

    def _interrupted(self, reading: Reading, folder: Folder, last: str) -> ScanPosition:
        """Read a folder that was begun again from its start, unless it alone takes longer than one scan."""
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


def _close(reading: Reading, folder: Folder) -> None:
    if folder.digest.objects:
        reading.folders.append(folder)
