"""The flush of inlined rows of ledger and manifest from the catalog into files of the lake.

A commit adds a few rows, too few for a file. But a year of commits adds some hundred thousand rows, and the catalog
reads them one by one, which takes at least three times as long as from a file.
"""

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog.database import catalog_view
from lake_assets.lake.catalog.inlined import has_deletes
from lake_assets.lake.catalog.table_files import inlined_rows, is_sorted, live_table_id
from lake_assets.lake.ledger.tables import ledger_table, manifest_table
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession, TableName

MANY = 10_000  # rows of a table
FILES = 10  # of a table, which are then merged

# So that a reader of a few partitions skips other row groups. The manifest is not sorted: DuckLake gives new row ids to
# sorted rows when it merges files, and the order of the manifest's rows says which is newer.
_ORDER = ("destination_table", "load_partition", "started_at")


def flush_ledger(session: LakeSession, *, dry_run: bool = False) -> int:
    """Flush each of the two tables that has `MANY` inlined rows. The rows are the same at every snapshot.

    Files from which rows were deleted are rewritten, because readers of a few partitions read the files by themselves.

    Returns:
        The number of flushed rows.

    Raises:
        CatalogError: the catalog refuses.
        StorageError: the lake's storage refuses.
    """
    flushed = 0
    for table in (ledger_table(session.config), manifest_table(session.config)):
        rows = inlined_rows(session, table)
        if dry_run:
            flushed += rows if rows >= MANY else 0
            continue
        if rows >= MANY:
            flushed += _flush(session, table)
        if _has_deletes(session, table):
            _rewrite(session, table)
        if rows >= MANY:
            _merge(session, table)
    return flushed


def _flush(session: LakeSession, table: TableName) -> int:
    if table == ledger_table(session.config) and not is_sorted(session, table):
        keys = ", ".join(map(identifier, _ORDER))
        under_lock(
            session, lambda: session.rows(f"ALTER TABLE {table.sql} SET SORTED BY ({keys})"), f"the order of {table}"
        )
    counts = under_lock(
        session,
        lambda: session.rows(
            "SELECT rows_flushed FROM ducklake_flush_inlined_data(?, schema_name => ?, table_name => ?)",
            [session.alias, table.schema, table.table],
        ),
        f"the flush of {table}",
    )
    return sum(int(rows) for (rows,) in counts)


def _has_deletes(session: LakeSession, table: TableName) -> bool:
    table_id = live_table_id(session, table)
    with catalog_view(session) as database:
        return table_id is not None and has_deletes(database, table_id)


def _rewrite(session: LakeSession, table: TableName) -> None:
    """Rewrite files without the rows that were deleted from them; clean-up deletes the old ones later."""
    under_lock(
        session,
        lambda: session.rows(
            "CALL ducklake_rewrite_data_files(?, ?, schema => ?, delete_threshold => 0)",
            [session.alias, table.table, table.schema],
        ),
        f"the files of {table}",
    )


def _merge(session: LakeSession, table: TableName) -> None:
    """Merge the files of several flushes; clean-up deletes the small ones later."""
    files = session.rows(
        "SELECT count(*) FROM ducklake_list_files(?, ?, schema => ?)", [session.alias, table.table, table.schema]
    )
    if files[0][0] >= FILES:
        under_lock(
            session,
            lambda: session.rows(
                "CALL ducklake_merge_adjacent_files(?, ?, schema => ?)", [session.alias, table.table, table.schema]
            ),
            f"the merged files of {table}",
        )
