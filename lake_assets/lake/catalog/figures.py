"""Figures of a catalog: its size, its snapshots, and the files of a table's partitions.

Every function raises CatalogError if the catalog cannot be read.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.catalogs import DuckdbCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, catalog_view
from lake_assets.lake.catalog.table_files import live_table_id
from lake_assets.lake.driver import driver_errors
from lake_assets.lake.session import LakeSession, TableName

_PREFIX = "ducklake_"  # of the names of the catalog's tables, those of inlined rows among them


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of a table's newest snapshot."""

    files: int
    most: int  # of one partition


def snapshots(session: LakeSession) -> int:
    """Return the number of snapshots that have not expired."""
    with catalog_view(session) as database:
        ((number,),) = database.rows(f"SELECT count(*) FROM {spec.SNAPSHOT}")
    return int(number)


def catalog_size(session: LakeSession) -> int | None:
    """Return the bytes of the catalog in its database; None if they are not known, as of a lake of MotherDuck."""
    catalog = session.config.catalog
    if isinstance(catalog, SqliteCatalog | DuckdbCatalog):
        return sum(_size(Path(f"{catalog.path}{suffix}")) for suffix in ("", "-wal", ".wal"))
    if not isinstance(catalog, PostgresCatalog) or session.driver is None:
        return None
    with suppress(*driver_errors(session.config)):
        ((size,),) = session.driver.rows(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_catalog.pg_class "
            f"WHERE relkind = 'r' AND starts_with(relname, '{_PREFIX}') AND pg_table_is_visible(oid)"
        )
        return int(size)
    return None


def _size(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def table_files(session: LakeSession, table: TableName, keys: int) -> TableFiles:
    """Return the data files of a table, and of the partition with most of them.

    Args:
        session: an open lake.
        table: the table.
        keys: the number of its partition columns.
    """
    table_id = live_table_id(session, table)
    if table_id is None:
        return TableFiles(0, 0)
    with catalog_view(session) as database:
        return _table_files(database, table_id, keys)


def _table_files(database: CatalogDatabase, table_id: int, keys: int) -> TableFiles:
    ((files,),) = database.rows(
        f"SELECT count(*) FROM {spec.DATA_FILE} WHERE table_id = ? AND end_snapshot IS NULL", [table_id]
    )
    values = ", ".join(
        f"max(CASE WHEN v.partition_key_index = {index} THEN v.partition_value END) AS k{index}"
        for index in range(keys)
    )
    groups = ", ".join(f"k{index}" for index in range(keys))
    ((most,),) = database.rows(
        f"SELECT max(n) FROM (SELECT count(*) AS n FROM (SELECT v.data_file_id, {values} "
        f"FROM {spec.FILE_PARTITION_VALUE} v JOIN {spec.DATA_FILE} f ON f.data_file_id = v.data_file_id "
        f"WHERE f.table_id = ? AND f.end_snapshot IS NULL GROUP BY v.data_file_id) AS a GROUP BY {groups}) AS b",
        [table_id],
    )
    return TableFiles(int(files), int(most or 0))
