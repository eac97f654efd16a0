"""The landing zone as it is now: its objects by partition."""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product

from lake_assets.base.progress import counted, counting
from lake_assets.config.layout.partition import Partition
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import LeftOut, LeftOutObject, refuse_tables
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream

_LISTINGS = 16  # in parallel: most of the time is network latency


def list_landed(
    stream: OpenStream, known: Iterable[Partition] = (), now: dt.datetime | None = None
) -> tuple[dict[Partition, Manifest], LeftOut]:
    """List the whole landing zone: its objects by partition, as `OpenStream.manifest` has them, and those left out.

    Objects of a partition outside the config are in both: by their partition, and left out.

    A web server cannot be listed, so it gets a request for each partition that the config expects. If a partition
    column is in the rows, the path does not have it: of the partitions that the config expects by `now`, and of the
    `known` ones, each then has the objects of its `Partition.path_part` that may hold its rows, by the statistics in
    their footers; the manifest is empty if that has none of them, but others. A table of another format is refused; see
    `refuse_tables`.
    """
    calendar, known = Calendar(stream.config, now), tuple(known)
    if not stream.source.is_listable:
        wanted = dict.fromkeys([*calendar.expected(known), *known])
        listed = list_landed_in(stream, wanted).items()
        landed = {p: manifest for p, manifest in listed if manifest.objects or manifest.folder}
        return landed, LeftOut(listed=sum(len(manifest.objects) for manifest in landed.values()))
    with counting(f"list {stream.name}", "objects") as count_of:
        objects = stream.source.all(listed=count_of.advance, hides=stream.layout.hides)
    by_path_part, left_out = _by_path_part(stream, objects, calendar)
    if not stream.config.selects_rows:  # a path part is a partition
        return by_path_part, left_out
    sharing = {path_part: list(_partitions_at(stream, path_part, calendar, m)) for path_part, m in by_path_part.items()}
    for partition in known:
        if partition.path_part in sharing:
            sharing[partition.path_part].append(partition)
    held = (stream.holding(manifest, sharing[path_part]) for path_part, manifest in by_path_part.items())
    return {p: manifest for of_path_part in held for p, manifest in of_path_part.items()}, left_out


def list_landed_in(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
    """Return the objects of some partitions, as `OpenStream.manifest`; each `Partition.path_part` is listed once."""
    wanted = list(partitions)
    path_parts: dict[Partition, list[Partition]] = {}
    for partition in wanted:
        path_parts.setdefault(partition.path_part, []).append(partition)
    with ThreadPoolExecutor(_LISTINGS) as pool:
        listed = counted(pool.map(stream.landed_at, path_parts), f"list {stream.name}", "prefixes", len(path_parts))
        manifests = dict(zip(path_parts, listed, strict=True))
    held = [stream.holding(manifests[path_part], sharing) for path_part, sharing in path_parts.items()]
    landed = {partition: manifest for of_path_part in held for partition, manifest in of_path_part.items()}
    return {partition: landed[partition] for partition in wanted}


def list_scope(
    stream: OpenStream, partitions: Iterable[Partition] | None
) -> tuple[dict[Partition, Manifest], LeftOut | None]:
    """List the objects of some partitions, by `list_landed_in`; when None, all, as `list_landed` returns them."""
    return list_landed(stream) if partitions is None else (list_landed_in(stream, partitions), None)


def _by_path_part(
    stream: OpenStream, objects: Sequence[LandedObject], calendar: Calendar
) -> tuple[dict[Partition, Manifest], LeftOut]:
    """Return the objects of a listing by the path part of their partition, and those that no refresh reads."""
    by_path_part: dict[Partition, list[LandedObject]] = {}
    left_out = []
    locator = PartitionLocator(stream.config)
    outside = cache(calendar.outside)
    for landed in objects:
        path_part = locator.find(landed.key)
        if isinstance(path_part, Partition):
            if stream.source.is_marker(landed):
                continue
            by_path_part.setdefault(path_part, []).append(landed)
        why = outside(path_part) if isinstance(path_part, Partition) else path_part
        if why is not None:
            left_out.append(LeftOutObject(landed, why))
    read = (landed.key for of_path_part in by_path_part.values() for landed in of_path_part)
    refuse_tables(stream.source.root, read, (other.key for other in left_out))
    landed_at = {path_part: Manifest(tuple(landed)) for path_part, landed in by_path_part.items()}
    return landed_at, LeftOut(tuple(left_out), len(objects))


def _partitions_at(
    stream: OpenStream, path_part: Partition, calendar: Calendar, landed: Manifest
) -> Iterator[Partition]:
    """Return the partitions that share a path part, given its objects."""
    columns = stream.config.partition_columns
    known = {column: [value] for column, value in zip(path_part.columns, path_part.values, strict=True)}
    known |= {column: list(values) for column, values in stream.row_values.of(landed).items()}
    values = [known[column] if column in known else calendar.values(column) for column in columns]
    return (Partition(columns, combination) for combination in product(*values))
