"""The landed objects that the lake does not have yet, or that have changed since it registered them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from lake_assets.errors import OutsidePartitionError, SourceError
from lake_assets.lake.commit.statements import list_files_statement
from lake_assets.lake.ledger.object_history import KnownObject, known_objects
from lake_assets.lake.ledger.tables import manifest_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import list_scope
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """A registered object that has been replaced, so that its rows are not in the lake."""

    before: KnownObject
    now: LandedObject
    partition: Partition
    is_live: bool  # it is a file of the table; otherwise it had no rows, has ended, or was read by mode replace

    def error(self, stream: str) -> SourceError:
        """The error for the object; `stream` is the stream's name, for the command to run."""
        if self.is_live:
            return SourceError(
                f"the object {self.now.uri} has changed since it was registered, and readers of the lake fail on it or "
                "miss its rows:",
                f"restore the registered object, or run `lake-assets index {stream} --repair`.",
            )
        if self.before.has_ended:
            # If it were registered again, DuckLake would delete it when no snapshot needs the entry that has ended.
            return SourceError(
                f"the object {self.now.uri} has landed again after it vanished and was removed from the table:",
                "land it under another name.",
            )
        # A replacement may have read its rows, and they would be in the lake twice.
        return SourceError(
            f"the object {self.now.uri} changed after the lake recorded it, and is not a file of the table:",
            "land its content under another name.",
        )


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What an index would do with one partition."""

    partition: Partition
    objects: tuple[LandedObject, ...]  # all that have landed
    new: tuple[LandedObject, ...]  # to be registered
    changed: tuple[ChangedObject, ...] = ()  # cannot be registered again under their names

    @property
    def present(self) -> tuple[LandedObject, ...]:
        """The objects that the lake has."""
        others = {obj.uri for obj in self.new} | {obj.now.uri for obj in self.changed}
        return tuple(obj for obj in self.objects if obj.uri not in others)


@dataclass(frozen=True, slots=True)
class NotRegistered:
    """A partition outside the config, with objects that the lake does not have."""

    plan: PartitionPlan
    why: OutsidePartitionError

    def __str__(self) -> str:
        new = len(self.plan.new)
        return f"{self.plan.partition} ({count(new, 'new object')}): {self.why}"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index would do now."""

    partitions: tuple[PartitionPlan, ...]
    outside: tuple[NotRegistered, ...] = ()  # partitions with new objects that the config does not have
    left_out: LeftOut = field(default_factory=LeftOut)  # what a whole listing left out

    @property
    def new(self) -> tuple[LandedObject, ...]:
        """All objects to be registered."""
        return tuple(obj for part in self.partitions for obj in part.new)

    @property
    def changed(self) -> tuple[LandedObject, ...]:
        """All objects that have changed since they were registered."""
        return tuple(obj.now for part in self.partitions for obj in part.changed)


def plan_index(
    stream: OpenStream, partitions: Iterable[Partition] | None = None, *, outside: bool = False
) -> IndexPlan:
    """What `index_all` would register now. Nothing is written.

    Args:
        stream: the stream of the objects.
        partitions: the partitions to plan; when None, all that have landed and that the config has.
        outside: of all that have landed, also take those that the config does not have.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake cannot be read.
    """
    wanted = None if partitions is None else list(partitions)
    landed, left_out = list_scope(stream, wanted)
    calendar = Calendar(stream.config)
    with stream.lake.open_if_exists() as lake:
        known = registered_objects(lake, stream, wanted)
        changed = changed_objects(landed, known, lambda: table_files(lake, stream))
    plans, not_registered = [], []
    for partition, manifest in landed.items():
        new = tuple(obj for obj in manifest.objects if obj.uri not in known)
        others = changed.get(partition, ())
        part = PartitionPlan(partition, manifest.objects, new, others)
        why = calendar.outside(partition) if wanted is None and not outside and new else None
        if why is not None:
            not_registered.append(NotRegistered(part, why))
            part = PartitionPlan(partition, manifest.objects, (), others)
        if why is None or others:
            plans.append(part)
    return IndexPlan(tuple(plans), tuple(not_registered), (left_out or LeftOut()).taking(outside=outside))


def changed_objects(
    landed: Mapping[Partition, Manifest], known: Mapping[str, KnownObject], read_files: Callable[[], AbstractSet[str]]
) -> dict[Partition, tuple[ChangedObject, ...]]:
    """The landed objects that have changed since the lake registered or read them, by partition.

    Args:
        landed: the objects now.
        known: the objects that the lake registered or read, by URI.
        read_files: returns the URIs of the table's files; called only if an object has changed, as there may be many.
    """
    changed = {
        partition: [
            obj for obj in manifest.objects if obj.uri in known and not known[obj.uri].is_now(obj.etag, obj.size)
        ]
        for partition, manifest in landed.items()
    }
    files = read_files() if any(changed.values()) else set()
    return {
        partition: tuple(ChangedObject(known[obj.uri], obj, partition, obj.uri in files) for obj in objects)
        for partition, objects in changed.items()
        if objects
    }


def registered_objects(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition] | None
) -> dict[str, KnownObject]:
    """The objects that the lake registered or read, by URI; none if there is no lake or the table was dropped."""
    if lake is None or not (lake.exists(stream.table) and lake.exists(manifest_table(lake.config))):
        return {}
    paths = None if partitions is None else [partition.path for partition in partitions]
    return known_objects(lake, stream.name, stream.table, paths)


def table_files(lake: LakeSession | None, stream: OpenStream) -> set[str]:
    """The URIs of the table's files."""
    return set() if lake is None else {uri for (uri,) in lake.rows(*list_files_statement(stream.table))}
