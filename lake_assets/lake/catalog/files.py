"""The files of all snapshots, those that are scheduled for deletion, and how many files and bytes there are.

Every function raises CatalogError if the catalog cannot be read or refuses.
"""

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lake_assets.base.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.described import ask_counts, inlined_rows, inlined_tables, total
from lake_assets.lake.catalog.table import Key, Partitioning, Table, find_table
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.storage.manifest import LandedObject

_FEW = 500  # ids in one statement; for more files, the deletes of all files are read
_INLINED = "the table has inlined rows"
_DELETED = "rows were deleted from files of the table"


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A live data file of a partition."""

    file_id: int
    path: str  # in the catalog's form
    rows: int  # with deleted ones
    begin_snapshot: int


def files_of_partitions(
    database: CatalogDatabase, table_id: int, partitioning: Partitioning, wanted: Collection[Key] | None
) -> dict[Key, list[PartitionFile]]:
    """Return the live data files of some partitions, or of all when None, by the partition's values, in one query.

    The database returns the files of all combinations of these values: few more, where the partitions are those of a
    region's or a day's range. A partition's files are sorted by id; those of another partitioning are left out. The
    values are texts of the catalog, in the order of the partitioning's keys.
    """
    statement, read = _query(table_id, partitioning, wanted, _COLUMNS)
    files = read(database.rows(*statement))
    return {values: [PartitionFile(*row) for row in rows] for values, rows in files.items()}


def _query(
    table_id: int, partitioning: Partitioning, wanted: Collection[Key] | None, selected: str
) -> tuple[tuple[str, list[object]], Callable[[list[Row]], dict[Key, list[Row]]]]:
    """Return the query of `files_of_partitions` with its parameters, and a function that groups its rows."""
    if not partitioning.columns:
        wanted = [()]
    if wanted is not None and len(wanted) == 1:
        (only,) = wanted
        condition, conditioned = of_partition(table_id, only)
        if partitioning.columns:  # all files of another table are its partition's
            condition, conditioned = f"{condition} AND f.partition_id = ?", [*conditioned, partitioning.partition_id]
        sql = f"SELECT {selected} FROM {spec.DATA_FILE} f WHERE {condition} AND f.end_snapshot IS NULL"
        return (f"{sql} ORDER BY f.data_file_id", conditioned), lambda rows: {only: rows}
    columns, joins = values_of_files(range(len(partitioning.columns)))
    conditions = ["f.table_id = ?", "f.end_snapshot IS NULL", "f.partition_id = ?"]
    parameters: list[object] = [table_id, partitioning.partition_id]
    for index, of_key in enumerate(zip(*(wanted or ()), strict=True)):
        condition, texts = is_any_of(f"p{index}.partition_value", dict.fromkeys(of_key))
        conditions.append(condition)
        parameters += texts
    sql = (
        f"SELECT {selected}, {columns} "
        f"FROM {spec.DATA_FILE} f {joins} WHERE {' AND '.join(conditions)} ORDER BY f.data_file_id"
    )

    def grouped(rows: list[Row]) -> dict[Key, list[Row]]:
        files: dict[Key, list[Row]] = {values: [] for values in wanted or ()}
        for row in rows:
            texts = row[-len(partitioning.columns) :]
            if wanted is None or texts in files:
                files.setdefault(texts, []).append(row[: -len(partitioning.columns)])
        return files

    return (sql, parameters), grouped


_COLUMNS = "f.data_file_id, f.path, f.record_count, f.begin_snapshot"


def is_any_of(column: str, values: Collection[object]) -> tuple[str, list[object]]:
    """Return the condition that a column has one of these values, or is NULL where they have None; the parameters."""
    known = [value for value in values if value is not None]
    conditions = [f"{column} IN ({', '.join('?' for _ in known)})"] if known else []
    conditions += [f"{column} IS NULL"] if None in values else []
    return f"({' OR '.join(conditions)})", known


def of_partition(
    table_id: int, values: Sequence[str | None], places: Sequence[int] | None = None
) -> tuple[str, list[object]]:
    """Return the condition for the data files `f` of a partition, under any partitioning, with its parameters.

    The values are texts of the catalog. `places` has the index of each value's key in the partitioning; their order is
    that of the keys when None.
    """
    conditions: list[str] = ["f.table_id = ?"]
    parameters: list[object] = [table_id]
    for index, value in zip(range(len(values)) if places is None else places, values, strict=True):
        compared = "IS NULL" if value is None else "= ?"
        conditions.append(
            f"f.data_file_id IN (SELECT data_file_id FROM {spec.FILE_PARTITION_VALUE} "
            f"WHERE table_id = ? AND partition_key_index = ? AND partition_value {compared})"
        )
        parameters += [table_id, index, *([] if value is None else [value])]
    return " AND ".join(conditions), parameters


def values_of_files(places: Sequence[int]) -> tuple[str, str]:
    """Return the columns of the partition values of data files `f` under these keys, and the joins for them."""
    columns = ", ".join(f"p{key}.partition_value" for key in places)
    joins = " ".join(
        f"JOIN {spec.FILE_PARTITION_VALUE} p{key} ON p{key}.data_file_id = f.data_file_id "
        f"AND p{key}.table_id = f.table_id AND p{key}.partition_key_index = {key}"
        for key in places
    )
    return columns, joins


def until_of_deletes(table_id: int) -> str:
    """Return the snapshot before which others see a part of a file of deletes, as SQL; NULL if all see the same.

    Where a flush made both files, of rows and of their deletes, DuckLake 1.5.5 writes it for that of rows only. It is
    the newest snapshot if that of the flush has expired.
    """
    files = f"SELECT data_file_id FROM {spec.DATA_FILE} WHERE table_id = {table_id:d} AND partial_max IS NOT NULL"
    # Doubled: psycopg reads one as a parameter, and to SQL two are one.
    flushed = f"changes_made LIKE '%%inline_flush:{table_id:d}%%'"
    return (
        f"coalesce(partial_max, CASE WHEN delete_count > 1 AND data_file_id IN ({files}) THEN "
        f"coalesce((SELECT max(snapshot_id) FROM {spec.SNAPSHOT_CHANGES} WHERE {flushed}), "
        f"(SELECT max(snapshot_id) FROM {spec.SNAPSHOT})) END)"
    )


def partition_rows(database: CatalogDatabase, table_id: int, places: Sequence[int]) -> dict[Key, int]:
    """Return the number of rows of each partition, without deleted rows, by the values of these keys of its table.

    Raises NotDirectError if the table has inlined rows.
    """
    refuse_inlined_rows(database, table_id)
    columns, joins = values_of_files(places)
    values, group = (f"{columns}, ", f" GROUP BY {columns}") if places else ("", "")
    deletes = [(f"SELECT data_file_id, delete_count FROM {spec.DELETE_FILE} WHERE end_snapshot IS NULL")]
    if database.has_table(inlined := spec.inlined_deletes(table_id)):
        deletes.append(f"SELECT file_id, count(*) FROM {identifier(inlined)} GROUP BY file_id")
    rows = database.rows(
        f"WITH deletes (data_file_id, number) AS ({' UNION ALL '.join(deletes)}), "
        "deleted AS (SELECT data_file_id, sum(number) AS number FROM deletes GROUP BY data_file_id) "
        f"SELECT {values}coalesce(sum(f.record_count - coalesce(d.number, 0)), 0) FROM {spec.DATA_FILE} f {joins} "
        "LEFT JOIN deleted d ON d.data_file_id = f.data_file_id "
        f"WHERE f.table_id = ? AND f.end_snapshot IS NULL{group}",
        [table_id],
    )
    return {tuple(texts): int(count) for *texts, count in rows}


def whole_files_of(
    database: CatalogDatabase, table: Table, partitioning: Partitioning, wanted: Collection[Key]
) -> dict[Key, list[PartitionFile]]:
    """Return the data files of some partitions, by the values of each.

    Raises NotDirectError if one of them may have rows in other files, or deleted rows.
    """
    version, inlined = database.version, inlined_tables(database, table.table_id)
    return ask_whole_files(database, table, partitioning, wanted, inlined, version)()


def ask_whole_files(
    database: CatalogDatabase,
    table: Table,
    partitioning: Partitioning,
    wanted: Collection[Key],
    inlined: Sequence[str],
    version: spec.Version,
) -> Callable[[], dict[Key, list[PartitionFile]]]:
    """Ask for what `whole_files_of` returns, or raises."""
    name = spec.inlined_deletes(table.table_id)
    of_others = database.ask(
        f"SELECT 1 FROM {spec.DATA_FILE} WHERE table_id = ? AND end_snapshot IS NULL "
        "AND (partition_id IS NULL OR partition_id <> ?) LIMIT 1",
        [table.table_id, partitioning.partition_id],
    )
    counts = ask_counts(database, inlined, version)
    has_deletes = (
        f"f.data_file_id IN (SELECT data_file_id FROM {spec.DELETE_FILE} "
        f"WHERE table_id = {int(table.table_id)} AND end_snapshot IS NULL)"
    )
    statement, grouped = _query(table.table_id, partitioning, wanted, f"{_COLUMNS}, {has_deletes}")
    files = database.ask(*statement)
    deletes_in_catalog = database.ask_table(name)

    def concluded() -> dict[Key, list[PartitionFile]]:
        if partitioning.columns and of_others():
            raise NotDirectError("the table has files of another partitioning")
        if total(counts):
            raise NotDirectError(_INLINED)
        of_keys = grouped(files())
        if any(is_deleted for rows in of_keys.values() for *_, is_deleted in rows) or (
            any(of_keys.values()) and deletes_in_catalog() and _has_rows(database, name)
        ):
            raise NotDirectError(_DELETED)
        return {values: [PartitionFile(*file) for *file, _ in rows] for values, rows in of_keys.items()}

    return concluded


def refuse_inlined_rows(database: CatalogDatabase, table_id: int) -> None:
    """Refuse a table with inlined rows in the newest snapshot, by a NotDirectError."""
    if inlined_rows(database, table_id):
        raise NotDirectError(_INLINED)


def refuse_deletes(database: CatalogDatabase, table: Table, file_ids: Collection[int]) -> None:
    """Refuse data files with deleted rows, by a NotDirectError."""
    if not file_ids:
        return
    ids = sorted(file_ids) if len(file_ids) <= _FEW else []
    among = f" AND data_file_id IN ({', '.join('?' for _ in ids)})" if ids else ""
    rows = database.rows(
        f"SELECT data_file_id FROM {spec.DELETE_FILE} WHERE table_id = ? AND end_snapshot IS NULL{among}",
        [table.table_id, *ids],
    )
    name = spec.inlined_deletes(table.table_id)
    in_catalog = database.has_table(name) and _has_rows(database, name)
    if any(file_id in file_ids for (file_id,) in rows) or in_catalog:
        raise NotDirectError(_DELETED)


def _has_rows(database: CatalogDatabase, name: str) -> bool:
    return bool(database.rows(f"SELECT 1 FROM {identifier(name)} LIMIT 1"))


# A file's path is relative to its table's path, that to the schema's, and that to the lake's; each may be absolute.
TABLE_FOLDER = (
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
        for (folder,) in session.rows(f"SELECT folder FROM ({_tables(session)})", [session.config.data_path])
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
            [session.config.data_path],
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
        [session.config.data_path],
    )
    return [ScheduledFile(*row) for row in rows]


def unnamed_files(session: LakeSession, files: Sequence[LandedObject]) -> list[LandedObject]:
    """Return those of the files that the catalog does not name, also as one that is scheduled for deletion."""
    if not files:
        return []
    named = needed_files(session) | {file.uri for file in scheduled_files(session)}
    # By name, because the catalog may write the folder differently; names of data files are unique.
    names = {uri.rpartition("/")[2] for uri in named}
    return [file for file in files if file.key.rpartition("/")[2] not in names]


def forget_scheduled(session: LakeSession, file_ids: list[int]) -> None:
    """Remove these files from the scheduled files, because they are deleted or must be kept."""
    session.rows(
        f"DELETE FROM {session.metadata}.{spec.FILES_SCHEDULED_FOR_DELETION} WHERE list_contains(?, data_file_id)",
        [file_ids],
    )


def _tables(session: LakeSession) -> str:
    """Return a query of the ids and folders of the tables of all snapshots; its parameter is the lake's data path."""
    return (
        f"SELECT DISTINCT t.table_id, {TABLE_FOLDER} AS folder FROM {session.metadata}.{spec.TABLE} t "
        f"JOIN {session.metadata}.{spec.SCHEMA} s ON s.schema_id = t.schema_id"
    )


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of a table's newest snapshot."""

    files: int
    most: int  # of one partition


def snapshot_count(session: LakeSession) -> int:
    """Return the number of snapshots that have not expired."""
    with session.read() as database:
        ((number,),) = database.rows(f"SELECT count(*) FROM {spec.SNAPSHOT}")
    return int(number)


def table_files(session: LakeSession, table: TableName, keys: int) -> TableFiles:
    """Return the data files of a table, and of the partition with most of them."""
    with session.read() as database:
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
