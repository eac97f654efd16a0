"""Corrects the statistics of single-precision columns that DuckLake itself has written."""

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.table_files import live_table_id
from lake_assets.lake.session import LakeSession, TableName


def widen_float_bounds(session: LakeSession, table: TableName, snapshot_id: int | None) -> None:
    """Move the bounds of single-precision columns of a snapshot's new files outward; see `bounds.beyond`.

    Raises:
        CatalogError: the catalog refuses.
    """
    catalog, table_id = session.metadata, live_table_id(session, table)
    ids = session.rows(
        f"SELECT column_id FROM {catalog}.{spec.COLUMN} "
        "WHERE table_id = ? AND column_type = 'float32' AND end_snapshot IS NULL",
        [table_id],
    )
    if not ids:
        return
    session.rows(
        f"UPDATE {catalog}.{spec.FILE_COLUMN_STATS} SET "
        "min_value = nextafter(TRY_CAST(min_value AS FLOAT), '-infinity'::FLOAT)::VARCHAR, "
        "max_value = nextafter(TRY_CAST(max_value AS FLOAT), 'infinity'::FLOAT)::VARCHAR "
        "WHERE table_id = ? AND column_id IN (SELECT unnest(?)) AND data_file_id IN "
        f"(SELECT data_file_id FROM {catalog}.{spec.DATA_FILE} WHERE table_id = ? AND begin_snapshot = ?)",
        [table_id, [column_id for (column_id,) in ids], table_id, snapshot_id],
    )
