"""A mark: what is remembered of a set of objects, whatever their number."""

import hashlib
from collections.abc import Iterable
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
    """A hash of these parts' texts; `bits` is a multiple of 8."""
    text = "\0".join(map(str, parts)).encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=bits // 8).digest(), "big")


def mark_of(objects: Iterable[LandedObject]) -> Mark:
    """The mark of these objects: of their keys, ETags and sizes, by which a rewritten object is another one.

    Their times do not count: clocks differ, a multipart upload bears the time of its beginning, and a moved file its
    old one. A time stands in where a store gives no ETag.
    """
    hashes = [hash_of(o.key, o.etag or o.last_modified.timestamp(), o.size) for o in objects]
    return Mark(sum(hashes) % 2**_BITS, len(hashes))
