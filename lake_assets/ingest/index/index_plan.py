"""The landed objects that the lake does not have yet, in mode index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from lake_assets.documented import AsText, Documented
from lake_assets.errors import OutsidePartitionError
from lake_assets.ingest.compare_objects import Comparison, compared
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.plan import PartitionPlan, Planner
from lake_assets.lake.commit.extension import list_files_statement
from lake_assets.lake.ledger.object_history import KnownObject, known_objects
from lake_assets.lake.ledger.tables import MANIFEST
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import list_scope
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class NotRegistered(Documented):
    """A partition outside the config with new objects, which are not registered."""

    partition: Annotated[Partition, AsText, Field(title="Partition")]
    """As a path, such as `region=NW/date=2026-02-11`."""
    new: int
    """The number of its new objects."""
    why: Annotated[OutsidePartitionError, AsText]
    """Why the config does not have it."""

    def __str__(self) -> str:
        return f"{self.partition} ({count(self.new, 'new object')}): {self.why}"


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
        return tuple(obj for part in self.partitions for obj in part.changed)


def plan_index(
    stream: OpenStream, partitions: Iterable[Partition] | None = None, options: IngestOptions | None = None
) -> IndexPlan:
    """Return what `index_all` would register now, of all partitions that have landed when None. Nothing is written.

    With `outside`, of all that have landed those are taken too that the config does not have.
    """
    wanted, options = None if partitions is None else list(partitions), options or IngestOptions()
    takes_all = wanted is not None or options.outside
    landed, left_out = list_scope(stream, wanted)
    calendar = Calendar(stream.config)
    outside = []
    with stream.lake.open_if_exists() as lake:
        comparisons = compare_registered(stream, registered_objects(lake, stream, wanted), landed)
        for partition, comparison in list(comparisons.items()):
            new = len(comparison.new.objects)
            if new and not takes_all and (why := calendar.outside(partition)) is not None:
                outside.append(NotRegistered(partition, new, why))
                comparisons[partition] = replace(comparison, new=Manifest(()))
        ignored = {one.partition for one in outside}
        taken = {p: manifest for p, manifest in landed.items() if p not in ignored or comparisons[p].changed}
        # The table's files may be many.
        live = table_files(lake, stream) if any(comparisons[p].changed for p in taken) else set()
        plans = Planner(stream, options).plan(lake, taken, comparisons, live)
    return IndexPlan(tuple(plans), tuple(outside), (left_out or LeftOut()).taking(outside=options.outside))


def compare_registered(
    stream: OpenStream, known: Mapping[str, KnownObject], landed: Mapping[Partition, Manifest]
) -> dict[Partition, Comparison]:
    """Compare the landed objects of some partitions with the objects that the lake registered or read, by key."""
    by_path: dict[str, dict[str, KnownObject]] = {partition.path: {} for partition in landed}
    names = {**{obj.uri: obj for obj in known.values()}, **known}
    for key, obj in known.items():
        by_path.setdefault(obj.load_partition, {})[key] = obj
    for partition, manifest in landed.items():  # an object may have been of another partition
        others = [names.get(obj.key) or names.get(obj.uri) for obj in manifest.objects]
        by_path[partition.path] |= {other.key: other for other in others if other is not None}
    return {p: compared(stream, by_path[p.path], manifest, quarantines=False) for p, manifest in landed.items()}


def registered_objects(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition] | None
) -> dict[str, KnownObject]:
    """Return the objects that the lake registered or read, by key; none without a lake or if the table was dropped."""
    if lake is None or not (lake.exists(stream.table) and lake.exists(MANIFEST.name(lake.config))):
        return {}
    paths = None if partitions is None else [partition.path for partition in partitions]
    return known_objects(lake, stream.names, stream.table, paths)


def table_files(lake: LakeSession | None, stream: OpenStream) -> set[str]:
    """Return the URIs of the table's files."""
    return set() if lake is None else {uri for (uri,) in lake.rows(*list_files_statement(stream.table))}
