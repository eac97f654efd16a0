"""Landed objects, and the manifest: those of a partition, and their fingerprint, which shows changes."""

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from lake_assets.base.errors import SourceError
from lake_assets.base.json_dataclasses import Documented, NotInJson
from lake_assets.base.texts import visible_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from obstore import ObjectMeta


TIME = "time-"  # before the time of an object that is in the place of an ETag


@dataclass(frozen=True, slots=True)
class LandedObject(Documented):
    """An object of a landing zone as in one listing."""

    uri: str
    """Its path or URI."""
    key: str
    """Its path below the storage's root."""
    etag: str
    """Of its storage; of a local file: inode, time and size."""
    size: int
    """Its size in bytes."""
    last_modified: dt.datetime
    """When it landed, with a time zone."""
    # Of its content, if that is known; see `Store.digest`
    digest: Annotated[str, NotInJson] = field(default="", compare=False)

    @property
    def version(self) -> str:
        """What shows another version of the object; see `version_of`."""
        return version_of(self.uri, self.etag)

    @property
    def shown(self) -> str:
        """The URI for people, in one line."""
        return visible_name(self.uri)


def digest_of(content: "ReadableBuffer") -> str:
    """Return the SHA-256 of an object's bytes, in hexadecimal digits; see `Store.digest`."""
    return hashlib.sha256(content).hexdigest()


def version_of(uri: str, etag: str) -> str:
    """Return the ETag of an object; of a local file only its time and size, as its inode is that of a disk."""
    return "-".join(etag.split("-")[-2:]) if uri.startswith("/") else etag


def landed_object(root: str, meta: "ObjectMeta") -> LandedObject:
    """Return an object of the client's listing below a storage's root."""
    key = meta["path"]
    return LandedObject(f"{root}/{key}", key, etag_of(meta), meta["size"], meta["last_modified"])


def etag_of(meta: "ObjectMeta", *, is_time: bool = False) -> str:
    """Return an object's ETag without quotes and the `W/` of a proxy; of a store that lists none, its time."""
    etag = (meta["e_tag"] or "").removeprefix("W/").strip('"')
    return f"{TIME}{meta['last_modified']:%Y%m%dT%H%M%S}" if is_time or not etag else etag


_FINGERPRINT_VERSION = "2"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of one partition in one listing, sorted by key."""

    objects: tuple[LandedObject, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # why objects are not read, by key
    # All objects of the partition's path part, if `objects` are those that may hold rows of the partition
    folder: "Manifest | None" = field(default=None, compare=False, repr=False)

    @property
    def read(self) -> tuple[LandedObject, ...]:
        """The objects that are read."""
        return tuple(landed for landed in self.objects if landed.key not in self.left_out)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(landed.size for landed in self.objects)

    def fingerprint(self, job: str, *, is_old: bool = False) -> str:
        """Return a SHA-256 in hexadecimal over each object's key, version and size, and over the job.

        Equal fingerprints mean equal rows: a changed, added or removed object, or another transform, changes it.
        Objects that are left out are part of it, so that they are tried again when they change, and only then.
        With `is_old` it is as version 0.1 made it, by URIs and ETags.
        """
        digest = hashlib.sha256()
        names = ((o.uri, o.etag, o.size) if is_old else (o.key, o.version, o.size) for o in self.objects)
        texts = (f"{name}\n{version}\n{size}" for name, version, size in names)
        for part in ("1" if is_old else _FINGERPRINT_VERSION, job, *texts):
            digest.update(part.encode(errors="surrogateescape"))
            digest.update(b"\0")
        return digest.hexdigest()

    def refuse_empty(self) -> None:
        """Refuse objects without bytes, which are no Parquet, ORC or Avro, before a task starts."""
        for landed in self.read:
            if landed.size == 0:
                raise _empty(landed)

    def below(self, root: str) -> "Manifest":
        """Return the manifest with keys below this root, where an older version has noted the URI instead."""
        objects = tuple(replace(obj, key=obj.key.removeprefix(f"{root}/")) for obj in self.objects)
        return replace(
            self, objects=objects, left_out={k.removeprefix(f"{root}/"): w for k, w in self.left_out.items()}
        )

    def without_empty(self) -> "Manifest":
        """Return the manifest that leaves out objects without bytes."""
        empty = {landed.key: str(_empty(landed)) for landed in self.read if landed.size == 0}
        return replace(self, left_out={**self.left_out, **empty}) if empty else self


def _empty(landed: LandedObject) -> SourceError:
    return SourceError(
        f"the object {landed.shown} is empty (0 bytes), so it has no header:", "remove it, or land it again."
    )
