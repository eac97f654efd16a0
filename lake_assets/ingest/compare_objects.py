"""The objects that the rows of a partition were made of, compared with what has landed."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from lake_assets.errors import SourceError
from lake_assets.lake.commit.change import Expected
from lake_assets.lake.ledger.object_history import KnownObject, partition_objects
from lake_assets.lake.ledger.tables import MANIFEST
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.stream import OpenStream

NAMED = 3  # changed objects of one partition, in its error


@dataclass(frozen=True, slots=True)
class Comparison:
    """The landed objects of a partition, compared with those that its rows were made of."""

    noted: Mapping[str, KnownObject] = field(default_factory=dict)  # by URI: read, or left out
    new: Manifest = Manifest(())  # noqa: RUF009 - it is frozen; unknown, or left out and tried again
    changed: tuple[LandedObject, ...] = ()  # known under another ETag or size
    vanished: tuple[KnownObject, ...] = ()  # their rows stay
    quarantined: tuple[LandedObject, ...] = ()  # were left out, and have not changed since

    @property
    def known(self) -> Mapping[str, KnownObject]:
        """The objects that the rows were made of, by URI."""
        return {uri: obj for uri, obj in self.noted.items() if obj.reason is None}

    @property
    def added(self) -> Expected:
        """What a commit that adds the new objects expects: that nobody else has added one, or left it out."""
        uris = tuple(landed.uri for landed in self.new.objects)
        return Expected({uri: self.noted[uri] for uri in uris if uri in self.noted}, uris)

    @property
    def refreshed(self) -> Expected:
        """What a commit that replaces the partition expects: that nobody else has changed it."""
        return Expected(self.noted)

    def present(self, landed: Manifest) -> tuple[LandedObject, ...]:
        """Return the landed objects of the partition that are those which the rows were made of."""
        known, changed = self.known, {obj.uri for obj in self.changed}
        objects = (landed.folder or landed).objects
        return tuple(obj for obj in objects if obj.uri in known and obj.uri not in changed)

    def refusal(self, partition: Partition) -> SourceError:
        """Return the error for changed objects if `on_changed` is fail."""
        first, *others = [landed.uri for landed in self.changed]
        names = ", ".join([first, *others[: NAMED - 1]])
        more = f" and {len(others) + 1 - NAMED:,} more" if len(others) >= NAMED else ""
        what = f"the objects {names}{more} have" if others else f"the object {first} has"
        return SourceError(
            f"{what} changed since the rows were appended to partition {partition}:",
            "restore it, or land its content under a new name. To replace the whole partition by the objects that "
            "are there now, use --force, or set on_changed: refresh.",
        )


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """A registered object that has been replaced, so that its rows are not in the lake."""

    before: KnownObject
    now: LandedObject
    partition: Partition
    is_live: bool  # it is a file of the table; otherwise it had no rows, has ended, or was read by mode replace

    def error(self, stream: str) -> SourceError:
        """Return the error for the object; `stream` is the stream's name, for the command to run."""
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


def needs_rows(stream: OpenStream, adds_to: Comparison | None) -> bool:
    """Return whether a partition fails if no object that is read has rows; `adds_to` is what rows are added to."""
    return stream.config.on_empty == "fail" and not (adds_to is not None and adds_to.known)


def compare(
    lake: LakeSession | None, stream: OpenStream, landed: Mapping[Partition, Manifest]
) -> dict[Partition, Comparison]:
    """Compare the landed objects of some partitions with those that the lake knows.

    Args:
        lake: None if there is none yet.
        stream: of mode append.
        landed: the objects of each partition.

    Raises:
        CatalogError: the ledger or the manifest cannot be read.
    """
    noted = read_noted(lake, stream, list(landed)) if landed else {}
    quarantines = stream.config.on_bad_object == "quarantine"
    return {p: compared(noted.get(p.path, {}), m, quarantines=quarantines) for p, m in landed.items()}


def read_noted(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition] | None
) -> Mapping[str, Mapping[str, KnownObject]]:
    """Return the objects that the rows of some partitions, or of all, were made of: by partition's path, then by URI.

    Those that were left out have a reason.

    Raises:
        CatalogError: the ledger or the manifest cannot be read.
    """
    if lake is None or not (lake.exists(stream.table) and lake.exists(MANIFEST.name(lake.config))):
        return {}
    paths = None if partitions is None else [partition.path for partition in partitions]
    return partition_objects(lake, stream.name, stream.table, paths)


def compared(noted: Mapping[str, KnownObject], landed: Manifest, *, quarantines: bool) -> Comparison:
    """Return the noted objects of a partition compared with those that have landed.

    Args:
        noted: as of `read_noted`.
        landed: all objects of the partition, with those that this run leaves out.
        quarantines: whether an object that was left out is left alone until it changes. Otherwise it is new.
    """
    new: list[LandedObject] = []
    changed: list[LandedObject] = []
    quarantined: list[LandedObject] = []
    there = {obj.uri for obj in landed.objects}
    others: tuple[LandedObject, ...] = ()
    if landed.folder and (missing := noted.keys() - there):
        # Their rows may have left the partition with a new version of the object.
        others = tuple(obj for obj in landed.folder.objects if obj.uri in missing and noted[obj.uri].reason is None)
        there |= {obj.uri for obj in others}
    for obj in (*landed.objects, *others):
        before = noted.get(obj.uri)
        is_same = before is not None and before.is_now(obj.etag, obj.size)
        if before is None or (before.reason is not None and not (is_same and quarantines)):
            new.append(obj)
        elif before.reason is not None:
            quarantined.append(obj)
        elif not is_same:
            changed.append(obj)
    keys = {obj.key for obj in new}
    return Comparison(
        noted,
        Manifest(tuple(new), {key: reason for key, reason in landed.left_out.items() if key in keys}),
        tuple(changed),
        tuple(obj for uri, obj in noted.items() if obj.reason is None and uri not in there and not obj.has_ended),
        tuple(quarantined),
    )


def changed_objects(partition: Partition, compared: Comparison, live: AbstractSet[str]) -> list[ChangedObject]:
    """Return the landed objects of a partition that have changed since the lake registered or read them.

    Args:
        partition: the partition.
        compared: its objects.
        live: the URIs of the table's files.
    """
    return [ChangedObject(compared.noted[obj.uri], obj, partition, obj.uri in live) for obj in compared.changed]
