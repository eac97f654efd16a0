"""Commits by INSERT, for lakes that accept no written files: encrypted lakes, and lakes that MotherDuck manages.

Tasks stage the rows, encrypted under a key of the run. DuckLake reads the staged files and writes the data files. For a
partitioned table it ignores `target_file_size` and writes a file for each INSERT, so there is one INSERT for each file.
"""

import dataclasses
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lake_assets.config.lake import Lake
from lake_assets.config.storages import LocalStorage
from lake_assets.duckdb_engine import glob_literal, identifier
from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.past import where
from lake_assets.lake.commit.extension import replace_in_transaction
from lake_assets.lake.commit.replacement import Replacement, Staged, Statement
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.last_runs import committed_fingerprints
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition
from lake_assets.parquet.encrypted import stage_files
from lake_assets.parquet.job import Job, StagingKey
from lake_assets.parquet.read import BATCH_ROWS


def replace_by_insert(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """Try once to replace a partition by the staged rows, or to add them to it.

    Returns:
        The ledger row as written, with the number and size of the files that DuckLake wrote.

    Raises:
        SchemaChangedError: the rows were staged for other columns than the table has; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    return replace_in_transaction(session, replacement, insert_staged)


def rewrite_by_insert(session: LakeSession, replacement: Replacement, target: int) -> LedgerRow:
    """Try once to rewrite the partition's rows as files of about the target size; returns the ledger row as written.

    It is one transaction, so that another writer's commit in between is a conflict. The replacement has no files, and
    its columns are the table's columns except the partition's.

    Raises:
        PartitionMovedError: the partition's fingerprint is not that of the ledger row; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    with tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary:
        return replace_in_transaction(
            session,
            replacement,
            insert_staged,
            first=lambda: _stage_partition(session, replacement, Path(temporary), target),
        )


def insert_statement(
    table: TableName, partition: Partition, names: Sequence[str], files: Sequence[str], key: object, lake: Lake
) -> Statement:
    """The statement that inserts the rows of staged files, which have these columns, with the partition's values."""
    columns = ", ".join(map(identifier, names))
    # MotherDuck's server would read a bucket itself, without permission.
    run_here = ", MD_RUN = LOCAL" if lake.is_managed and not isinstance(lake.staging_storage, LocalStorage) else ""
    keys = ", ".join(identifier(column.name) for column in partition.columns)
    marks = ", ".join("?" for _ in partition.columns)
    sql = (
        f"INSERT INTO {table.sql} ({columns}, {keys}) SELECT {columns}, {marks} "  # noqa: S608 - quoted names
        f"FROM read_parquet(?, hive_partitioning = false, encryption_config = {{footer_key_value: ?}}{run_here})"
    )
    return sql, [*partition.values, [glob_literal(file) for file in files], key]


def insert_staged(session: LakeSession, replacement: Replacement) -> Replacement:
    """Insert the staged rows in the open transaction; returns the replacement with the files that DuckLake wrote."""
    staged = replacement.staged
    if staged is None:
        return replacement
    before = _file_names(session, replacement) if replacement.adds else set()
    inserted = 0
    for files in staged.groups:
        ((rows,),) = session.rows(
            *insert_statement(
                replacement.table, replacement.partition, replacement.columns, files, staged.key, session.config
            )
        )
        inserted += rows
    if inserted != replacement.row.row_count:
        raise CatalogError(
            f"{inserted:,} rows of partition {replacement.partition} were inserted, and {replacement.row.row_count:,} "
            "were staged:",
            "nothing was changed; run it again.",
        )
    if (after := _file_names(session, replacement)) is None or before is None:
        return replacement
    return _with_written(session, replacement, sorted(after - before))


def _file_names(session: LakeSession, replacement: Replacement) -> set[str] | None:
    """The partition's files in the transaction; None if no client can reach them, or a column hides their names."""
    columns = [*replacement.columns, *(column.name for column in replacement.partition.columns)]
    if session.config.is_managed or "filename" in map(str.lower, columns):
        return None
    condition, parameters = where(replacement.partition)
    names = session.rows(
        f"SELECT DISTINCT filename FROM {replacement.table.sql} WHERE {condition}",  # noqa: S608 - quoted names
        parameters,
    )
    return {name for (name,) in names}


def _with_written(session: LakeSession, replacement: Replacement, names: Sequence[str]) -> Replacement:
    """The replacement with the files and bytes that DuckLake wrote."""
    # This reads the files' sizes, not their content.
    ((size,),) = session.rows("SELECT sum(size)::BIGINT FROM read_blob(?)", [[glob_literal(name) for name in names]])
    row = dataclasses.replace(replacement.row, files_written=len(names), bytes_written=size)
    return dataclasses.replace(replacement, row=row)


def _stage_partition(session: LakeSession, replacement: Replacement, folder: Path, target: int) -> Replacement:
    """The replacement with the partition's rows staged in a local folder."""
    path = replacement.partition.path
    # After another commit the rows would get the fingerprint of the rows before it.
    if committed_fingerprints(session, replacement.table, [path]).get(path) != replacement.row.source_fingerprint:
        raise replacement.moved()
    condition, parameters = where(replacement.partition)
    columns = ", ".join(identifier(name) for name in replacement.columns)
    sql = f"SELECT {columns} FROM {replacement.table.sql} WHERE {condition}"  # noqa: S608 - quoted names
    return with_rows(session, replacement, (sql, parameters), folder, target)


def with_rows(
    session: LakeSession, replacement: Replacement, query: Statement, folder: Path, target: int
) -> Replacement:
    """The replacement with the rows of a query staged in a local folder, as files of about `target` bytes."""
    local = LocalStorage(path=str(folder))
    key = secrets.token_bytes(16)
    with translated(session.config):
        batches = session.connection.execute(*query).to_arrow_reader(BATCH_ROWS)
        job = Job(replacement.row.run_id, local, local, batches.schema, "zstd", target, (), key=StagingKey(key))
        files = list(stage_files(batches, job, ""))
    row = dataclasses.replace(replacement.row, row_count=sum(file.rows for file in files))
    return dataclasses.replace(replacement, row=row, staged=Staged.of(files, key, target))
