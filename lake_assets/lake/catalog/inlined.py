"""The rows of a table of this package: those inlined in the catalog, and those flushed into files."""

from dataclasses import dataclass

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.session import LakeSession, TableName


def table_named_since(database: CatalogDatabase, table: TableName) -> int:
    """Return the snapshot that gave this name to the table that has it now; see `table_files.named_since`."""
    ids = database.rows(f"SELECT t.table_id, t.schema_id FROM {spec.live_table()}", [table.schema, table.table])
    if not ids:
        return 0
    ((since,),) = database.rows(
        f"SELECT min(begin_snapshot) FROM {spec.TABLE} "
        "WHERE table_id = ? AND schema_id = ? AND lower(table_name) = lower(?)",
        [*ids[0], table.table],
    )
    return int(since)


def inlined_tables(database: CatalogDatabase, table_id: int) -> list[str]:
    """Return the catalog's tables of inlined rows of a table, the newest first: one for each change of its columns."""
    rows = database.rows(
        f"SELECT table_name FROM {spec.INLINED_DATA_TABLES} WHERE table_id = ? ORDER BY schema_version DESC",
        [table_id],
    )
    return [name for (name,) in rows]


@dataclass(frozen=True, slots=True)
class FlushedFile:
    """A live data file."""

    uri: str
    until: int  # the last snapshot that can have added a row of it


def flushed_files(session: LakeSession, database: CatalogDatabase, table: TableName) -> list[FlushedFile]:
    """Return a table's live data files, the newest first.

    Raises:
        NotDirectError: the files cannot be read by themselves: rows were deleted from them, or they are encrypted.
    """
    table_id, folder, is_relative = read_folder(database, table)
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
    root = (data_path(session.config) if is_relative else "") + folder
    return [FlushedFile((root if relative else "") + path, until) for path, relative, _, until in rows]


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
