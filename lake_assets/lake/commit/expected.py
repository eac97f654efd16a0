"""The guard of commits that depend on what a partition was made of: each object enters a partition once."""

from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.ledger.object_history import partition_objects
from lake_assets.lake.session import LakeSession


def refuse_moved(session: LakeSession, replacement: Replacement, database: CatalogDatabase | None = None) -> None:
    """Refuse a commit if the partition's known objects are not those that it was prepared for.

    Call it in the transaction of the commit, after the number of its snapshot is known. So it sees every commit before
    that snapshot, and the catalog refuses a commit that overlaps.

    Args:
        session: an open lake.
        replacement: the commit.
        database: the open transaction, if it is not DuckDB's.

    Raises:
        PartitionMovedError: another writer added one of the objects, or replaced the partition.
        NotDirectError: only DuckLake can read the manifest.
        CatalogError: ledger or manifest cannot be read.
    """
    expected, path = replacement.expected, replacement.partition.path
    if expected is None:
        return
    stream = replacement.row.stream
    known = partition_objects(session, stream, replacement.table, [path], expected.uris, database)
    if known.get(path, {}) != expected.objects:
        raise replacement.moved()
