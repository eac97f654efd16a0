"""The commit: one DuckLake transaction that replaces a partition and says so in ledger and manifest."""

import dataclasses
import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass

import tenacity

from lake_assets.errors import CatalogError, CommitConflictError
from lake_assets.lake.conflicts import is_conflict
from lake_assets.lake.ducklake import LakeSession, TableName
from lake_assets.lake.engine import glob_literal, identifier
from lake_assets.lake.ledger import CLAIMS, LedgerRow, insert_ledger_row, insert_manifest, ledger_table
from lake_assets.manifest import Manifest
from lake_assets.partition import Partition

AUTHOR = "lake_assets"

Statement = tuple[str, list[object]]
"""SQL and its bound parameters."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What one commit does: the partition's rows go, these files' rows come, the ledger row tells."""

    table: TableName
    partition: Partition
    files: Sequence[str]  # URIs; empty: the partition is cleared
    manifest: Manifest
    row: LedgerRow  # its snapshot_id, rows_before and finished_at are filled in here


def commit(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """Replace the partition in one transaction; a reader sees the old rows or the new ones.

    Another writer's commit in between rolls this one back, and all of it is tried again.

    Returns:
        The ledger row as it stands in the ledger.

    Raises:
        CommitConflictError: other writers won `commit_retries` times.
        CatalogError: the catalog refuses; nothing has changed.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_conflict),
        stop=tenacity.stop_after_attempt(session.config.commit_retries + 1),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
    )
    try:
        for attempt in retrying:
            with attempt, session.commit_lock():
                done = None
                if attempt.retry_state.attempt_number > 1:
                    session.reattach()
                    # The answer to a commit can be lost: what the ledger has already is not done a second time.
                    done = _committed(session, replacement.row)
                row = done or _replace(session, replacement)
    except tenacity.RetryError as error:
        raise CommitConflictError(
            f"partition {replacement.partition} of {replacement.table} was not committed: other writers were faster "
            f"{session.config.commit_retries + 1} times:",
            "run it again, or raise commit_retries.",
        ) from error
    return row


def _replace(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """One try. The order matters: deleting after adding would delete the new rows too."""
    # DuckLake's own retry would commit under another snapshot than the one the ledger row names.
    session.rows("SET ducklake_max_retry_count = 0")
    with session.transaction():
        _claim(session, replacement)
        ((rows_before,),) = session.rows(*delete_statement(replacement.table, replacement.partition))
        if replacement.files:
            session.rows(*add_files_statement(replacement.table, replacement.files))
        ((current,),) = session.rows("SELECT id FROM ducklake_current_snapshot('lake')")
        row = dataclasses.replace(
            replacement.row,
            rows_before=rows_before,
            snapshot_id=current + 1,
            finished_at=dt.datetime.now(dt.UTC),
        )
        insert_manifest(session, row, replacement.manifest)
        insert_ledger_row(session, row)
        _set_message(session, row)
    ((committed,),) = session.rows("SELECT id FROM ducklake_last_committed_snapshot('lake')")
    if committed != row.snapshot_id:
        raise CatalogError(
            f"the commit of partition {row.load_partition} is snapshot {committed}, and {row.snapshot_id} was due:",
            "see the lake's snapshots; run the partition again with --force.",
        )
    return row


def _claim(session: LakeSession, replacement: Replacement) -> None:
    """Change the table's claim row, so that the catalog refuses a second commit that overlaps with this one.

    Two replaces of a partition that does not exist yet have nothing else in common: each deletes nothing, and
    both would be committed.
    """
    ((claimed,),) = session.rows(
        f"UPDATE {CLAIMS.sql} SET run_id = ? WHERE destination_table = ?",  # noqa: S608 - a quoted name
        [replacement.row.run_id, str(replacement.table)],
    )
    if claimed != 1:
        raise CatalogError(
            f"table {replacement.table} has {claimed} claim rows in {CLAIMS}, and must have one:",
            "was the table of claims changed by hand?",
        )


def delete_statement(table: TableName, partition: Partition) -> Statement:
    """The statement that removes a partition's rows."""
    condition, parameters = where(partition)
    return f"DELETE FROM {table.sql} WHERE {condition}", parameters  # noqa: S608 - quoted names


def add_files_statement(table: TableName, files: Sequence[str]) -> Statement:
    """The statement that registers files; the partition's values are taken from their paths."""
    return (
        "CALL ducklake_add_data_files('lake', ?, ?, schema => ?, hive_partitioning => true)",
        [table.table, [glob_literal(file) for file in files], table.schema],
    )


def where(partition: Partition) -> tuple[str, list[object]]:
    """The condition that holds for a partition's rows only, with its bound parameters."""
    conditions: list[str] = []
    parameters: list[object] = []
    for column, value in zip(partition.columns, partition.values, strict=True):
        # `IS NOT DISTINCT FROM` would do for both, but files are pruned by `=` and `IS NULL` only.
        if value is None:
            conditions.append(f"{identifier(column.name)} IS NULL")
        else:
            conditions.append(f"{identifier(column.name)} = ?")
            parameters.append(value)
    return " AND ".join(conditions), parameters


def _set_message(session: LakeSession, row: LedgerRow) -> None:
    extra = json.dumps({"run_id": row.run_id, "stream": row.stream, "load_partition": row.load_partition})
    session.rows(
        "CALL lake.set_commit_message(?, ?, extra_info => ?)",
        [AUTHOR, f"{row.stream} {row.load_partition}: {row.mode} by run {row.run_id}", extra],
    )


def _committed(session: LakeSession, row: LedgerRow) -> LedgerRow | None:
    """The row as the ledger has it, if an earlier try was committed after all."""
    found = session.rows(
        f"SELECT snapshot_id, rows_before, finished_at FROM {ledger_table(session.config).sql} "  # noqa: S608
        "WHERE run_id = ? AND stream = ? AND load_partition = ? AND status = 'committed'",
        [row.run_id, row.stream, row.load_partition],
    )
    if not found:
        return None
    snapshot_id, rows_before, finished_at = found[0]
    return dataclasses.replace(row, snapshot_id=snapshot_id, rows_before=rows_before, finished_at=finished_at)
