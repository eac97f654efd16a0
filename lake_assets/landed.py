"""The landing zone as it is now: its objects by partition."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from lake_assets.errors import LayoutError, PartitionError
from lake_assets.manifest import Manifest
from lake_assets.partition import Partition
from lake_assets.storage.store import LandedObject
from lake_assets.stream import OpenStream

LISTINGS = 16  # side by side: a listing is a wait for the store


def list_landed(stream: OpenStream) -> tuple[dict[Partition, Manifest], tuple[LandedObject, ...]]:
    """All objects by partition, each as `OpenStream.manifest` would give it, and those that lie in no partition.

    It is one listing of the whole landing zone.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    return sort_landed(stream, stream.source.list(files=stream.config.files))


def list_landed_in(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
    """The objects of some partitions, by a listing of each one's prefix.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    wanted = list(partitions)
    with ThreadPoolExecutor(LISTINGS) as pool:
        return dict(zip(wanted, pool.map(stream.manifest, wanted), strict=True))


def sort_landed(
    stream: OpenStream, objects: Sequence[LandedObject]
) -> tuple[dict[Partition, Manifest], tuple[LandedObject, ...]]:
    """The objects of a listing as `list_landed` gives them."""
    found: dict[Partition, list[LandedObject]] = {}
    outside = []
    by_folder: dict[str, Partition | None] = {}
    for landed in objects:
        folder = landed.key.rpartition("/")[0]
        if folder not in by_folder:
            by_folder[folder] = _partition_of(stream, landed.key)
        partition = by_folder[folder]
        if partition is None:
            outside.append(landed)
        else:
            found.setdefault(partition, []).append(landed)
    return {partition: Manifest(tuple(some)) for partition, some in found.items()}, tuple(outside)


def _partition_of(stream: OpenStream, key: str) -> Partition | None:
    """The partition of a key; None if it has none, or one that an ingest would look for elsewhere."""
    try:
        texts = stream.layout.match(key, file=True)
        if texts is None:
            return None
        named = {column.name: texts[column.name] for column in stream.config.columns}
        partition = Partition.of(stream.config.columns, named)
    except (LayoutError, PartitionError):
        return None
    return partition if partition.texts() == named else None
