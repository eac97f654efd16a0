"""Whether a table has had rows since it was created."""

from lake_assets.lake.catalog import spec
from lake_assets.lake.session import LakeSession, TableName


def is_unfilled(session: LakeSession, table: TableName, *, author: str, message: str) -> bool:
    """Whether a snapshot created the table, and no later one has written to it or changed its columns or partitioning.

    The snapshot must have this author and message.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    catalog = session.metadata
    tables = session.rows(
        f"SELECT t.table_id, t.begin_snapshot FROM {spec.live_table(f'{catalog}.')} "
        f"AND t.table_id NOT IN (SELECT table_id FROM {catalog}.{spec.TABLE_STATS} WHERE next_row_id > 0)",
        [table.schema, table.table],
    )
    if not tables:
        return False
    ((table_id, created),) = tables
    others = " UNION ALL ".join(
        f"SELECT begin_snapshot, end_snapshot FROM {catalog}.{name} WHERE table_id = $table_id"
        for name in (spec.COLUMN, spec.PARTITION_INFO)
    )
    ((is_of_author, is_changed),) = session.rows(
        f"SELECT EXISTS (FROM {catalog}.{spec.SNAPSHOT_CHANGES} "
        "WHERE snapshot_id = $created AND author = $author AND commit_message = $message), "
        f"EXISTS (FROM ({others}) WHERE begin_snapshot <> $created OR end_snapshot IS NOT NULL)",
        {"table_id": table_id, "created": created, "author": author, "message": message},
    )
    return bool(is_of_author) and not is_changed
