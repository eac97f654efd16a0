"""What a commit must know of its tables: read before it, outside of the lake's lock, and kept for later commits.

DuckLake numbers the states of all schemas, tables, columns and partitionings of a lake. So the description of a table
is still right in a transaction that finds this number unchanged, and the snapshot in which it was read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.base.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError, PendingRows
from lake_assets.lake.catalog.table import (
    Partitioning,
    Table,
    read_folder,
    read_mappings,
    read_partitioning,
    read_table,
)
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.spark.task.scanned_files import Mappings


def inlined_tables(database: CatalogDatabase, table_id: int) -> list[str]:
    """Return the catalog's tables of inlined rows of a table, the newest first: one for each change of its columns."""
    return list(read_tables(ask_tables(database, [table_id])).get(table_id, ()))


def ask_tables(database: CatalogDatabase, table_ids: Sequence[int]) -> PendingRows:
    """Ask for the catalog's tables of inlined rows of some tables."""
    return database.ask(
        f"SELECT table_id, table_name FROM {spec.INLINED_DATA_TABLES} "
        f"WHERE table_id IN ({', '.join('?' for _ in table_ids)}) ORDER BY schema_version DESC",
        table_ids,
    )


def read_tables(answer: PendingRows) -> Mapping[int, Sequence[str]]:
    """Return the tables that were asked for, the newest first, by the ids of their tables."""
    tables: dict[int, list[str]] = {}
    for table_id, name in answer():
        tables.setdefault(table_id, []).append(name)
    return tables


def ask_counts(database: CatalogDatabase, names: Sequence[str], version: spec.Version) -> Sequence[PendingRows]:
    """Ask for the number of rows in the newest snapshot of each of these tables of inlined rows."""
    live = f"WHERE {version.end_snapshot} IS NULL"
    return [database.ask(f"SELECT count(*) FROM {identifier(name)} {live}") for name in names]


def inlined_rows(database: CatalogDatabase, table_id: int) -> int:
    """Return the number of inlined rows of a table in the newest snapshot."""
    return total(ask_counts(database, inlined_tables(database, table_id), database.version))


def ask_added(
    database: CatalogDatabase, names: Sequence[str], column: str, version: spec.Version, since: int
) -> Sequence[PendingRows]:
    """Ask for a column of the rows of these tables of inlined rows that were added after a snapshot."""
    added = f"WHERE {version.begin_snapshot} > ?"
    return [database.ask(f"SELECT {identifier(column)} FROM {identifier(name)} {added}", [since]) for name in names]


def total(counts: Sequence[PendingRows]) -> int:
    """Return the sum of the numbers that were asked for."""
    return sum(int(count) for ((count,),) in [answer() for answer in counts])


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


@dataclass(frozen=True)
class SchemaState:
    """A state of the catalog's schemas."""

    version: str
    schema_version: int
    snapshot_id: int  # a snapshot with it
    moment: object  # the time of this snapshot, as the catalog's driver returns it


@dataclass(frozen=True)
class Description:
    """Tables in one state of the catalog's schemas."""

    state: SchemaState
    tables: Mapping[TableName, Table]
    # The tables of inlined rows of each table, the newest first, by the table's id
    inlined: Mapping[int, Sequence[str]]
    # Of the tables that a commit changes, besides those of this package
    partitionings: Mapping[TableName, Partitioning]
    mappings: dict[int, Mappings]  # of these tables too, by their ids


def describe(session: LakeSession, targets: Sequence[TableName], others: Sequence[TableName] = ()) -> Description:
    """Return the description of tables that was kept, or that of now, which is kept.

    The `targets` are those that a commit changes, and the `others` those of this package. Raises NotDirectError if the
    direct strategy does not support one of them, or the catalog.
    """
    key = (*targets, *others)
    if (known := session.descriptions.get(key)) is not None:
        assert isinstance(known, Description)  # noqa: S101 - nothing else is kept
        return known
    with session.read() as database:
        answer = ask_state(database)
        tables = {name: read_table(database, name) for name in key}
        ids = [tables[target].table_id for target in targets]
        partitionings = {target: read_partitioning(database, i) for target, i in zip(targets, ids, strict=True)}
        mappings = {table_id: read_mappings(database, table_id) for table_id in ids}
        inlined = read_tables(ask_tables(database, [table.table_id for table in tables.values()]))
        state, *_ = read_schema_state(answer)
    session.descriptions[key] = description = Description(state, tables, inlined, partitionings, mappings)
    return description


def ask_state(database: CatalogDatabase, earlier: int | None = None) -> PendingRows:
    """Ask for the newest snapshot, the version of the specification, and the time of an earlier snapshot."""
    return database.ask(
        "SELECT snapshot_id, schema_version, snapshot_time, next_catalog_id, next_file_id, "
        f"(SELECT value FROM {spec.METADATA} WHERE key = 'version' AND scope IS NULL), "
        f"(SELECT snapshot_time FROM {spec.SNAPSHOT} WHERE snapshot_id = ?) "
        f"FROM {spec.SNAPSHOT} WHERE snapshot_id = (SELECT max(snapshot_id) FROM {spec.SNAPSHOT})",
        [earlier],
    )


def read_schema_state(answer: PendingRows) -> tuple[SchemaState, int, int, object]:
    """Return the state, the next ids of the catalog's objects and files, and the time of the earlier snapshot.

    An untested version of the specification is a NotDirectError.
    """
    ((snapshot_id, schema_version, moment, next_catalog_id, next_file_id, version, earlier),) = answer()
    if (reason := spec.unknown(version)) is not None:
        raise NotDirectError(reason)
    return SchemaState(version, schema_version, snapshot_id, moment), next_catalog_id, next_file_id, earlier
