"""Which landed objects the lake does not have yet: a listing, less what the manifest knows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.errors import NoLakeError
from lake_assets.lake.known import KnownObject, known_objects
from lake_assets.lake.ledger import manifest_table
from lake_assets.landed import list_landed, list_landed_in
from lake_assets.partition import Partition
from lake_assets.storage.store import LandedObject
from lake_assets.stream import OpenStream


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What an index would do with one partition."""

    partition: Partition
    objects: tuple[LandedObject, ...]  # all that are there now
    new: tuple[LandedObject, ...]  # those to be registered


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index would do now."""

    partitions: tuple[PartitionPlan, ...]
    outside: tuple[LandedObject, ...] = ()  # they fit no partition of the layout
    changed: tuple[LandedObject, ...] = ()  # no longer those that were registered; see `index_check`

    @property
    def new(self) -> tuple[LandedObject, ...]:
        """All objects to be registered."""
        return tuple(o for part in self.partitions for o in part.new)


def plan_index(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> IndexPlan:
    """What `index_all` would register now; nothing is written.

    Args:
        stream: whose objects.
        partitions: of these alone; all that lie in the landing zone when None.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake not be read.
    """
    wanted = None if partitions is None else list(partitions)
    found, outside = list_all(stream) if wanted is None else (list_some(stream, wanted), ())
    known = _known(stream, None if wanted is None else [partition.path for partition in wanted])
    plans, changed = [], []
    for partition, objects in found.items():
        plans.append(PartitionPlan(partition, objects, tuple(o for o in objects if o.uri not in known)))
        changed += [o for o in objects if o.uri in known and not known[o.uri].is_now(o.etag, o.size)]
    return IndexPlan(tuple(plans), outside, tuple(changed))


def list_all(stream: OpenStream) -> tuple[dict[Partition, tuple[LandedObject, ...]], tuple[LandedObject, ...]]:
    """All objects of the landing zone by partition, and those that fit none.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    found, outside = list_landed(stream)
    return {partition: manifest.objects for partition, manifest in found.items()}, outside


def list_some(stream: OpenStream, partitions: Sequence[Partition]) -> dict[Partition, tuple[LandedObject, ...]]:
    """The objects of some partitions, by a listing of their prefixes.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    return {partition: manifest.objects for partition, manifest in list_landed_in(stream, partitions).items()}


def _known(stream: OpenStream, load_partitions: Sequence[str] | None) -> dict[str, KnownObject]:
    """The objects that the lake has, by URI."""
    try:
        with stream.lake.open(read_only=True) as lake:
            # Without its table, what the manifest remembers of the stream is in no table any more.
            if lake.exists(stream.table) and lake.exists(manifest_table(lake.config)):
                return known_objects(lake, stream.name, stream.table, load_partitions)
    except NoLakeError:
        pass
    return {}
