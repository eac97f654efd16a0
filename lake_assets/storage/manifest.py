"""A manifest: which objects a partition consists of, and the fingerprint by which a change is seen."""

import hashlib
from dataclasses import dataclass

from lake_assets.errors import SourceError
from lake_assets.storage.store import LandedObject

FINGERPRINT_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of one partition as one listing saw them, sorted by key."""

    objects: tuple[LandedObject, ...]

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(o.size for o in self.objects)

    def fingerprint(self, job: str) -> str:
        """A SHA-256 in hexadecimal over each object's URI, ETag and size, and over what the job does to them.

        Equal fingerprints mean equal rows: a changed, added or removed object changes it, and so does another
        transform.

        Args:
            job: text that describes the job, such as its transform.
        """
        digest = hashlib.sha256()
        for part in (FINGERPRINT_VERSION, job, *(f"{o.uri}\n{o.etag}\n{o.size}" for o in self.objects)):
            digest.update(part.encode(errors="surrogateescape"))
            digest.update(b"\0")
        return digest.hexdigest()

    def check(self) -> None:
        """Refuse what cannot be Parquet before a task is started for it.

        Raises:
            SourceError: an object has no bytes.
        """
        for o in self.objects:
            if o.size == 0:
                raise SourceError(
                    f"the object {o.uri} is empty (0 bytes), so it is no Parquet file:",
                    "remove it or let its writer land it again.",
                )
