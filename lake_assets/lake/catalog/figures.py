"""Figures of a catalog: its size, its snapshots, and the files of a table's partitions.

Every function raises CatalogError if the catalog cannot be read.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.catalogs import DuckdbCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import catalog_tables
from lake_assets.lake.catalog.partition_files import values_of_files
from lake_assets.lake.catalog.table import find_table
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
