"""The rows of a table of this package: those inlined in the catalog, and those flushed into files."""

from dataclasses import dataclass

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.session import TableName


def inlined_tables(database: CatalogDatabase, table_id: int) -> list[str]:
    """Return the catalog's tables of inlined rows of a table, the newest first: one for each change of its columns."""
    rows = database.rows(
        f"SELECT table_name FROM {spec.INLINED_DATA_TABLES} WHERE table_id = ? ORDER BY schema_version DESC",
        [table_id],
    )
    return [name for (name,) in rows]


def inlined_rows(database: CatalogDatabase, table_id: int) -> int:
    """Return the number of inlined rows of a table in the newest snapshot."""
    live = f"WHERE {database.version.end_snapshot} IS NULL"
    counts = [
        database.rows(f"SELECT count(*) FROM {identifier(name)} {live}") for name in inlined_tables(database, table_id)
    ]
    return sum(int(count) for ((count,),) in counts)


@dataclass(frozen=True, slots=True)
class FlushedFile:
    """A live data file."""

    uri: str
    until: int  # the last snapshot that can have added a row of it


def flushed_files(database: CatalogDatabase, table: TableName) -> list[FlushedFile]:
    """Return a table's live data files, the newest first.

    Raises:
        NotDirectError: the files cannot be read by themselves: rows were deleted from them, or they are encrypted.
    """
    table_id, folder = read_folder(database, table)
    rows = database.rows(
        # A file of several snapshots' rows has the last one in `partial_max`.
        "SELECT path, path_is_relative, encryption_key, coalesce(partial_max, begin_snapshot) "
        f"FROM {spec.DATA_FILE} WHERE table_id = ? AND end_snapshot IS NULL ORDER BY 4 DESC, data_file_id DESC",
        [table_id],
    )
    if not rows:
        return []
    if any(key is not None for _, _, key, _ in rows) or has_deletes(database, table_id):
        raise NotDirectError(f"the files of {table} cannot be read by themselves")
    return [FlushedFile((folder if relative else "") + path, until) for path, relative, _, until in rows]


def has_deletes(database: CatalogDatabase, table_id: int) -> bool:
    """Return whether rows were deleted from live data files of a table."""
    inlined = spec.inlined_deletes(table_id)
    by_files = f"SELECT 1 FROM {spec.DELETE_FILE} WHERE table_id = ? AND end_snapshot IS NULL LIMIT 1"
    if database.rows(by_files, [table_id]):
        return True
    # It also has the deletes from files that have ended.
    in_catalog = (
        f"SELECT 1 FROM {identifier(inlined)} d JOIN {spec.DATA_FILE} f ON f.data_file_id = d.file_id "
        "WHERE f.end_snapshot IS NULL LIMIT 1"
    )
    return database.has_table(inlined) and bool(database.rows(in_catalog))
