"""Replaces unknown bounds of a whole table, which DuckLake would take for those of a column without values."""

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import Bounds, widest
from lake_assets.lake.catalog.table_files import live_table_id
from lake_assets.lake.session import LakeSession, TableName


def set_widest_bounds(session: LakeSession, table: TableName, snapshot_id: int | None = None) -> None:
    """Give columns of unknown bounds the widest that their type has; see `bounds.widest`.

    Args:
        session: an open lake.
        table: the table.
        snapshot_id: only columns of which a file of this snapshot has values of unknown bounds. If None, all columns
            without bounds; they may also have no values, and then the widest are right too.

    Raises:
        CatalogError: the catalog refuses.
    """
    table_id = live_table_id(session, table)
    missing = _without_bounds(session, table_id)
    if missing and snapshot_id is not None:
        unknown = _unknown_in(session, table_id, snapshot_id)
        missing = {column_id: bounds for column_id, bounds in missing.items() if column_id in unknown}
    for column_id, bounds in missing.items():
        session.rows(
            f"UPDATE {session.metadata}.{spec.TABLE_COLUMN_STATS} SET min_value = ?, max_value = ? "
            "WHERE table_id = ? AND column_id = ?",
            [*bounds, table_id, column_id],
        )


def _without_bounds(session: LakeSession, table_id: int | None) -> dict[int, Bounds]:
    """The columns of the table without bounds, each with the widest."""
    catalog = session.metadata
    rows = session.rows(
        "SELECT s.column_id, c.column_type, s.min_value, s.max_value "
        f"FROM {catalog}.{spec.TABLE_COLUMN_STATS} s "
        f"JOIN {catalog}.{spec.COLUMN} c ON c.table_id = s.table_id AND c.column_id = s.column_id "
        "WHERE s.table_id = ? AND (s.min_value IS NULL OR s.max_value IS NULL) AND c.end_snapshot IS NULL",
        [table_id],
    )
    widths = {column_id: (widest(column_type), Bounds(*had)) for column_id, column_type, *had in rows}
    return {column_id: bounds for column_id, (bounds, had) in widths.items() if bounds != had}


def _unknown_in(session: LakeSession, table_id: int | None, snapshot_id: int) -> set[int]:
    """The columns of which a file of the snapshot has values of unknown bounds."""
    catalog = session.metadata
    rows = session.rows(
        f"SELECT DISTINCT column_id FROM {catalog}.{spec.FILE_COLUMN_STATS} "
        "WHERE table_id = ? AND (min_value IS NULL OR max_value IS NULL) AND value_count IS DISTINCT FROM 0 "
        f"AND data_file_id IN (SELECT data_file_id FROM {catalog}.{spec.DATA_FILE} "
        "WHERE table_id = ? AND begin_snapshot = ?)",
        [table_id, table_id, snapshot_id],
    )
    return {column_id for (column_id,) in rows}
