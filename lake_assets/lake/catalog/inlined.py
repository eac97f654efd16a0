"""The rows of a table of this package: those inlined in the catalog, and those flushed into files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import Answer, CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.session import TableName


def inlined_tables(database: CatalogDatabase, table_id: int) -> list[str]:
    """Return the catalog's tables of inlined rows of a table, the newest first: one for each change of its columns."""
    return list(read_tables(ask_tables(database, [table_id])).get(table_id, ()))


def ask_tables(database: CatalogDatabase, table_ids: Sequence[int]) -> Answer:
    """Ask for the catalog's tables of inlined rows of some tables."""
    return database.ask(
        f"SELECT table_id, table_name FROM {spec.INLINED_DATA_TABLES} "
        f"WHERE table_id IN ({', '.join('?' for _ in table_ids)}) ORDER BY schema_version DESC",
        table_ids,
    )


def read_tables(asked: Answer) -> Mapping[int, Sequence[str]]:
    """Return the tables that were asked for, the newest first, by the ids of their tables."""
    tables: dict[int, list[str]] = {}
    for table_id, name in asked():
        tables.setdefault(table_id, []).append(name)
    return tables


def ask_counts(database: CatalogDatabase, names: Sequence[str], version: spec.Version) -> Sequence[Answer]:
    """Ask for the number of rows in the newest snapshot of each of these tables of inlined rows."""
    live = f"WHERE {version.end_snapshot} IS NULL"
    return [database.ask(f"SELECT count(*) FROM {identifier(name)} {live}") for name in names]


def inlined_rows(database: CatalogDatabase, table_id: int) -> int:
    """Return the number of inlined rows of a table in the newest snapshot."""
    return total(ask_counts(database, inlined_tables(database, table_id), database.version))


def ask_added(
    database: CatalogDatabase, names: Sequence[str], column: str, version: spec.Version, since: int
) -> Sequence[Answer]:
    """Ask for a column of the rows of these tables of inlined rows that were added after a snapshot."""
    added = f"WHERE {version.begin_snapshot} > ?"
    return [database.ask(f"SELECT {identifier(column)} FROM {identifier(name)} {added}", [since]) for name in names]


def total(counts: Sequence[Answer]) -> int:
    """Return the sum of the numbers that were asked for."""
    return sum(int(count) for ((count,),) in [asked() for asked in counts])


@dataclass(frozen=True, slots=True)
class FlushedFile:
    """A live data file."""

    uri: str
    until: int  # the last snapshot that can have added a row of it


def flushed_files(database: CatalogDatabase, table: TableName) -> list[FlushedFile]:
    """Return a table's live data files, the newest first.

    Raises NotDirectError if they cannot be read by themselves: rows were deleted from them, or they are encrypted.
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
