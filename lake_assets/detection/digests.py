"""The digest of a set of objects: its size does not depend on their number."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from lake_assets.storage.store import LandedObject

_BITS = 40  # a change goes unseen once in 2^40; the cursor holds thousands of digests


@dataclass(frozen=True, slots=True)
class FolderDigest:
    """The sum of the objects' hashes and their number.

    A sum, so that it does not depend on their order, can be taken over several ticks, and that the digest of several
    folders is the sum of theirs.
    """

    hash_sum: int = 0
    objects: int = 0

    def plus(self, other: "FolderDigest") -> "FolderDigest":
        """The digest of both sets together."""
        return FolderDigest((self.hash_sum + other.hash_sum) % 2**_BITS, self.objects + other.objects)


NOTHING = FolderDigest()


def hash_of(*parts: object, bits: int = _BITS) -> int:
    """A hash of these parts' texts; `bits` is a multiple of 8."""
    text = "\0".join(map(str, parts)).encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=bits // 8).digest(), "big")


def digest_of(objects: Iterable[LandedObject]) -> FolderDigest:
    """The digest of these objects: of their keys, ETags and sizes, by which a rewritten object is another one.

    Their times do not count: clocks differ, a multipart upload bears the time of its beginning, and a moved file its
    old one. A time stands in where a store gives no ETag.
    """
    hashes = [hash_of(o.key, o.etag or o.last_modified.timestamp(), o.size) for o in objects]
    return FolderDigest(sum(hashes) % 2**_BITS, len(hashes))
