"""The files that a lake's catalog names, read from the catalog's own tables by the specification of DuckLake 1.0."""

import datetime as dt
from dataclasses import dataclass

from lake_assets.lake.attach import ALIAS, data_path
from lake_assets.lake.ducklake import LakeSession, TableName
from lake_assets.lake.engine import identifier

_METADATA = identifier(f"__ducklake_metadata_{ALIAS}")

# A path is relative to its table's, that to its schema's, and that to the lake's; each of them may be whole instead.
_FOLDER = (
    "CASE WHEN NOT t.path_is_relative::BOOLEAN THEN t.path "
    "WHEN NOT s.path_is_relative::BOOLEAN THEN s.path || t.path ELSE ? || s.path || t.path END"
)
_ALL_TABLES = (
    f"SELECT DISTINCT t.table_id, {_FOLDER} AS folder FROM {_METADATA}.ducklake_table t "  # noqa: S608 - no values
    f"JOIN {_METADATA}.ducklake_schema s ON s.schema_id = t.schema_id"
)
_TABLES = f"{_ALL_TABLES} WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL"


@dataclass(frozen=True, slots=True)
class ScheduledFile:
    """A file that no snapshot needs any more, as DuckLake notes it when snapshots expire."""

    file_id: int
    uri: str
    scheduled_at: dt.datetime


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the newest snapshot."""

    file_id: int
    uri: str
    rows: int
    size: int  # bytes
    begin_snapshot: int
    partition_id: int | None  # of the partitioning that it was written under
    values: dict[int, str | None]  # of its partition, by the key's index in that partitioning


def table_folders(session: LakeSession) -> list[str]:
    """The folder of every table that a snapshot knows, as URIs ending in a slash.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    return [
        folder if folder.endswith("/") else f"{folder}/"
        for (folder,) in session.rows(f"SELECT folder FROM ({_ALL_TABLES})", [data_path(session.config)])  # noqa: S608
    ]


def needed_files(session: LakeSession) -> set[str]:
    """The URI of every file that a snapshot names.

    Of a file whose table no snapshot knows any more only the name is told, without its folder.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    return {
        uri
        for table in ("ducklake_data_file", "ducklake_delete_file")
        for (uri,) in session.rows(
            "SELECT CASE WHEN f.path_is_relative::BOOLEAN THEN coalesce(t.folder, '') || f.path ELSE f.path END "  # noqa: S608
            f"FROM {_METADATA}.{table} f LEFT JOIN ({_ALL_TABLES}) t ON t.table_id = f.table_id",
            [data_path(session.config)],
        )
    }


def scheduled_files(session: LakeSession) -> list[ScheduledFile]:
    """The files that wait to be deleted.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    rows = session.rows(
        "SELECT data_file_id, CASE WHEN path_is_relative::BOOLEAN THEN ? || path ELSE path END, "  # noqa: S608
        f"schedule_start::TIMESTAMPTZ FROM {_METADATA}.ducklake_files_scheduled_for_deletion",
        [data_path(session.config)],
    )
    return [ScheduledFile(*row) for row in rows]


def forget_scheduled(session: LakeSession, file_ids: list[int]) -> None:
    """Let these files wait no longer: they are deleted, or shall stay.

    Raises:
        CatalogError: the catalog refuses.
    """
    session.rows(
        f"DELETE FROM {_METADATA}.ducklake_files_scheduled_for_deletion WHERE list_contains(?, data_file_id)",  # noqa: S608
        [file_ids],
    )


def live_files(session: LakeSession, table: TableName) -> list[LiveFile]:
    """The data files of a table's newest snapshot, in the order of their ids; none where there is no table.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    table_id = _table_id(session, table)
    if table_id is None:
        return []
    values: dict[int, dict[int, str | None]] = {}
    for file_id, index, value in session.rows(
        "SELECT data_file_id, partition_key_index, partition_value "  # noqa: S608
        f"FROM {_METADATA}.ducklake_file_partition_value WHERE table_id = ?",
        [table_id],
    ):
        values.setdefault(file_id, {})[index] = value
    rows = session.rows(
        "SELECT f.data_file_id, CASE WHEN f.path_is_relative::BOOLEAN THEN t.folder || f.path ELSE f.path END, "  # noqa: S608
        "f.record_count, f.file_size_bytes, f.begin_snapshot, f.partition_id "
        f"FROM {_METADATA}.ducklake_data_file f JOIN ({_TABLES}) t ON t.table_id = f.table_id "
        "WHERE f.table_id = ? AND f.end_snapshot IS NULL ORDER BY f.data_file_id",
        [data_path(session.config), table_id],
    )
    return [
        LiveFile(file_id, uri, count, size, begin, partitioning, values.get(file_id, {}))
        for file_id, uri, count, size, begin, partitioning in rows
    ]


def partition_keys(session: LakeSession, table: TableName) -> tuple[int, list[str]] | None:
    """The id of a table's partitioning and the names of its columns, in the order of their keys.

    None where there is no such table, or its partitioning computes something of its columns.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    keys = session.rows(
        "SELECT i.partition_id, c.column_name, k.transform "  # noqa: S608
        f"FROM {_METADATA}.ducklake_partition_info i "
        f"JOIN {_METADATA}.ducklake_partition_column k ON k.partition_id = i.partition_id "
        f"JOIN {_METADATA}.ducklake_column c ON c.column_id = k.column_id AND c.table_id = i.table_id "
        "WHERE i.table_id = ? AND i.end_snapshot IS NULL AND c.end_snapshot IS NULL ORDER BY k.partition_key_index",
        [_table_id(session, table)],
    )
    if not keys or any(transform != "identity" for *_, transform in keys):
        return None
    return keys[0][0], [name for _, name, _ in keys]


def columns_changed_at(session: LakeSession, table: TableName) -> int:
    """The snapshot with which a table got the columns that it has.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    ((changed,),) = session.rows(
        "SELECT max(greatest(begin_snapshot, coalesce(end_snapshot, 0))) "  # noqa: S608
        f"FROM {_METADATA}.ducklake_column WHERE table_id = ?",
        [_table_id(session, table)],
    )
    return int(changed or 0)


def _table_id(session: LakeSession, table: TableName) -> int | None:
    found = session.rows(
        f"SELECT t.table_id FROM {_METADATA}.ducklake_table t "  # noqa: S608
        f"JOIN {_METADATA}.ducklake_schema s ON s.schema_id = t.schema_id "
        "WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
        "AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)",
        [table.schema, table.table],
    )
    return found[0][0] if found else None
