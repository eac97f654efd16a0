"""The checks of what a commit requires. Each refuses it before anything has changed."""

from collections.abc import Collection, Sequence
from itertools import chain

from lake_assets.errors import PartitionHeldError, PartitionMovedError, SchemaChangedError
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.catalog.partition_files import PartitionFile
from lake_assets.lake.commit.change import Change
from lake_assets.lake.ledger.object_history import partition_objects
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.schema.table_setup import data_schema
from lake_assets.lake.session import LakeSession
from lake_assets.parquet.file_names import may_be_marked


class MarkedFilesError(Exception):
    """The partition's files say that it may be held, or there are none, so the ledger is read before the commit."""


def partition_drift(change: Change) -> PartitionMovedError:
    """Return the error for a partition that another writer committed after it was read."""
    return PartitionMovedError(
        f"partition {change.partition} of {change.table} was committed again meanwhile:",
        "nothing was changed. Run it again.",
    )


def columns_changed(change: Change) -> SchemaChangedError:
    """Return the error for a table whose columns changed after the files were written."""
    return SchemaChangedError(
        f"the columns of {change.table} changed while {change.partition} was being written:", "run it again."
    )


def refuse_drift(session: LakeSession, changes: Sequence[Change], database: CatalogDatabase | None = None) -> None:
    """Refuse a commit if a partition's known objects are not those that it was prepared for.

    So each object enters a partition once. Call it in the transaction of the commit, after the number of its snapshot
    is known. So it sees every commit before that snapshot, and the catalog refuses a commit that overlaps.

    Args:
        session: an open lake.
        changes: what the transaction commits, of one stream.
        database: the open transaction, if it is not DuckDB's.

    Raises:
        PartitionMovedError: another writer added one of the objects, or replaced the partition.
        NotDirectError: only DuckLake can read the manifest.
        CatalogError: ledger or manifest cannot be read.
    """
    expecting = [(change, change.requires.objects) for change in changes if change.requires.objects is not None]
    if not expecting:
        return
    first = expecting[0][0]
    paths = [change.partition.path for change, _ in expecting]
    of_each = [expected.uris for _, expected in expecting if expected.uris is not None]
    uris = list(dict.fromkeys(chain.from_iterable(of_each))) if len(of_each) == len(expecting) else None
    known = partition_objects(session, first.row.stream, first.table, paths, uris, database)
    for change, expected in expecting:
        found = known.get(change.partition.path, {})
        if expected.uris is not None:  # an object can have rows of several partitions
            found = {uri: found[uri] for uri in expected.uris if uri in found}
        if found != expected.objects:
            raise partition_drift(change)


def refuse_other_files(change: Change, files: Collection[PartitionFile]) -> None:
    """Refuse a partition that consists of other files than required, or that may be held by the names of its files.

    The first commit of a partition needs no look at the ledger.

    Raises:
        MarkedFilesError: the partition may be held; `refuse_held` says whether it is.
        PartitionMovedError: it has other files.
    """
    requires = change.requires
    may_be = any(may_be_marked(file.path) for file in files) if files else requires.was_committed
    if may_be and not requires.may_be_held:
        raise MarkedFilesError
    if requires.files is not None and requires.files != {file.file_id for file in files}:
        raise partition_drift(change)


def refuse_held(session: LakeSession, changes: Sequence[Change]) -> None:
    """Refuse a refresh that began before its partition was held.

    Raises:
        PartitionHeldError: the partition is held.
    """
    refusing = [change.partition for change in changes if not change.requires.may_be_held]
    last = recorded_commits(session, changes[0].table, refusing) if refusing else {}
    for change in changes:
        commit = last.get(change.partition.path)
        if commit is not None and commit.is_held:
            raise PartitionHeldError(
                f"partition {change.partition} of {change.table} was restored and held meanwhile:",
                "nothing was changed. --force replaces it.",
            )


def refuse_other_types(session: LakeSession, changes: Sequence[Change]) -> None:
    """Refuse files whose columns have other types than the table has now, which another run may have changed.

    Raises:
        SchemaChangedError: a column has another type.
    """
    typed = [(change, change.requires.schema) for change in changes if change.requires.schema is not None]
    if not typed:
        return
    table = data_schema(session, typed[0][0].table, typed[0][0].partition.columns)
    for change, schema in typed:
        for field in schema:
            index = table.get_field_index(field.name)
            if index >= 0 and not table.field(index).type.equals(field.type):
                raise columns_changed(change)
