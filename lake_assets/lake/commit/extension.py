"""Commits by DuckLake's extension: any table, any catalog. A replacement reads the old partition to end it."""

import logging
from collections.abc import Callable, Iterable

import duckdb

from lake_assets.duckdb_engine import all_threads, identifier
from lake_assets.errors import CatalogError, CatalogUnreachableError, LakeUnreachableError
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog.database import catalog_view
from lake_assets.lake.catalog.float_bounds import widen_float_bounds
from lake_assets.lake.catalog.registered import registered_before
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.commit.registration import RefusedFilesError, RegisteredBeforeError, Registration
from lake_assets.lake.commit.replacement import Replacement, add_files_statement, delete_statement, where
from lake_assets.lake.conflicts import is_conflict
from lake_assets.lake.ledger.tables import LedgerRow, claim, insert_ledger_rows, insert_manifest, insert_manifest_rows
from lake_assets.lake.session import AUTHOR, LakeSession, TableName, translated
from lake_assets.layout.partition import Partition, PartitionValue

_LOG = logging.getLogger(__name__)


def replace_by_extension(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """One try.

    Returns:
        The ledger row as it stands in the ledger.

    Raises:
        SchemaChangedError: the files were written for other columns than the table has; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    _refuse_files(session)
    return replace_in_transaction(session, replacement, _add_files_of)


def replace_in_transaction(
    session: LakeSession,
    replacement: Replacement,
    load: Callable[[LakeSession, Replacement], Replacement],
    first: Callable[[], Replacement] | None = None,
) -> LedgerRow:
    """One try of a replacement. The order matters: deleting after loading would delete the new rows too.

    Args:
        session: an open lake.
        replacement: what is to be done.
        load: brings the partition's new rows, and says what was done.
        first: looks at the partition before its rows are gone, and says what is to be done then.

    Raises:
        SchemaChangedError: the rows were written for other columns than the table has; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    # Its own retries let two commits pass that overlap, if each of their deletes matched nothing: both would add
    # the partition. Without them any overlap is refused, by the snapshot's number, and the number is known before.
    # Those of MotherDuck's server are not ours to set, so there a claim has any overlap refused.
    if not session.config.is_managed:
        session.rows("SET ducklake_max_retry_count = 0")
    with all_threads(session.connection), session.transaction():
        if session.config.is_managed:
            claim(session, replacement.row)
        if first is not None:
            replacement = first()
        ((rows_before,),) = session.rows(*delete_statement(replacement.table, replacement.partition))
        if replacement.files or replacement.staged:
            _refuse_other_columns(session, replacement)
        replacement = load(session, replacement)
        row = replacement.done(rows_before=rows_before, snapshot_id=session.current_snapshot() + 1)
        insert_manifest(session, row, replacement.manifest)
        insert_ledger_rows(session, [row])
        session.sign(AUTHOR, replacement.message, replacement.extra_info)
    _check_committed(session, row)
    _move_bounds(session, replacement.table, row)
    return row


def _add_files_of(session: LakeSession, replacement: Replacement) -> Replacement:
    if replacement.files:
        session.rows(*add_files_statement(replacement.table, replacement.files))
    return replacement


def register_by_extension(session: LakeSession, registration: Registration) -> list[LedgerRow]:
    """One try.

    Returns:
        The ledger rows as they stand in the ledger, in the order of the registration's.

    Raises:
        RegisteredBeforeError: the catalog has some of the files already; nothing has changed.
        RefusedFilesError: a file is none that can be registered; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    _refuse_files(session)
    session.rows("SET ducklake_max_retry_count = 0")  # any overlap is refused; see above
    current = session.current_snapshot()
    _refuse_known(session, registration)
    counts = _partition_rows(session, registration.table, registration.rows)
    with all_threads(session.connection), session.transaction():
        if session.current_snapshot() != current:
            with translated(session.config):
                raise duckdb.TransactionException("Transaction conflict: another writer was faster")
        if registration.with_rows:
            _add_files(session, registration)
        rows = registration.done(rows_before=counts, snapshot_id=current + 1)
        insert_manifest_rows(session, registration.manifest_rows())
        insert_ledger_rows(session, rows)
        session.sign(AUTHOR, registration.message, registration.extra_info)
    _check_committed(session, rows[0])
    _move_bounds(session, registration.table, rows[0])
    return rows


def _add_files(session: LakeSession, registration: Registration) -> None:
    for file in registration.with_rows:
        for name, folder in file.folders:
            raise RefusedFilesError(
                f"the path of {file.uri} says {name} by a folder {folder}=…, and DuckLake's extension reads {name}=… "
                "alone:",
                "use mode: replace, or name the partition column like the folder.",
            )
    try:
        session.rows(*add_files_statement(registration.table, [file.uri for file in registration.with_rows]))
    except CatalogError as error:
        if is_conflict(error) or isinstance(error, (LakeUnreachableError, CatalogUnreachableError)):
            raise
        raise RefusedFilesError(error.problem, "land the file as the table is, or use mode: replace.") from error


def _refuse_known(session: LakeSession, registration: Registration) -> None:
    with catalog_view(session) as catalog:
        table_id, path, is_relative = read_folder(catalog, registration.table)
        folder = (data_path(session.config) if is_relative else "") + path
        found = registered_before(catalog.rows, table_id, folder, [file.uri for file in registration.files])
    if found:
        raise RegisteredBeforeError(found)


def _partition_rows(session: LakeSession, table: TableName, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """How many rows the lake has of each of these partitions."""
    by_values: dict[tuple[PartitionValue, ...], Partition] = {partition.values: partition for partition in partitions}
    conditions = [where(partition) for partition in by_values.values()]
    names = ", ".join(identifier(column.name) for column in next(iter(by_values.values())).columns)
    rows = session.rows(
        f"SELECT {names}, count(*) FROM {table.sql} "  # noqa: S608 - quoted names
        f"WHERE {' OR '.join(f'({condition})' for condition, _ in conditions)} GROUP BY {names}",
        [parameter for _, parameters in conditions for parameter in parameters],
    )
    return {by_values[tuple(values)]: count for *values, count in rows}


def _refuse_files(session: LakeSession) -> None:
    """The extension takes a plain file into an encrypted lake, and then no query can read the table."""
    if session.config.inserts_only:
        raise CatalogError("the lake takes rows by INSERT only, and no files that were written outside of it.")


def _check_committed(session: LakeSession, row: LedgerRow) -> None:
    """Raise CatalogError if the ledger does not name the snapshot that it is part of."""
    if session.config.is_managed:
        return  # the server committed it, and this connection has no last snapshot
    ((committed,),) = session.rows("SELECT id FROM ducklake_last_committed_snapshot(?)", [session.alias])
    if committed != row.snapshot_id:
        raise CatalogError(
            f"the commit of partition {row.load_partition} is snapshot {committed}, and {row.snapshot_id} was due:",
            "see the lake's snapshots; run the partition again with --force.",
        )


def _move_bounds(session: LakeSession, table: TableName, row: LedgerRow) -> None:
    """Move the bounds of single-precision columns of a commit's files outward, as `bounds.beyond` does.

    DuckLake writes its statistics at the commit, so this is a statement of its own.
    """
    if session.unknown_specification is not None:
        return
    try:
        widen_float_bounds(session, table, row.snapshot_id)
    except CatalogError as error:
        # The commit is done: to fail now would be to tell of a failure that was none.
        _LOG.warning("The bounds of FLOAT columns of %s stay as DuckLake wrote them: %s", table, error)


def _refuse_other_columns(session: LakeSession, replacement: Replacement) -> None:
    """Another run may have changed the table since the files were begun; a missing column would be an error here.

    The direct strategy has no need of this: it takes files only that have all columns.
    """
    if not replacement.columns:
        return
    with translated(session.config):
        relation = session.connection.sql(f"SELECT * FROM {replacement.table.sql} LIMIT 0")  # noqa: S608 - quoted
    written = {name.lower() for name in replacement.columns}
    by_path = {column.name.lower() for column in replacement.partition.columns}
    if {name.lower() for name in relation.columns} - by_path != written:
        raise replacement.columns_changed()
