"""Whether a table has had rows since it was created."""

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.session import LakeSession, TableName


def is_unfilled(session: LakeSession, table: TableName, *, author: str, message: str) -> bool:
    """Whether a snapshot created the table, and no later one has written to it or changed its columns or partitioning.

    The snapshot must have this author and message.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    try:
        with catalog_reading(session) as database:
            return _is_unfilled(database, table, author, message)
    except NotDirectError:
        return False


def _is_unfilled(database: CatalogDatabase, table: TableName, author: str, message: str) -> bool:
    tables = database.rows(
        f"SELECT t.table_id, t.begin_snapshot FROM {spec.live_table()} "
        f"AND t.table_id NOT IN (SELECT table_id FROM {spec.TABLE_STATS} WHERE next_row_id > 0)",
        [table.schema, table.table],
    )
    if not tables:
        return False
    ((table_id, created),) = tables
    if not database.rows(
        f"SELECT 1 FROM {spec.SNAPSHOT_CHANGES} WHERE snapshot_id = ? AND author = ? AND commit_message = ?",
        [created, author, message],
    ):
        return False
    return not any(
        database.rows(
            f"SELECT 1 FROM {name} WHERE table_id = ? AND (begin_snapshot <> ? OR end_snapshot IS NOT NULL) LIMIT 1",
            [table_id, created],
        )
        for name in (spec.COLUMN, spec.PARTITION_INFO)
    )
