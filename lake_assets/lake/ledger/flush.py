"""Rows of ledger and manifest that the catalog itself holds become files of the lake, once they are many.

A commit leaves a few rows, for which a file each would be waste. But a year of them is some hundred thousand, and from
a catalog they are read one by one, which takes three times as long as from a file, and more.
"""

from lake_assets.lake.catalog.table_files import inlined_rows
from lake_assets.lake.ledger.tables import ledger_table, manifest_table
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession, TableName

MANY = 10_000  # rows of a table


def flush_ledger(session: LakeSession, *, dry_run: bool = False) -> int:
    """Let DuckLake write the rows of these two tables as files, of each that has many of them in the catalog.

    The tables are the same before and after, at every snapshot.

    Returns:
        How many rows.

    Raises:
        CatalogError: the catalog refuses.
        StorageError: the lake's storage does.
    """
    flushed = 0
    for table in (ledger_table(session.config), manifest_table(session.config)):
        rows = inlined_rows(session, table)
        if rows >= MANY:
            flushed += rows if dry_run else _flush(session, table)
    return flushed


def _flush(session: LakeSession, table: TableName) -> int:
    done = under_lock(
        session,
        lambda: session.rows(
            "SELECT rows_flushed FROM ducklake_flush_inlined_data(?, schema_name => ?, table_name => ?)",
            [session.alias, table.schema, table.table],
        ),
        f"the flush of {table}",
    )
    return sum(int(rows) for (rows,) in done)
