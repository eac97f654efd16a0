"""The checks of what a commit requires. Each refuses it before anything has changed."""

from collections.abc import Callable, Collection, Sequence

from lake_assets.base.errors import PartitionHeldError, PartitionMovedError, SchemaChangedError
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.catalog.described import Description, ask_added
from lake_assets.lake.catalog.files import PartitionFile
from lake_assets.lake.catalog.snapshots import ask_changes, snapshot_span
from lake_assets.lake.catalog.table import Table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.commit.change import Change, ExpectedManifest, by_table
from lake_assets.lake.ledger.ledger_relation import LedgerScope, read_inlined
from lake_assets.lake.ledger.object_history import partition_objects
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.ledger.tables import LEDGER, MANIFEST, release_command
from lake_assets.lake.session import LakeSession, PartitionedTable
from lake_assets.lake.table_setup import data_schema
from lake_assets.spark.task.job import may_be_marked, named_fingerprint


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
    is known. So it sees every commit before that snapshot, and the catalog refuses a commit that overlaps. Raises
    PartitionMovedError if another writer added one of the objects or replaced the partition, and NotDirectError if only
    DuckLake can read the manifest.
    """
    for of_table in by_table(changes).values():
        expecting = [(change, change.requires.objects) for change in of_table if change.requires.objects is not None]
        if expecting:
            _refuse_drift(session, expecting, database)


def _refuse_drift(
    session: LakeSession, expecting: Sequence[tuple[Change, ExpectedManifest]], database: CatalogDatabase | None
) -> None:
    first, expected_first = expecting[0]
    scope = LedgerScope(first.table, [change.partition.path for change, _ in expecting], expected_first.streams)
    known = partition_objects(session, scope, database)
    for change, expected in expecting:
        noted = known.get(change.partition.path, {})
        if expected.keys is not None:
            noted = {key: noted[key] for key in expected.keys if key in noted}
        if noted != expected.objects:
            raise partition_drift(change)


def drift_checked(session: LakeSession, changes: Sequence[Change]) -> int | None:
    """Return the newest snapshot, after `refuse_drift` in it; None if no objects are expected.

    So the ledger's and the manifest's files, which may be in a slow storage, are read before the commit's transaction.
    """
    if all(change.requires.objects is None for change in changes):
        return None
    with session.read() as database:
        refuse_drift(session, changes, database)
        _, newest = snapshot_span(database)
    return newest


def ask_drift(
    session: LakeSession, database: CatalogDatabase, description: Description, changes: Sequence[Change], since: int
) -> Callable[[Transaction], bool]:
    """Ask whether a commit since that snapshot may have changed the known objects of the partitions of a commit.

    Each commit of a partition has a row in the ledger, so the objects are the same if there is no new one, and no other
    change of ledger and manifest than new rows in the catalog.
    """
    among = {change.partition.path for change in changes}
    names = {own.name(session.config) for own in (LEDGER, MANIFEST)}
    ids = {str(table.table_id) for name, table in description.tables.items() if name in names}
    ledger = description.tables[LEDGER.name(session.config)].table_id
    inlined, version = description.inlined.get(ledger, ()), spec.VERSIONS[description.state.version]
    made = ask_changes(database, since)
    added = ask_added(database, inlined, "load_partition", version, since)

    def may_drift(transaction: Transaction) -> bool:
        of_snapshots = made()
        is_known = len(of_snapshots) == transaction.snapshot_id - 1 - since and len(ids) == len(names)
        if any(kind != "inlined_insert" and table_id in ids for changes in of_snapshots for kind, table_id in changes):
            is_known = False
        if not is_known or transaction.inlined.get(ledger, ()) != inlined:
            return True
        return any(not among.isdisjoint(read_inlined(row, ["VARCHAR"])) for answer in added for row in answer())

    return may_drift


def refuse_other_files(change: Change, files: Collection[PartitionFile]) -> None:
    """Refuse a partition that consists of other files than required, by their ids or by what their names say.

    The first commit of a partition needs no look at the ledger. Raises PartitionMovedError, or MarkedFilesError if the
    partition may be held: `refuse_others` says whether it is.
    """
    requires = change.requires
    if (planned := requires.planned) is not None and any(
        planned.is_before(file.begin_snapshot, named_fingerprint(file.path)) for file in files
    ):
        raise partition_drift(change)
    may_be = any(may_be_marked(file.path) for file in files) if files else requires.was_committed
    if may_be and not requires.may_be_held:
        raise MarkedFilesError
    if requires.files is not None and requires.files != {file.file_id for file in files}:
        raise partition_drift(change)


def refuse_others(session: LakeSession, changes: Sequence[Change]) -> None:
    """Refuse a refresh that began before its partition was held, or before another run committed it.

    Raises PartitionHeldError or PartitionMovedError.
    """
    for table, of_table in by_table([c for c in changes if not c.requires.may_be_held or c.requires.planned]).items():
        last = recorded_commits(session, table, [change.partition for change in of_table])
        for change in of_table:
            commit, requires = last.get(change.partition.path), change.requires
            if commit is not None and commit.is_held and not requires.may_be_held:
                raise PartitionHeldError(
                    f"partition {change.partition} of {table} was restored and held meanwhile:",
                    f"nothing was changed. {release_command(change.row.stream, change.partition.option)} ends the "
                    "hold.",
                )
            planned = requires.planned
            if commit and planned and planned.is_before(commit.snapshot_id, commit.source_fingerprint):
                raise partition_drift(change)


def refuse_other_types(session: LakeSession, changes: Sequence[Change], described: Table | None = None) -> None:
    """Refuse files whose columns have other types than the table (of now when None): another run may change them."""
    typed = [(change, change.requires.schema) for change in changes if change.requires.schema is not None]
    if not typed:
        return
    first = typed[0][0]
    table = data_schema(session, PartitionedTable(first.table, first.partition.columns), described)
    for change, schema in typed:
        for column in schema:
            index = table.get_field_index(column.name)
            if index >= 0 and not table.field(index).type.equals(column.type):
                raise columns_changed(change)
