"""Digests of sets of objects. The size of a digest does not depend on the number of objects."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from lake_assets.storage.manifest import LandedObject

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
