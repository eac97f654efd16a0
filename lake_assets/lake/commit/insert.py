"""Commits by INSERT, for lakes that accept no written files: encrypted lakes, and lakes that MotherDuck manages.

Tasks stage the rows, encrypted under a key of the run. DuckLake reads the staged files and writes the data files. For a
partitioned table it ignores `target_file_size` and writes a file for each INSERT, so there is one INSERT for each file.
"""

import dataclasses
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lake_assets.base.duckdb_engine import glob_literal, identifier
from lake_assets.base.errors import CatalogError
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition
from lake_assets.config.storages import LocalStorage
from lake_assets.lake.catalog.past_partitions import partition_condition
from lake_assets.lake.commit.change import Change, EarlierRows, Rewrite, Staged, Written, partition_drift
from lake_assets.lake.commit.extension import Statement, only_change, replace_in_transaction
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.spark.task.job import Job, StagingKey
from lake_assets.spark.task.write import stage_files
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import BATCH_ROWS


def insert_statements(lake: Lake, table: TableName, partition: Partition, staged: Staged) -> list[Statement]:
    """Return the statements that insert the rows of each group of staged files, with the partition's values."""
    keys = [identifier(column.name) for column in partition.columns]
    columns = [identifier(name) for name in staged.columns]
    sql = (
        f"INSERT INTO {table.sql} ({', '.join([*columns, *keys])}) "  # noqa: S608 - quoted names
        f"SELECT {', '.join([*columns, *('?' for _ in keys)])} FROM {Staged.source(lake)}"
    )
    return [(sql, [*partition.values, [*map(glob_literal, files)], staged.key]) for files in staged.groups]


def replace_by_insert(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to replace a partition by the staged rows, or to add them to it. On an error nothing has changed.

    Returns the ledger row as written, with the number and size of the files that DuckLake wrote. Raises NotDirectError
    if there are several changes, and SchemaChangedError if the rows were staged for other columns than the table has.
    """
    return replace_in_transaction(session, only_change(changes), insert_staged)


def rewrite_by_insert(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to replace a partition by rows that DuckLake reads: its own, or those of an earlier snapshot.

    It is one transaction, so that another writer's commit in between is a conflict. On an error nothing has changed.
    Returns the ledger row as written, with the rows, and the files and bytes that DuckLake wrote. Raises
    PartitionMovedError if the partition's own rows are rewritten, and its fingerprint is not that of the ledger row.
    """
    change = only_change(changes)
    with tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary:
        return replace_in_transaction(
            session, change, insert_staged, stage=lambda: _staged(session, change, Path(temporary))
        )


def insert_staged(session: LakeSession, change: Change) -> LedgerRow:
    """Insert the staged rows in the open transaction; returns the row with the figures of what DuckLake wrote."""
    staged, row = change.new, change.row
    if not isinstance(staged, Staged):
        return row
    before = _file_names(session, change, staged) if change.adds else set()
    inserted = 0
    for statement in insert_statements(session.config, change.table, change.partition, staged):
        ((rows,),) = session.rows(*statement)
        inserted += rows
    if inserted != row.row_count:
        raise CatalogError(
            f"{inserted:,} rows of partition {change.partition} were inserted, and {row.row_count:,} were staged:",
            "nothing was changed. Run it again.",
        )
    if (after := _file_names(session, change, staged)) is None or before is None:
        return row
    names = sorted(after - before)
    # This reads the files' sizes, not their content.
    ((size,),) = session.rows("SELECT sum(size)::BIGINT FROM read_blob(?)", [[glob_literal(name) for name in names]])
    return dataclasses.replace(row, files_written=len(names), bytes_written=size)


def _file_names(session: LakeSession, change: Change, staged: Staged) -> set[str] | None:
    """Return the partition's files in the transaction; None if no client reaches them, or their names are hidden."""
    columns = [*staged.columns, *(column.name for column in change.partition.columns)]
    if session.config.is_managed or "filename" in map(str.lower, columns):
        return None
    condition, parameters = partition_condition(change.partition)
    names = session.rows(
        f"SELECT DISTINCT filename FROM {change.table.sql} WHERE {condition}",  # noqa: S608 - quoted names
        parameters,
    )
    return {name for (name,) in names}


def _staged(session: LakeSession, change: Change, folder: Path) -> Change:
    """Return the change with its rows staged in a local folder, as files of about the target size.

    The rows of an earlier snapshot are read before the present rows are deleted, because DuckLake then leaves the files
    of these out of time travel too.
    """
    (condition, parameters), new, row = partition_condition(change.partition), change.new, change.row
    if isinstance(new, EarlierRows):
        # The columns that were added since are not inserted, so that the table may have others than the rows.
        names, target = list(new.selected), new.target
        columns = ", ".join(f"{identifier(then)} AS {identifier(now)}" for now, then in new.selected.items())
        query = f"SELECT {columns} FROM {change.table.sql} AT (VERSION => ?) WHERE {condition}"  # noqa: S608 - quoted
        parameters = [new.snapshot, *parameters]
        row = dataclasses.replace(row, files_written=None, bytes_written=None, files_copied=None)
    elif isinstance(new, Rewrite):
        last = recorded_commits(session, change.table, [change.partition]).get(change.partition.path)
        # After another commit the rows would get the fingerprint of the rows before it.
        if (last and last.source_fingerprint) != row.source_fingerprint:
            raise partition_drift(change)
        names, target = list(new.columns), new.target
        query = f"SELECT {', '.join(map(identifier, names))} FROM {change.table.sql} WHERE {condition}"  # noqa: S608
    else:
        return change
    local, key = LocalStorage(path=str(folder)), secrets.token_bytes(16)
    with translated(session.config):
        batches = session.connection.execute(query, parameters).to_arrow_reader(BATCH_ROWS)
        job = Job(row.run_id, LandingZone(local), local, batches.schema, "zstd", target, (), key=StagingKey(key))
        files = list(stage_files(batches, job, ""))
    row = dataclasses.replace(row, row_count=sum(file.rows for file in files))
    if not row.row_count:
        row = dataclasses.replace(row, files_written=0, bytes_written=0)
        return dataclasses.replace(change, row=row, new=Written())
    return dataclasses.replace(change, row=row, new=Staged.of(files, key, names, target))
