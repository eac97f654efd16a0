"""Digests of sets of objects, of one size for any number of objects; and those of many folders in bounded space."""

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.walk import position

MOST = 1000  # ranges; their cursor has about 12 kB, which Dagster stores with every tick
MOST_OBJECTS = 10_000  # of a range: it is read whole or not at all, and that must not take long

_BITS = 40  # a change is missed once in 2^40; the cursor holds thousands of digests


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
        return FolderDigest((self.hash_sum + other.hash_sum) % 2**_BITS, self.objects + other.objects)


NOTHING = FolderDigest()


def total(digests: Iterable[FolderDigest]) -> FolderDigest:
    """Return the digest of all sets together."""
    return reduce(FolderDigest.plus, digests, NOTHING)


def hash_of(*parts: object, bits: int = _BITS) -> int:
    """Return a hash of the texts of the parts; `bits` is a multiple of 8."""
    text = "\0".join(map(str, parts)).encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=bits // 8).digest(), "big")


def digest_of(objects: Iterable[LandedObject]) -> FolderDigest:
    """Return the digest of these objects, from keys, ETags and sizes, so that a rewritten object changes it.

    Times are not used: clocks differ, a multipart upload has the time of its beginning, and a moved file keeps its
    old time. A time replaces the ETag if a store has none.
    """
    hashes = [hash_of(obj.key, obj.etag or obj.last_modified.timestamp(), obj.size) for obj in objects]
    return FolderDigest(sum(hashes) % 2**_BITS, len(hashes))


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

    Each folder has its own range, up to `MOST` ranges. Above that, neighbours are joined.

    Args:
        tree: the store lists folder by folder.
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
        key_position = position(folder, tree=self._tree)
        at = bisect_right(self._ranges, key_position, key=self._at) - 1
        is_held = at >= 0 and key_position <= position(self._ranges[at].last, tree=self._tree)
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
        return position(range_.first, tree=self._tree)

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
