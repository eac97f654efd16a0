"""Queries of the catalog's tables about one table of the lake, by the specification of DuckLake 1.0.

Every function raises CatalogError if the catalog cannot be read.
"""

from contextlib import suppress

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import NotDirectError, catalog_reading, catalog_view
from lake_assets.lake.catalog.inlined import table_named_since
from lake_assets.lake.session import LakeSession, TableName


def partition_keys(session: LakeSession, table: TableName) -> list[str]:
    """Return the names of the columns by which a table is partitioned now, in lower case, in the order of its keys."""
    rows = session.rows(
        f"SELECT lower(c.column_name) FROM {session.metadata}.{spec.PARTITION_INFO} i "
        f"JOIN {session.metadata}.{spec.PARTITION_COLUMN} k "
        "ON k.partition_id = i.partition_id AND k.table_id = i.table_id "
        f"JOIN {session.metadata}.{spec.COLUMN} c ON c.column_id = k.column_id AND c.table_id = i.table_id "
        "WHERE i.table_id = ? AND i.end_snapshot IS NULL AND c.end_snapshot IS NULL ORDER BY k.partition_key_index",
        [live_table_id(session, table)],
    )
    return [name for (name,) in rows]


def columns_changed_at(session: LakeSession, table: TableName) -> int:
    """Return the snapshot that last changed a table's columns."""
    ((changed,),) = session.rows(
        "SELECT max(greatest(begin_snapshot, coalesce(end_snapshot, 0))) "
        f"FROM {session.metadata}.{spec.COLUMN} WHERE table_id = ?",
        [live_table_id(session, table)],
    )
    return int(changed or 0)


def named_since(session: LakeSession, table: TableName) -> int:
    """Return the snapshot that gave this name to the table that has it now.

    Earlier ledger rows are those of a table that was dropped or renamed. 0 if there is no table, or if the catalog's
    tables cannot be used.
    """
    if session.unknown_specification is not None:
        return 0
    with suppress(NotDirectError), catalog_reading(session) as database:
        return table_named_since(database, table)
    ((since,),) = session.rows(
        # A table may have an entry for each of its changes.
        f"SELECT min(begin_snapshot) FROM {session.metadata}.{spec.TABLE} "
        "WHERE (table_id, schema_id, lower(table_name)) IN "
        f"(SELECT (t.table_id, t.schema_id, lower(t.table_name)) FROM {spec.live_table(f'{session.metadata}.')})",
        [table.schema, table.table],
    )
    return int(since or 0)


def inlined_rows(session: LakeSession, table: TableName) -> int:
    """Return the number of inlined rows of a table."""
    names = session.rows(
        f"SELECT table_name FROM {session.metadata}.{spec.INLINED_DATA_TABLES} WHERE table_id = ?",
        [live_table_id(session, table)],
    )
    with catalog_view(session) as database:
        ended = database.version.end_snapshot
        counts = [database.rows(f"SELECT count(*) FROM {identifier(name)} WHERE {ended} IS NULL") for (name,) in names]
    return sum(int(count) for ((count,),) in counts)


def is_sorted(session: LakeSession, table: TableName) -> bool:
    """Return whether a table has an order in which DuckLake writes its rows."""
    found = session.rows(
        f"SELECT 1 FROM {session.metadata}.{spec.SORT_INFO} WHERE table_id = ? AND end_snapshot IS NULL",
        [live_table_id(session, table)],
    )
    return bool(found)


def table_options(session: LakeSession, table: TableName) -> dict[str, str]:
    """Return the DuckLake options that were set for this table only, as texts."""
    return dict(
        session.rows(
            f"SELECT key, value FROM {session.metadata}.{spec.METADATA} WHERE scope = 'table' AND scope_id = ?",
            [live_table_id(session, table)],
        )
    )


def live_table_id(session: LakeSession, table: TableName) -> int | None:
    """Return the id of the table that has this name now; None if there is none."""
    ids = session.rows(f"SELECT t.table_id FROM {spec.live_table(f'{session.metadata}.')}", [table.schema, table.table])
    return ids[0][0] if ids else None
