"""Commits by DuckLake's extension, for any table and catalog. A replacement reads the old partition to delete it."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

import duckdb

from lake_assets.base.duckdb_engine import all_threads, glob_literal
from lake_assets.base.errors import CatalogError, CatalogUnreachableError, LakeUnreachableError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.bounds import Bounds
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.corrected_bounds import correct_bounds, table_bounds
from lake_assets.lake.catalog.file_entries import registered_before
from lake_assets.lake.catalog.past_partitions import LIVE, counted_rows, partition_condition, past_table
from lake_assets.lake.catalog.table import partition_keys, read_folder
from lake_assets.lake.commit.change import (
    Change,
    LandedFile,
    LandedFiles,
    RefusedFilesError,
    RegisteredBeforeError,
    Rewrite,
    RowsBefore,
    Staged,
    Written,
    appended,
    columns_changed,
    committed_rows,
    message,
    of_table,
    refuse_drift,
    refuse_other_types,
    refuse_others,
)
from lake_assets.lake.failures import OVERTAKEN, is_conflict, translated
from lake_assets.lake.ledger.tables import LedgerRow, append_records, claim
from lake_assets.lake.session import AUTHOR, LakeSession, PartitionedTable, TableName

_LOG = logging.getLogger(__name__)

Statement = tuple[str, list[object]]
"""SQL and its bound parameters."""


def delete_statement(table: TableName, partition: Partition) -> Statement:
    """Return the statement that removes a partition's rows."""
    condition, parameters = partition_condition(partition)
    return f"DELETE FROM {table.sql} WHERE {condition}", parameters  # noqa: S608 - quoted names


def add_files_statement(table: TableName, files: Sequence[str]) -> Statement:
    """Return the statement that registers files; DuckLake reads the partition's values from their paths."""
    return (
        "CALL ducklake_add_data_files(?, ?, ?, schema => ?, hive_partitioning => true)",
        [table.lake, table.table, [glob_literal(file) for file in files], table.schema],
    )


def list_files_statement(table: TableName) -> Statement:
    """Return the statement that lists the table's data files, their URIs in the first column."""
    return "SELECT data_file FROM ducklake_list_files(?, ?, schema => ?)", [table.lake, table.table, table.schema]


def replace_by_extension(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to replace a partition, or to add to it; returns the ledger row as written.

    Errors are those of `replace_in_transaction`, and NotDirectError if there are several changes; nothing has changed
    then.
    """
    change = only_change(changes)
    if change.new is not None:
        refuse_files(session, change.table, [change.partition])
    return replace_in_transaction(session, change, _add_written)


def only_change(changes: Sequence[Change]) -> Change:
    """Return the change, if it is one; DuckLake's extension would delete the rows of each partition by itself.

    Several are a NotDirectError.
    """
    if len(changes) > 1:
        raise NotDirectError("DuckLake's extension commits each partition by itself")
    return changes[0]


def replace_in_transaction(
    session: LakeSession,
    change: Change,
    load: Callable[[LakeSession, Change], LedgerRow],
    stage: Callable[[], Change] | None = None,
) -> list[LedgerRow]:
    """Try once to replace a partition, or to add to it. Deleting after loading would delete the new rows too.

    `load` loads the partition's new rows, and returns the ledger row with their figures. `stage` is called before the
    old rows are deleted; it returns the change with the rows to load.

    On an error nothing has changed. Raises SchemaChangedError if the rows were written for other columns than the table
    has, PartitionHeldError if the partition is held, and PartitionMovedError if it does not consist of the expected
    objects.
    """
    with session.commit_lock():
        refuse_other_types(session, [change])
        refuse_others(session, [change])
        # DuckLake's own retries accept two overlapping commits if neither delete matched a row: both would add the
        # partition. Without retries the snapshot's number, which is then known before, makes the catalog refuse any
        # overlap. The retries of MotherDuck's server cannot be turned off, so there a claim makes it refuse overlaps.
        if not session.config.is_managed:
            session.rows("SET ducklake_max_retry_count = 0")
        bounds = _bounds(session, change.table)
        with all_threads(session.connection), session.transaction(writes_files=True):
            if session.config.is_managed:
                claim(session, change.row)
            if change.requires.objects is not None:
                session.current_snapshot()  # the transaction's, from here on
                refuse_drift(session, [change])
            loaded = change if stage is None else stage()
            if change.adds:
                rows_before = counted_rows(session, change.table, [change.partition])[change.partition]
            else:
                ((rows_before,),) = session.rows(*delete_statement(change.table, change.partition))
            if isinstance(change.new, Written | Staged | Rewrite) and change.new.columns:
                _refuse_other_columns(session, change, change.new.columns)
            row = load(session, loaded)
            snapshot = session.current_snapshot() + 1
            if change.delta is not None and change.delta.snapshot_id != snapshot:
                _refuse_overtaken(session)
            before = of_table(change.table, {change.partition: rows_before})
            rows = _record(session, [dataclasses.replace(change, row=row)], before, snapshot)
        _finish(session, change.table, rows[0], bounds)
        return rows


def _record(
    session: LakeSession, changes: Sequence[Change], rows_before: RowsBefore, snapshot_id: int
) -> list[LedgerRow]:
    """Append the rows of this package's tables, and give the snapshot its message; returns the ledger rows."""
    rows = committed_rows(changes, rows_before, snapshot_id)
    append_records(session, appended(changes, rows))
    session.sign(AUTHOR, *message(changes))
    return rows


def _finish(session: LakeSession, table: TableName, row: LedgerRow, before: Mapping[int, Bounds] | None) -> None:
    """Check the committed snapshot, and correct the bounds that DuckLake wrote at the commit."""
    _check_committed(session, row)
    if before is None:
        return
    try:
        with translated(session.config):
            correct_bounds(session, table, row.snapshot_id, before)
    except CatalogError as error:
        # The commit has succeeded, so the run must not fail.
        _LOG.warning("The bounds of the columns of %s remain as DuckLake wrote them: %s", table, error)


def _bounds(session: LakeSession, table: TableName) -> Mapping[int, Bounds] | None:
    """Return the table's bounds before a commit; None if the catalog's own tables cannot be used."""
    return table_bounds(session, table) if session.unknown_specification is None else None


def _add_written(session: LakeSession, change: Change) -> LedgerRow:
    if isinstance(change.new, Written) and change.new.files:
        session.rows(*add_files_statement(change.table, [file.uri for file in change.new.files]))
    return change.row


def register_by_extension(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to register landed files; returns the ledger rows as written. On an error nothing has changed.

    Raises RegisteredBeforeError if the catalog already has some of the files, and RefusedFilesError if the extension
    refuses one.
    """
    with session.commit_lock():
        table, partitions = changes[0].table, [change.partition for change in changes]
        files = [file for change in changes if isinstance(change.new, LandedFiles) for file in change.new.files]
        refuse_files(session, table, partitions)
        session.rows("SET ducklake_max_retry_count = 0")  # as in `replace_in_transaction`
        current = session.current_snapshot()
        _refuse_registered(session, table, files)
        partitioned = PartitionedTable(table, partitions[0].columns)
        counts = past_table(session, partitioned, partitions, LIVE).live_rows(partitions)
        bounds = _bounds(session, table)
        with all_threads(session.connection), session.transaction():
            if session.current_snapshot() != current:
                _refuse_overtaken(session)
            if with_rows := [file for file in files if file.rows]:
                _add_landed(session, table, with_rows)
            rows = _record(session, changes, of_table(table, counts), current + 1)
        _finish(session, table, rows[0], bounds)
        return rows


def _refuse_overtaken(session: LakeSession) -> NoReturn:
    """Raise the error of a transaction that another commit has overtaken, so that it is tried again."""
    with translated(session.config):
        raise duckdb.TransactionException(OVERTAKEN)
    raise AssertionError


def _add_landed(session: LakeSession, table: TableName, files: Sequence[LandedFile]) -> None:
    for file in files:
        for name, folder in file.folders:
            raise RefusedFilesError(
                f"the path of {file.uri} has {name} in a folder {folder}=…, and DuckLake's extension reads only "
                f"{name}=…:",
                "use mode: replace, or name the partition column like the folder.",
            )
    try:
        session.rows(*add_files_statement(table, [file.uri for file in files]))
    except CatalogError as error:
        if is_conflict(error) or isinstance(error, (LakeUnreachableError, CatalogUnreachableError)):
            raise
        raise RefusedFilesError(error.problem, "use mode: replace.") from error


def _refuse_registered(session: LakeSession, table: TableName, files: Sequence[LandedFile]) -> None:
    with session.read() as catalog:
        states = registered_before(catalog, *read_folder(catalog, table), [file.uri for file in files])
    if states:
        raise RegisteredBeforeError(states)


def refuse_files(session: LakeSession, table: TableName, partitions: Iterable[Partition]) -> None:
    """Refuse lakes and tables that accept no files of the stream, by a CatalogError.

    In an encrypted lake the extension registers a plain file, and then no query can read the table. Or the table is
    partitioned by other columns than the files' paths, or by buckets of one.
    """
    if session.config.inserts_only:
        raise CatalogError("the lake accepts rows only through INSERT, and no files that were written outside of it.")
    partition = next(iter(partitions), None)
    if session.unknown_specification is not None or partition is None:
        return
    names = [column.name for column in partition.columns]
    keys = partition_keys(session, table)
    if keys and sorted(keys) != sorted(map(str.lower, names)):
        by = f"SET PARTITIONED BY ({', '.join(names)})" if names else "RESET PARTITIONED BY"
        raise CatalogError(
            f"table {table} is partitioned by {', '.join(keys)}, and the stream by {', '.join(names) or 'nothing'}:",
            f"run `ALTER TABLE {table} {by}` in a client of the lake.",
        )


def _check_committed(session: LakeSession, row: LedgerRow) -> None:
    """Raise CatalogError if the ledger row has another snapshot number than the commit."""
    if session.config.is_managed:
        return  # the server made the commit, and this connection has no last snapshot
    committed = session.committed_snapshot()
    if committed != row.snapshot_id:
        raise CatalogError(
            f"the commit of partition {row.load_partition} is snapshot {committed}, and {row.snapshot_id} was due:",
            "look at the lake's snapshots, and run the partition again with --force.",
        )


def _refuse_other_columns(session: LakeSession, change: Change, columns: Sequence[str]) -> None:
    """Refuse rows that lack columns of the table, which another run may have changed meanwhile.

    The direct strategy checks the columns of each file itself.
    """
    with translated(session.config):
        relation = session.connection.sql(f"SELECT * FROM {change.table.sql} LIMIT 0")  # noqa: S608 - quoted
    by_path = {column.name.lower() for column in change.partition.columns}
    if {name.lower() for name in relation.columns} - by_path != {name.lower() for name in columns}:
        raise columns_changed(change)
