"""The landing zone as it is now: its objects by partition."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import storable
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import LandedObject
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream

LISTINGS = 16  # side by side: a listing is a wait for the store


@dataclass(frozen=True, slots=True)
class UnmatchedObject:
    """A landed object that lies in no partition, and why."""

    landed: LandedObject
    why: LakeAssetsError

    @property
    def key(self) -> str:
        """Its path below the source."""
        return storable(self.landed.key)

    @property
    def uri(self) -> str:
        """Where it is."""
        return storable(self.landed.uri)


@dataclass(frozen=True, slots=True)
class UnmatchedFolder:
    """A folder of the landing zone whose objects lie in no partition."""

    path: str  # below the source; empty for the source itself
    objects: int
    why: LakeAssetsError

    def __str__(self) -> str:
        where = f"{self.path}/" if self.path else "the source's own folder"
        return f"{where} ({self.objects:,} object{'s'[: self.objects != 1]}): {self.why}"


def unmatched_folders(unmatched: Sequence[UnmatchedObject]) -> list[UnmatchedFolder]:
    """The objects that lie in no partition, by folder and reason, sorted."""
    found = Counter((one.key.rpartition("/")[0], str(one.why)) for one in unmatched)
    why = {str(one.why): one.why for one in unmatched}
    return [UnmatchedFolder(path, number, why[text]) for (path, text), number in sorted(found.items())]


def list_landed(
    stream: OpenStream, known: Iterable[Partition] = (), now: dt.datetime | None = None
) -> tuple[dict[Partition, Manifest], tuple[UnmatchedObject, ...]]:
    """All objects by partition, each as `OpenStream.manifest` would give it, and those that lie in no partition.

    It is one listing of the whole landing zone; a web server is asked for the object of each partition that the config
    promises. Where a partition column is in the rows, only they say whose they
    are: then the objects of a place are those of each of its partitions that the config promises by now.

    Args:
        stream: whose objects.
        known: other partitions that have the objects of their places.
        now: the moment that says how far the config's dates reach, with a time zone; the present when None.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    calendar, known = Calendar(stream.config, now), tuple(known)
    if not stream.source.is_listable:
        asked = dict.fromkeys([*calendar.expected(known), *known])
        return {partition: found for partition, found in list_landed_in(stream, asked).items() if found.objects}, ()
    by_path_part, unmatched = _by_path_part(stream, stream.source.list(files=stream.config.files))
    found = {p: manifest for path_part, manifest in by_path_part.items() for p in _at(stream, path_part, calendar)}
    found |= {
        partition: by_path_part[partition.path_part] for partition in known if partition.path_part in by_path_part
    }
    return found, unmatched


def list_landed_in(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
    """The objects of some partitions, by a listing of each one's prefix; of those of one place, by the same.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    wanted = list(partitions)
    path_parts = {partition.path_part: partition for partition in wanted}
    with ThreadPoolExecutor(LISTINGS) as pool:
        found = dict(zip(path_parts, pool.map(stream.manifest, path_parts.values()), strict=True))
    return {partition: found[partition.path_part] for partition in wanted}


def _by_path_part(
    stream: OpenStream, objects: Sequence[LandedObject]
) -> tuple[dict[Partition, Manifest], tuple[UnmatchedObject, ...]]:
    """The objects of a listing by their partition's place, and those that lie in none."""
    found: dict[Partition, list[LandedObject]] = {}
    unmatched = []
    locator = PartitionLocator(stream.config)
    for landed in objects:
        path_part = locator.find(landed.key)
        if isinstance(path_part, LakeAssetsError):
            unmatched.append(UnmatchedObject(landed, path_part))
        else:
            found.setdefault(path_part, []).append(landed)
    return {path_part: Manifest(tuple(some)) for path_part, some in found.items()}, tuple(unmatched)


def _at(stream: OpenStream, path_part: Partition, calendar: Calendar) -> Iterator[Partition]:
    """The partitions of a place."""
    said = dict(zip(path_part.columns, path_part.values, strict=True))
    columns = stream.config.columns
    values = [[said[column]] if column in said else calendar.values(column) for column in columns]
    return (Partition(columns, combination) for combination in product(*values))
