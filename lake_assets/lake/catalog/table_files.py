"""Queries of the catalog's tables about one table of the lake, by the specification of DuckLake 1.0.

Every function raises CatalogError if the catalog cannot be read.
"""

from contextlib import suppress
from dataclasses import dataclass

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import NotDirectError, catalog_reading, catalog_view
from lake_assets.lake.catalog.files import FOLDER
from lake_assets.lake.catalog.inlined import table_named_since
from lake_assets.lake.session import LakeSession, TableName


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A data file of a table."""

    file_id: int
    uri: str
    rows: int
    size: int  # bytes
    begin_snapshot: int
    end_snapshot: int | None  # None: in the newest snapshot
    partition_id: int | None  # of the partitioning under which it was written
    values: dict[int, str | None]  # of its partition, by the key's index in that partitioning


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted rows of a data file."""

    rows: int
    begin_snapshot: int
    end_snapshot: int | None


def catalog_files(session: LakeSession, table: TableName, *, all_snapshots: bool = False) -> list[CatalogFile]:
    """The data files of a table's newest snapshot, or of all snapshots, by id; empty if there is no table."""
    table_id = live_table_id(session, table)
    if table_id is None:
        return []
    values: dict[int, dict[int, str | None]] = {}
    for file_id, index, value in session.rows(
        "SELECT data_file_id, partition_key_index, partition_value "
        f"FROM {session.metadata}.{spec.FILE_PARTITION_VALUE} WHERE table_id = ?",
        [table_id],
    ):
        values.setdefault(file_id, {})[index] = value
    rows = session.rows(
        f"SELECT f.data_file_id, CASE WHEN f.path_is_relative::BOOLEAN THEN {FOLDER} || f.path ELSE f.path END, "
        "f.record_count, f.file_size_bytes, f.begin_snapshot, f.end_snapshot, f.partition_id "
        f"FROM {session.metadata}.{spec.DATA_FILE} f "
        f"JOIN {session.metadata}.{spec.TABLE} t ON t.table_id = f.table_id "
        f"JOIN {session.metadata}.{spec.SCHEMA} s ON s.schema_id = t.schema_id "
        f"WHERE f.table_id = ? AND t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
        f"{'' if all_snapshots else 'AND f.end_snapshot IS NULL'} ORDER BY f.data_file_id",
        [data_path(session.config), table_id],
    )
    return [
        CatalogFile(file_id, uri, count, size, begin, end, partitioning, values.get(file_id, {}))
        for file_id, uri, count, size, begin, end, partitioning in rows
    ]


def all_deletes(session: LakeSession, table: TableName) -> dict[int, list[Deletes]]:
    """The deleted rows of a table's data files in all snapshots, by the data file's id."""
    result: dict[int, list[Deletes]] = {}
    for file_id, *values in session.rows(
        "SELECT data_file_id, delete_count, begin_snapshot, end_snapshot "
        f"FROM {session.metadata}.{spec.DELETE_FILE} WHERE table_id = ?",
        [live_table_id(session, table)],
    ):
        result.setdefault(file_id, []).append(Deletes(*values))
    return result


def partition_columns(session: LakeSession, table: TableName) -> dict[tuple[int, int], str]:
    """The columns of all partitionings that a table has had, in lower case, by partitioning and index of the key.

    A column that was renamed has the name that it has now.
    """
    rows = session.rows(
        "SELECT k.partition_id, k.partition_key_index, lower(c.column_name) "
        f"FROM {session.metadata}.{spec.PARTITION_COLUMN} k "
        f"JOIN {session.metadata}.{spec.COLUMN} c ON c.column_id = k.column_id AND c.table_id = k.table_id "
        "WHERE k.table_id = ? ORDER BY c.begin_snapshot",
        [live_table_id(session, table)],
    )
    return {(partitioning, index): name for partitioning, index, name in rows}


def columns_changed_at(session: LakeSession, table: TableName) -> int:
    """The snapshot that last changed a table's columns."""
    ((changed,),) = session.rows(
        "SELECT max(greatest(begin_snapshot, coalesce(end_snapshot, 0))) "
        f"FROM {session.metadata}.{spec.COLUMN} WHERE table_id = ?",
        [live_table_id(session, table)],
    )
    return int(changed or 0)


def named_since(session: LakeSession, table: TableName) -> int:
    """The snapshot that gave this name to the table that has it now.

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
    """The number of inlined rows of a table."""
    names = session.rows(
        f"SELECT table_name FROM {session.metadata}.{spec.INLINED_DATA_TABLES} WHERE table_id = ?",
        [live_table_id(session, table)],
    )
    with catalog_view(session) as database:
        ended = database.version.end_snapshot
        counts = [database.rows(f"SELECT count(*) FROM {identifier(name)} WHERE {ended} IS NULL") for (name,) in names]
    return sum(int(count) for ((count,),) in counts)


def is_sorted(session: LakeSession, table: TableName) -> bool:
    """Whether a table has an order in which DuckLake writes its rows."""
    found = session.rows(
        f"SELECT 1 FROM {session.metadata}.{spec.SORT_INFO} WHERE table_id = ? AND end_snapshot IS NULL",
        [live_table_id(session, table)],
    )
    return bool(found)


def table_options(session: LakeSession, table: TableName) -> dict[str, str]:
    """The DuckLake options that were set for this table only, as texts."""
    return dict(
        session.rows(
            f"SELECT key, value FROM {session.metadata}.{spec.METADATA} WHERE scope = 'table' AND scope_id = ?",
            [live_table_id(session, table)],
        )
    )


def live_table_id(session: LakeSession, table: TableName) -> int | None:
    """The id of the table that has this name now; None if there is none."""
    ids = session.rows(f"SELECT t.table_id FROM {spec.live_table(f'{session.metadata}.')}", [table.schema, table.table])
    return ids[0][0] if ids else None
