"""Reading a stretch of a store's keys into marks, folder by folder, within a budget."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lake_assets.detection.digests import NOTHING, Mark, hash_of, mark_of
from lake_assets.detection.listing import Listing
from lake_assets.detection.locator import Admission
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import storable
from lake_assets.storage.names import is_data, is_hidden
from lake_assets.storage.store import LandedObject
from lake_assets.storage.walk import position

# Objects outside the layout that one tick tells apart; the others are counted.
MOST_STRAYS = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pass over the keys below a prefix stands.

    Attributes:
        prefix: a folder with a slash at its end, or the empty text.
        after: keys up to this text have been read.
        folder: what was being read when time ran out; the empty text between two folders.
        mark: of that folder's objects so far.
        partitions: of these objects, as `Partition.path`.
    """

    prefix: str
    after: str = ""
    folder: str = ""
    mark: Mark = NOTHING
    partitions: tuple[str, ...] = ()


@dataclass(slots=True)
class Folder:
    """What a folder holds.

    Attributes:
        path: with a slash at its end.
        mark: of all its objects.
        settled: of those that are older than the look before this one.
        newest: the latest time of its objects, in seconds of Unix time.
        partitions: which its objects belong to; one, unless the layout is `nested`.
    """

    path: str
    mark: Mark = NOTHING
    settled: Mark = NOTHING
    newest: float = 0
    partitions: dict[Partition, None] = field(default_factory=dict)

    def count(self, objects: Sequence[LandedObject], partition: Partition, since: float) -> None:
        """Count some objects of one partition in."""
        times = [landed.last_modified.timestamp() for landed in objects]
        self.mark = self.mark.plus(mark_of(objects))
        self.newest = max(self.newest, *times)
        older = [landed for landed, time in zip(objects, times, strict=True) if time < since]
        self.settled = self.settled.plus(mark_of(older))
        self.partitions.setdefault(partition)

    def end(self, *, tree: bool) -> str:
        """A text after all keys of the folder and before those of the next."""
        return f"{self.path[:-1]}\x01" if tree else f"{self.path[:-1]}0"  # the character that follows the slash


@dataclass(frozen=True, slots=True)
class Stray:
    """An object that belongs to no partition."""

    key: str
    reason: str

    @property
    def hash(self) -> int:
        """By which it is known again; the same object for another reason is another stray."""
        return hash_of(self.key, self.reason, bits=32)


@dataclass(slots=True)
class Reading:
    """What was read.

    Attributes:
        begun: where.
        tree: the store lists folder by folder.
        folders: in the order of their keys, all whole; those without data are left out.
        strays: the first of them.
        objects: how many were listed.
        left: where to go on; None at the end of the prefix.
    """

    begun: Place
    tree: bool
    folders: list[Folder] = field(default_factory=list)
    strays: list[Stray] = field(default_factory=list)
    objects: int = 0
    left: Place | None = None

    def covers(self, folder: str) -> bool:
        """Whether a folder of this name would have been read whole, if it had objects."""
        at = position(folder, tree=self.tree)
        begun = position(self.begun.after, tree=self.tree)
        if not folder.startswith(self.begun.prefix) or (at < begun and folder != self.begun.folder):
            return False
        if self.left is None:
            return True
        return at < position(self.left.after, tree=self.tree) and folder != self.left.folder


@dataclass(frozen=True)
class Reader:
    """How keys are read in one look.

    Attributes:
        listing: the store.
        files: pattern of the file names that count.
        depth: folders of a path that are taken as one.
        admission: tells the partitions.
        deadline: of `clock`, when to stop wherever that is.
        tree: the store lists folder by folder.
        clock: seconds of a clock that only goes forward.
    """

    listing: Listing
    files: str
    depth: int
    admission: Admission
    deadline: float
    tree: bool = False
    clock: Callable[[], float] = time.monotonic

    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.clock() > self.deadline

    def read(
        self,
        place: Place,
        *,
        since: float = 0,
        most: int | None = None,
        may_stop: Callable[[str, str], bool] = lambda *_: True,
    ) -> Reading:
        """Read on from a place.

        Args:
            place: where to begin.
            since: Unix time; objects older than that are marked by themselves too.
            most: objects, after which to stop between two folders.
            may_stop: whether to stop between these two folders then.

        Raises:
            StorageError: the store cannot be listed.
        """
        reading = Reading(place, self.tree)
        folder = Folder(place.folder, place.mark, partitions=dict.fromkeys(self.admission.parse(place.partitions)))
        last = place.after
        for page in self.listing.pages(place.prefix, place.after, tree=self.tree):
            for directory, found in groupby(page, key=_directory):
                path = "".join(f"{name}/" for name in directory[: self.depth])
                if folder.path != path:
                    _close(reading, folder)
                    if most is not None and reading.objects >= most and may_stop(folder.path, path):
                        end = folder.end(tree=self.tree) if self._is_whole(folder) else last
                        reading.left = Place(place.prefix, end)
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
            partition = self.admission.of(objects[0].key)
        except LakeAssetsError as error:
            room = MOST_STRAYS - len(reading.strays)
            reading.strays += [Stray(storable(landed.key), str(error)) for landed in objects[:room]]
        else:
            folder.count(objects, partition, since)

    def _is_whole(self, folder: Folder) -> bool:
        """Whether this is a folder of the layout's depth; above it lie only strays, each for itself."""
        return folder.path.count("/") == self.depth

    def _interrupted(self, reading: Reading, folder: Folder, last: str) -> Place:
        """A folder that was begun is begun anew, unless nothing else was read: it may take longer than one look."""
        prefix = reading.begun.prefix
        if not self._is_whole(folder):
            return Place(prefix, last)
        if reading.folders:
            return Place(prefix, folder.path)
        return Place(prefix, last, folder.path, folder.mark, tuple(partition.path for partition in folder.partitions))


def _directory(landed: LandedObject) -> list[str]:
    return landed.key.split("/")[:-1]


def _close(reading: Reading, folder: Folder) -> None:
    if folder.mark.objects:
        reading.folders.append(folder)
