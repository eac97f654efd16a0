"""The guard of commits that depend on what a partition was made of: each object enters a partition once."""

from collections.abc import Sequence

from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.commit.replacement import Expected, Replacement
from lake_assets.lake.ledger.object_history import partition_objects
from lake_assets.lake.session import LakeSession


def refuse_moved(
    session: LakeSession, replacements: Sequence[Replacement], database: CatalogDatabase | None = None
) -> None:
    """Refuse a commit if a partition's known objects are not those that it was prepared for.

    Call it in the transaction of the commit, after the number of its snapshot is known. So it sees every commit before
    that snapshot, and the catalog refuses a commit that overlaps.

    Args:
        session: an open lake.
        replacements: what the transaction commits, of one stream.
        database: the open transaction, if it is not DuckDB's.

    Raises:
        PartitionMovedError: another writer added one of the objects, or replaced the partition.
        NotDirectError: only DuckLake can read the manifest.
        CatalogError: ledger or manifest cannot be read.
    """
    expecting = [(one, one.expected) for one in replacements if one.expected is not None]
    if not expecting:
        return
    first = expecting[0][0]
    paths = [one.partition.path for one, _ in expecting]
    known = partition_objects(session, first.row.stream, first.table, paths, _uris(expecting), database)
    for replacement, expected in expecting:
        found = known.get(replacement.partition.path, {})
        if expected.uris is not None:  # an object can have rows of several partitions
            found = {uri: found[uri] for uri in expected.uris if uri in found}
        if found != expected.objects:
            raise replacement.moved()


def _uris(expecting: Sequence[tuple[Replacement, Expected]]) -> list[str] | None:
    """The objects that matter to any of the commits; None: all of the partitions."""
    uris: dict[str, None] = {}
    for _, expected in expecting:
        if expected.uris is None:
            return None
        uris |= dict.fromkeys(expected.uris)
    return list(uris)
