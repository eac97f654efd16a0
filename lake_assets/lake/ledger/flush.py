"""The flush of inlined rows of ledger and manifest from the catalog into files of the lake, and their retention.

A commit adds a few rows, too few for a file. But a year of commits adds some hundred thousand rows, and the catalog
reads them one by one, which takes at least three times as long as from a file.

A file holds the rows of a range of time, sorted by partition. A reader of a few partitions skips most of each file; a
reader of a range of time skips most files.

Old rows are deleted with the manifest rows of their runs. No run needs a deleted row. For each partition the newest row
of each kind stays, of any age, because the ledger decides where the names of data files do not (`lookup.py`). The rows
of additions and of registrations in place stay, too: they and their manifest rows say which objects the lake has.
"""

import datetime as dt
from collections.abc import Sequence
from functools import partial
from typing import Any

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.texts import count
from lake_assets.lake.catalog.described import has_deletes, inlined_rows
from lake_assets.lake.catalog.table import find_table, read_order, table_options
from lake_assets.lake.ledger.tables import ADDS, LEDGER, OF_RUNS, OWN_TABLES, set_option
from lake_assets.lake.session import AUTHOR, LakeSession, TableName, under_lock

MANY = 10_000  # rows of a table
MOST_SMALL_FILES = 10  # of a table smaller than `LARGE`, which are then merged

# A partition's rows lie in one or two row groups of a file. A file of this size has about a million rows of the ledger,
# and is not merged again.
ROW_GROUP = 20_480
LARGE = 64_000_000  # bytes
_OPTIONS = {"parquet_row_group_size": ROW_GROUP, "target_file_size": f"{LARGE} bytes"}

_KEY = "run_id, stream, load_partition"


def flush_ledger(session: LakeSession, *, dry_run: bool = False) -> int:
    """Flush each table of this package that has `MANY` inlined rows, and return their number.

    The rows are the same at every snapshot. Files from which rows were deleted are rewritten, because readers of a few
    partitions read the files by themselves.
    """
    flushed = 0
    for own in OWN_TABLES:
        table = own.name(session.config)
        if not own.order or not own.is_used(session.config) or not session.exists(table):
            continue
        with session.read() as database:
            table_id = find_table(database, table)  # None if it was renamed meanwhile
            rows = 0 if table_id is None else inlined_rows(database, table_id)
        if dry_run:
            flushed += rows if rows >= MANY else 0
            continue
        if rows >= MANY:
            _arrange(session, table, own.order)
            flush = "SELECT rows_flushed FROM ducklake_flush_inlined_data(?, schema_name => ?, table_name => ?)"
            names = [session.alias, table.schema, table.table]
            flushed += sum(int(moved) for (moved,) in _write(session, f"the flush of {table}", flush, names))
        if _has_deletes(session, table):  # clean-up deletes the old files later
            rewrite = "CALL ducklake_rewrite_data_files(?, ?, schema => ?, delete_threshold => 0)"
            _write(session, f"the files of {table}", rewrite, [session.alias, table.table, table.schema])
        if rows >= MANY:
            _merge(session, table)
    return flushed


def _arrange(session: LakeSession, table: TableName, order: Sequence[str]) -> None:
    """Set the order and the sizes of the files that DuckLake writes, if an earlier flush has not."""
    with session.read() as database:
        is_sorted = bool(read_order(database, find_table(database, table)))
    if not is_sorted:
        keys = ", ".join(map(identifier, order))
        under_lock(
            session, lambda: session.rows(f"ALTER TABLE {table.sql} SET SORTED BY ({keys})"), f"the order of {table}"
        )
    known = table_options(session, table)
    for option, value in _OPTIONS.items():
        if option not in known:
            under_lock(session, partial(set_option, session, table, option, value), f"the options of {table}")


def _write(session: LakeSession, what: str, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that writes files, whose answer may be lost after its commit."""

    def work() -> list[tuple[Any, ...]]:
        with session.transaction(writes_files=True):
            return session.rows(sql, parameters)

    return under_lock(session, work, what)


def _has_deletes(session: LakeSession, table: TableName) -> bool:
    with session.read() as database:
        table_id = find_table(database, table)
        return table_id is not None and has_deletes(database, table_id)


def _merge(session: LakeSession, table: TableName) -> None:
    """Merge the small files of several flushes, which follow each other; clean-up deletes them later."""
    names = [session.alias, table.table, table.schema]
    ((files,),) = session.rows(
        "SELECT count(*) FROM ducklake_list_files(?, ?, schema => ?) WHERE data_file_size_bytes < ?", [*names, LARGE]
    )
    if files >= MOST_SMALL_FILES:
        _write(session, f"the merged files of {table}", "CALL ducklake_merge_adjacent_files(?, ?, schema => ?)", names)


def expire_ledger(session: LakeSession, before: dt.datetime, *, dry_run: bool = False) -> int:
    """Delete ledger rows of runs that ended before a time, and return their number.

    The manifest rows that only they had go too. Snapshots that have not expired keep the rows. `flush_ledger` rewrites
    the files that had them.
    """
    ledger = LEDGER.name(session.config)
    if not session.exists(ledger):
        return 0
    if dry_run:
        return len(_expired(session, before))
    return under_lock(session, lambda: _delete(session, before), f"old rows of {ledger}")


def _expired(session: LakeSession, before: dt.datetime) -> list[int]:
    """Return the row ids of the ledger's rows to delete."""
    rows = session.rows(
        "SELECT number FROM (SELECT rowid AS number, coalesce(finished_at, started_at) AS moment, "  # noqa: S608
        f"status = 'committed' AND ({ADDS} OR mode = 'repair') AS adds, "
        "row_number() OVER (PARTITION BY stream, destination_table, load_partition, mode, status, on_empty IS NULL "
        "ORDER BY snapshot_id DESC NULLS LAST, coalesce(finished_at, started_at) DESC) AS age "
        f"FROM {LEDGER.name(session.config).sql}) WHERE moment < ? AND age > 1 AND NOT adds",
        [before],
    )
    return [number for (number,) in rows]


def _delete(session: LakeSession, before: dt.datetime) -> int:
    ledger = LEDGER.name(session.config).sql
    with session.transaction():
        numbers = _expired(session, before)
        if numbers:
            for own in OF_RUNS:
                session.rows(
                    f"DELETE FROM {own.name(session.config).sql} WHERE ({_KEY}) IN "  # noqa: S608 - quoted names
                    f"(SELECT ({_KEY}) FROM {ledger} WHERE rowid IN (SELECT unnest(?::BIGINT[]))) AND ({_KEY}) NOT IN "
                    f"(SELECT ({_KEY}) FROM {ledger} WHERE rowid NOT IN (SELECT unnest(?::BIGINT[])))",
                    [numbers, numbers],
                )
            session.rows(f"DELETE FROM {ledger} WHERE rowid IN (SELECT unnest(?::BIGINT[]))", [numbers])  # noqa: S608
            session.sign(AUTHOR, f"deletes {count(len(numbers), 'row')} of the ledger from before {before:%Y-%m-%d}")
    return len(numbers)
