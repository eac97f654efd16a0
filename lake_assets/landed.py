"""The landing zone as it is now: its objects by partition."""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from lake_assets.errors import LayoutError, PartitionError
from lake_assets.expected import expected_partitions, expected_values
from lake_assets.manifest import Manifest
from lake_assets.partition import Partition
from lake_assets.storage.store import LandedObject
from lake_assets.stream import OpenStream

LISTINGS = 16  # side by side: a listing is a wait for the store


def list_landed(
    stream: OpenStream, known: Iterable[Partition] = (), now: dt.datetime | None = None
) -> tuple[dict[Partition, Manifest], tuple[LandedObject, ...]]:
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
    now, known = now or dt.datetime.now(dt.UTC), tuple(known)
    if not stream.source.is_listable:
        asked = dict.fromkeys([*expected_partitions(stream.config, known, now), *known])
        return {partition: found for partition, found in list_landed_in(stream, asked).items() if found.objects}, ()
    by_place, outside = _by_place(stream, stream.source.list(files=stream.config.files))
    found = {partition: manifest for place, manifest in by_place.items() for partition in _at(stream, place, now)}
    found |= {partition: by_place[partition.place] for partition in known if partition.place in by_place}
    return found, outside


def list_landed_in(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
    """The objects of some partitions, by a listing of each one's prefix; of those of one place, by the same.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    wanted = list(partitions)
    places = {partition.place: partition for partition in wanted}
    with ThreadPoolExecutor(LISTINGS) as pool:
        found = dict(zip(places, pool.map(stream.manifest, places.values()), strict=True))
    return {partition: found[partition.place] for partition in wanted}


def _by_place(
    stream: OpenStream, objects: Sequence[LandedObject]
) -> tuple[dict[Partition, Manifest], tuple[LandedObject, ...]]:
    """The objects of a listing by their partition's place, and those that lie in none."""
    found: dict[Partition, list[LandedObject]] = {}
    outside = []
    by_folder: dict[str, Partition | None] = {}
    for landed in objects:
        folder = landed.key.rpartition("/")[0]
        if folder not in by_folder:
            by_folder[folder] = _place_of(stream, landed.key)
        place = by_folder[folder]
        if place is None:
            outside.append(landed)
        else:
            found.setdefault(place, []).append(landed)
    return {place: Manifest(tuple(some)) for place, some in found.items()}, tuple(outside)


def _place_of(stream: OpenStream, key: str) -> Partition | None:
    """The place of a key; None if it has none, or one that an ingest would look for elsewhere."""
    try:
        texts = stream.layout.match(key, file=True)
        if texts is None:
            return None
        columns = [column for column in stream.config.columns if not column.in_rows]
        named = {column.name: texts[column.name] for column in columns}
        place = Partition.of(columns, named)
        return place if key.startswith(stream.prefix(place)) else None
    except (LayoutError, PartitionError):
        return None


def _at(stream: OpenStream, place: Partition, now: dt.datetime) -> Iterator[Partition]:
    """The partitions of a place."""
    said = dict(zip(place.columns, place.values, strict=True))
    columns = stream.config.columns
    values = [[said[c]] if c in said else expected_values(stream.config, c, (), now) for c in columns]
    return (Partition(columns, combination) for combination in product(*values))
