"""A mark: what is remembered of a set of objects, whatever their number."""

import hashlib
from dataclasses import dataclass

from lake_assets.storage.store import LandedObject

_BITS = 40  # a change goes unseen once in 2^40; the cursor holds thousands of marks


@dataclass(frozen=True, slots=True)
class Mark:
    """The sum of the objects' hashes and their number.

    A sum, so that it does not depend on their order, can be taken over several ticks, and that the mark of several
    folders is the sum of their marks.
    """

    digest: int = 0
    objects: int = 0

    def plus(self, other: "Mark") -> "Mark":
        """The mark of both sets together."""
        return Mark((self.digest + other.digest) % 2**_BITS, self.objects + other.objects)


NOTHING = Mark()


def hash_of(*parts: object, bits: int = _BITS) -> int:
    """A hash of these parts' texts."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(errors="surrogateescape"), digest_size=8)
    return int.from_bytes(digest.digest(), "big") >> (64 - bits)


def mark_of(landed: LandedObject) -> Mark:
    """The mark of one object: its key, ETag and size, by which a rewritten object is another one.

    Its time does not count: clocks differ, a multipart upload bears the time of its beginning, and a moved file its old
    one. It stands in where a store gives no ETag.
    """
    return Mark(hash_of(landed.key, landed.etag or landed.last_modified.timestamp(), landed.size), 1)
