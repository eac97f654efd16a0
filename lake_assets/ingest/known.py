"""What a partition of mode append was made of, compared with what has landed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.errors import SourceError
from lake_assets.lake.commit.replacement import Expected
from lake_assets.lake.ledger.object_history import KnownObject, partition_objects
from lake_assets.lake.ledger.tables import manifest_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import LandedObject
from lake_assets.streams.stream import OpenStream

NAMED = 3  # changed objects of one partition, in its error


@dataclass(frozen=True, slots=True)
class Comparison:
    """The landed objects of a partition, compared with those that its rows were made of."""

    known: Mapping[str, KnownObject]  # by URI
    new: Manifest  # unknown objects
    changed: tuple[LandedObject, ...]  # known under another ETag or size
    vanished: tuple[KnownObject, ...]  # their rows stay

    @property
    def added(self) -> Expected:
        """What a commit that adds the new objects expects: that nobody else has added one."""
        return Expected({}, tuple(landed.uri for landed in self.new.objects))

    @property
    def refreshed(self) -> Expected:
        """What a commit that replaces the partition expects: that nobody else has changed it."""
        return Expected(self.known)

    def refusal(self, partition: Partition) -> SourceError:
        """The error for changed objects if `on_changed` is fail."""
        first, *others = [landed.uri for landed in self.changed]
        names = ", ".join([first, *others[: NAMED - 1]])
        more = f" and {len(others) + 1 - NAMED:,} more" if len(others) >= NAMED else ""
        what = f"the objects {names}{more} have" if others else f"the object {first} has"
        return SourceError(
            f"{what} changed since the rows were appended to partition {partition}:",
            "restore it, or land its content under a new name. To replace the whole partition by the objects that "
            "are there now, use --force, or set on_changed: refresh.",
        )


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
    known = read_known(lake, stream, list(landed)) if landed else {}
    return {p: compared(known.get(p.path, {}), manifest.objects) for p, manifest in landed.items()}


def read_known(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition] | None
) -> Mapping[str, Mapping[str, KnownObject]]:
    """The objects that the rows of some partitions were made of, or of all: by the partition's path, then by URI.

    Raises:
        CatalogError: the ledger or the manifest cannot be read.
    """
    if lake is None or not (lake.exists(stream.table) and lake.exists(manifest_table(lake.config))):
        return {}
    paths = None if partitions is None else [partition.path for partition in partitions]
    return partition_objects(lake, stream.name, stream.table, paths)


def compared(known: Mapping[str, KnownObject], objects: Sequence[LandedObject]) -> Comparison:
    """The known objects of a partition compared with those that have landed."""
    there = {landed.uri for landed in objects}
    return Comparison(
        known,
        Manifest(tuple(obj for obj in objects if obj.uri not in known)),
        tuple(obj for obj in objects if obj.uri in known and not known[obj.uri].is_now(obj.etag, obj.size)),
        tuple(obj for uri, obj in known.items() if uri not in there),
    )
