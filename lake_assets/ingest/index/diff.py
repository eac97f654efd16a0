"""Which landed objects the lake does not have yet: a listing, less what the manifest knows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lake_assets.errors import NoLakeError, OutsidePartitionError, SourceError
from lake_assets.lake.commit.replacement import list_files_statement
from lake_assets.lake.ledger.object_history import KnownObject, known_objects
from lake_assets.lake.ledger.tables import manifest_table
from lake_assets.layout.partition import Partition
from lake_assets.storage.store import LandedObject
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import UnmatchedObject, list_landed, list_landed_in
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """A registered object that is another now, so that the rows which landed with it are not in the lake."""

    before: KnownObject
    now: LandedObject
    partition: Partition
    is_live: bool  # a file of the table; if not, it had no rows, or its entry has ended, or a replacement has read it

    def error(self, stream: str) -> SourceError:
        """What is wrong, and how to fix it.

        Args:
            stream: its name, for the command to run.
        """
        if self.is_live:
            return SourceError(
                f"the object {self.now.uri} is another than the one that was registered, and readers of the lake fail "
                "on it or miss its rows:",
                f"put it back as it was, or run `lake-assets index {stream} --repair`.",
            )
        if self.before.has_ended:
            # Registered under this name, it would be deleted when no snapshot needs the entry that has ended.
            return SourceError(
                f"the object {self.now.uri} is there again, after it had vanished and was taken out of the table:",
                "give it another name.",
            )
        # Its rows may be in the lake by a replacement that read them, and would be there twice.
        return SourceError(
            f"the object {self.now.uri} changed after the lake took note of it, and is no file of the table:",
            "land what it holds under another name.",
        )


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What an index would do with one partition."""

    partition: Partition
    objects: tuple[LandedObject, ...]  # all that are there now
    new: tuple[LandedObject, ...]  # those to be registered
    changed: tuple[ChangedObject, ...] = ()  # those that cannot be, for others were registered under their names


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A partition outside the config that has objects which the lake does not have."""

    plan: PartitionPlan
    why: OutsidePartitionError

    def __str__(self) -> str:
        new = len(self.plan.new)
        return f"{self.plan.partition} ({new:,} new object{'s'[: new != 1]}): {self.why}"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index would do now."""

    partitions: tuple[PartitionPlan, ...]
    outside: tuple[UnmatchedObject, ...] = ()  # they fit no partition of the layout
    left_out: tuple[LeftOut, ...] = ()  # partitions with new objects that the config does not have

    @property
    def new(self) -> tuple[LandedObject, ...]:
        """All objects to be registered."""
        return tuple(o for part in self.partitions for o in part.new)

    @property
    def changed(self) -> tuple[LandedObject, ...]:
        """All objects that are no longer those that were registered; see `index_check`."""
        return tuple(o.now for part in self.partitions for o in part.changed)


def plan_index(
    stream: OpenStream, partitions: Iterable[Partition] | None = None, *, outside: bool = False
) -> IndexPlan:
    """What `index_all` would register now; nothing is written.

    Args:
        stream: whose objects.
        partitions: of these alone; all that lie in the landing zone and that the config has when None.
        outside: all that lie in the landing zone, also those that the config does not have.

    Raises:
        LakeAssetsError: the landing zone cannot be listed, or the lake not be read.
    """
    wanted = None if partitions is None else list(partitions)
    found, unmatched = list_all(stream) if wanted is None else (list_some(stream, wanted), ())
    calendar = Calendar(stream.config)
    known = _known(stream, None if wanted is None else [partition.path for partition in wanted])
    changed = changed_objects(found, known)
    # Asked only then: it lists all files of the table.
    live = _live(stream) if changed else set()
    plans, left_out = [], []
    for partition, objects in found.items():
        new = tuple(o for o in objects if o.uri not in known)
        others = tuple(ChangedObject(known[o.uri], o, partition, o.uri in live) for o in changed.get(partition, ()))
        part = PartitionPlan(partition, objects, new, others)
        why = calendar.outside(partition) if wanted is None and not outside and new else None
        if why is not None:
            left_out.append(LeftOut(part, why))
            part = PartitionPlan(partition, objects, (), others)
        if why is None or others:
            plans.append(part)
    return IndexPlan(tuple(plans), unmatched, tuple(left_out))


def changed_objects(
    found: Mapping[Partition, Sequence[LandedObject]], known: Mapping[str, KnownObject]
) -> dict[Partition, list[LandedObject]]:
    """Those of the landed objects that are no longer what the lake took note of, by partition."""
    changed = {
        partition: [o for o in objects if o.uri in known and not known[o.uri].is_now(o.etag, o.size)]
        for partition, objects in found.items()
    }
    return {partition: objects for partition, objects in changed.items() if objects}


def list_all(stream: OpenStream) -> tuple[dict[Partition, tuple[LandedObject, ...]], tuple[UnmatchedObject, ...]]:
    """All objects of the landing zone by partition, and those that fit none.

    Raises:
        StorageError: the landing zone cannot be listed.
    """
    found, unmatched = list_landed(stream)
    return {partition: manifest.objects for partition, manifest in found.items()}, unmatched


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


def _live(stream: OpenStream) -> set[str]:
    """The URIs of the table's files."""
    with stream.lake.open(read_only=True) as lake:
        return {uri for (uri,) in lake.rows(*list_files_statement(stream.table))}
