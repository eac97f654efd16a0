"""The files of all snapshots, those that are scheduled for deletion, and how many files and bytes there are.

Every function raises CatalogError if the catalog cannot be read or refuses.
"""

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.catalogs import DuckdbCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import catalog_tables
from lake_assets.lake.catalog.partition_files import values_of_files
from lake_assets.lake.catalog.table import find_table
from lake_assets.lake.catalog_driver import driver_errors
from lake_assets.lake.session import LakeSession, TableName

# A file's path is relative to its table's path, that to the schema's, and that to the lake's; each may be absolute.
FOLDER = (
    "CASE WHEN NOT t.path_is_relative::BOOLEAN THEN t.path "
    "WHEN NOT s.path_is_relative::BOOLEAN THEN s.path || t.path ELSE ? || s.path || t.path END"
)


@dataclass(frozen=True, slots=True)
class ScheduledFile:
    """A file that no snapshot needs, as DuckLake notes it when snapshots expire."""

    file_id: int
    uri: str
    scheduled_at: dt.datetime


def table_folders(session: LakeSession) -> list[str]:
    """Return the folders of the tables of all snapshots, as URIs ending in a slash."""
    return [
        folder if folder.endswith("/") else f"{folder}/"
        for (folder,) in session.rows(f"SELECT folder FROM ({_tables(session)})", [data_path(session.config)])
    ]


def needed_files(session: LakeSession, *, is_live: bool = False) -> set[str]:
    """Return the URIs of the files of all snapshots, or of the newest one.

    If no snapshot has a file's table, it is only the path in its folder.
    """
    which = "WHERE f.end_snapshot IS NULL" if is_live else ""
    return {
        uri
        for table in (spec.DATA_FILE, spec.DELETE_FILE)
        for (uri,) in session.rows(
            "SELECT CASE WHEN f.path_is_relative::BOOLEAN THEN coalesce(t.folder, '') || f.path ELSE f.path END "
            f"FROM {session.metadata}.{table} f LEFT JOIN ({_tables(session)}) t ON t.table_id = f.table_id {which}",
            [data_path(session.config)],
        )
    }


def folders_outside(session: LakeSession, roots: Sequence[str]) -> set[str]:
    """Return the folders of files with an absolute path that lie below none of these roots, which end in a slash."""
    outside = " AND ".join(["NOT starts_with(path, ?)"] * len(roots))
    return {
        folder
        for table in (spec.DATA_FILE, spec.DELETE_FILE)
        for (folder,) in session.rows(
            f"SELECT DISTINCT regexp_replace(path, '[^/]*$', '') FROM {session.metadata}.{table} "
            f"WHERE NOT path_is_relative::BOOLEAN AND {outside}",
            list(roots),
        )
    }


def scheduled_files(session: LakeSession) -> list[ScheduledFile]:
    """Return the files that are scheduled for deletion."""
    rows = session.rows(
        "SELECT data_file_id, CASE WHEN path_is_relative::BOOLEAN THEN ? || path ELSE path END, "
        f"schedule_start::TIMESTAMPTZ FROM {session.metadata}.{spec.FILES_SCHEDULED_FOR_DELETION}",
        [data_path(session.config)],
    )
    return [ScheduledFile(*row) for row in rows]


def forget_scheduled(session: LakeSession, file_ids: list[int]) -> None:
    """Remove these files from the scheduled files, because they are deleted or must be kept."""
    session.rows(
        f"DELETE FROM {session.metadata}.{spec.FILES_SCHEDULED_FOR_DELETION} WHERE list_contains(?, data_file_id)",
        [file_ids],
    )


def _tables(session: LakeSession) -> str:
    """Return a query of the ids and folders of the tables of all snapshots; its parameter is the lake's data path."""
    return (
        f"SELECT DISTINCT t.table_id, {FOLDER} AS folder FROM {session.metadata}.{spec.TABLE} t "
        f"JOIN {session.metadata}.{spec.SCHEMA} s ON s.schema_id = t.schema_id"
    )


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of a table's newest snapshot."""

    files: int
    most: int  # of one partition


def snapshot_count(session: LakeSession) -> int:
    """Return the number of snapshots that have not expired."""
    with catalog_tables(session) as database:
        ((number,),) = database.rows(f"SELECT count(*) FROM {spec.SNAPSHOT}")
    return int(number)


def catalog_size(session: LakeSession) -> int | None:
    """Return the bytes of the catalog in its database; None if they are not known, as of a lake of MotherDuck."""
    catalog = session.config.catalog
    if isinstance(catalog, SqliteCatalog | DuckdbCatalog):
        return sum(_size(Path(f"{catalog.path}{suffix}")) for suffix in ("", "-wal", ".wal"))
    if not isinstance(catalog, PostgresCatalog):
        return None
    with suppress(*driver_errors(session.config)):
        # The tables of inlined rows begin with `ducklake_` too.
        ((size,),) = session.driver.rows(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_catalog.pg_class "
            "WHERE relkind = 'r' AND starts_with(relname, 'ducklake_') AND pg_table_is_visible(oid)"
        )
        return int(size)
    return None


def _size(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def table_files(session: LakeSession, table: TableName, keys: int) -> TableFiles:
    """Return the data files of a table, and of the partition with most of them."""
    with catalog_tables(session) as database:
        table_id = find_table(database, table)
        live = "f.table_id = ? AND f.end_snapshot IS NULL"
        ((files,),) = database.rows(f"SELECT count(*) FROM {spec.DATA_FILE} f WHERE {live}", [table_id])
        values, joins = values_of_files(range(keys))
        ((most,),) = database.rows(
            "SELECT max(files) FROM (SELECT count(*) AS files "
            f"FROM {spec.DATA_FILE} f {joins} WHERE {live} GROUP BY {values}) AS partitions",
            [table_id],
        )
    return TableFiles(int(files), int(most or 0))
