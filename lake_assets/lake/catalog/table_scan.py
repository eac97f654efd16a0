"""A table in one snapshot, for readers without a catalog: columns, files and their deletes, inlined rows.

Source of the rules: DuckLake's specification, https://ducklake.select/docs/stable/specification/tables/overview.
"""

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import CatalogError, SchemaError
from lake_assets.base.texts import meant
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.catalog.described import inlined_tables
from lake_assets.lake.catalog.files import until_of_deletes
from lake_assets.lake.catalog.table import LakeColumn, moment_of, read_columns, read_mappings, sql_type_of
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.schema.casts import cast
from lake_assets.schema.ducklake_types import data_file_type
from lake_assets.spark.task.conditions import Condition, Extents, may_fulfil
from lake_assets.spark.task.scanned_files import CHANGE, ChangedFile, DeleteFile, Mappings, ScanColumn, ScanFile

_FILE = "data_file_id, path, path_is_relative, file_size_bytes, record_count, encryption_key, mapping_id, partial_max"
_SEEN = "begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})"


@dataclass(frozen=True)
class Scan:
    """A table in a snapshot."""

    table: TableName
    snapshot: int
    columns: tuple[ScanColumn, ...]
    files: Sequence[ScanFile] = ()
    mappings: Mappings = field(default_factory=dict)
    changes: Sequence[ChangedFile] = ()  # in a range of snapshots, of which this one is the last
    inlined: pa.Table | None = None  # rows that are in no file
    has_filename: bool = False  # the table has a column of this name
    all_files: int = 0  # before files without rows for the conditions were left out

    @property
    def schema(self) -> pa.Schema:
        """The columns, as data files have them."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def scanned_columns(
    session: LakeSession,
    name: TableName,
    snapshot: int | dt.datetime | None = None,
    wanted: Sequence[str] | None = None,
) -> Scan:
    """Return a table in a snapshot, without its files; `wanted` columns, in this order, or all.

    The snapshot is one by its number, the newest one up to a time, or the newest one when None. Raises CatalogError
    without such a snapshot, table or column, and SchemaError for a type that no data file has.
    """
    with session.read() as database:
        at = _snapshot(database, snapshot)
        table_id, *_ = _table(database, name, at)
        every = [
            replace(column, type="varchar") if column.type == "json" else column  # as files have it
            for column in read_columns(database, table_id, at)
        ]
        defaults: dict[int, str] = dict(
            database.rows(
                f"SELECT column_id, initial_default FROM {spec.COLUMN} WHERE table_id = ? AND {_SEEN.format(at=at)} "
                "AND initial_default IS NOT NULL",
                [table_id],
            )
        )
    by_name = {column.name.lower(): column for column in every if column.parent is None}
    for column in wanted or ():
        if column.lower() not in by_name:
            raise CatalogError(f"table {name} has no column {column}:", meant(column, by_name))
    chosen = list(by_name.values()) if wanted is None else [by_name[column.lower()] for column in wanted]
    columns = tuple(_column(session, column, every, defaults) for column in chosen)
    return Scan(name, at, columns, has_filename="filename" in by_name)


def with_files(session: LakeSession, scan: Scan, conditions: Sequence[Condition] = ()) -> Scan:
    """Return the scan with the files that may have wanted rows, by the catalog, and with the inlined rows."""
    with session.read() as database:
        table_id, folder = _table(database, scan.table, scan.snapshot)
        files = _files(database, table_id, folder, scan.snapshot)
        kept = _kept(database, table_id, scan, files, conditions)
        _add_deletes(database, table_id, folder, scan.snapshot, kept)
        mappings = read_mappings(database, table_id)
        has_inlined = any(
            database.rows(f"SELECT 1 FROM {identifier(each)} WHERE {_seen_inlined(database, scan.snapshot)} LIMIT 1")
            for each in inlined_tables(database, table_id)
        )
    inlined = _inlined(session, scan) if has_inlined else None
    return replace(scan, files=list(kept.values()), mappings=mappings, inlined=inlined, all_files=len(files))


def with_changes(
    session: LakeSession, scan: Scan, first: int
) -> tuple[Scan, list[tuple[tuple[ScanColumn, ...], pa.Table]]]:
    """Return the scan with the files of which rows were added or deleted since a snapshot, this one too.

    With it come such rows that are in no file: the columns that they had in a snapshot, and after `CHANGE` the rows.
    Raises CatalogError without the first snapshot.
    """
    with session.read() as database:
        _snapshot(database, first)
        table_id, folder = _table(database, scan.table, scan.snapshot)
        changes = _changed_files(database, table_id, folder, first, scan.snapshot)
        mappings = read_mappings(database, table_id)
        at = _changed_inlined(database, table_id, first, scan.snapshot)
    inlined = [_inlined_changes(session, scan, snapshot, rows) for snapshot, rows in at.items()]
    return replace(scan, changes=changes, mappings=mappings), inlined


def _changed_files(database: CatalogDatabase, table_id: int, folder: str, first: int, last: int) -> list[ChangedFile]:
    within = f"BETWEEN {first:d} AND {last:d}"
    added = f"begin_snapshot <= {last:d} AND (begin_snapshot >= {first:d} OR partial_max >= {first:d})"
    positions: dict[int, list[tuple[int, int]]] = {}
    if database.has_table(name := spec.inlined_deletes(table_id)):
        sql = f"SELECT file_id, begin_snapshot, row_id FROM {identifier(name)} WHERE begin_snapshot <= ?"
        for file_id, snapshot, position in database.rows(sql, [last]):
            positions.setdefault(file_id, []).append((snapshot, position))
    deletes: dict[int, list[tuple[int, DeleteFile]]] = {}
    for file_id, snapshot, deleted in _delete_files(database, table_id, folder, f"begin_snapshot <= {last:d}"):
        deletes.setdefault(file_id, []).append((snapshot, deleted))
    touched = {file_id for file_id, of_file in positions.items() if any(first <= at <= last for at, _ in of_file)}
    touched |= {
        file_id
        for file_id, of_file in deletes.items()
        if any(at >= first or (deleted.until or 0) >= first for at, deleted in of_file)
    }
    rows = database.rows(
        f"SELECT {_FILE}, begin_snapshot, end_snapshot, row_id_start, ({added} OR end_snapshot {within}) "
        f"FROM {spec.DATA_FILE} WHERE table_id = ? AND begin_snapshot <= {last:d} ORDER BY data_file_id",
        [table_id],
    )
    return [
        ChangedFile(
            ScanFile((folder if is_relative else "") + path, size, number, key, mapping, until),
            *(begin, end, start or 0, deletes.get(file_id, ()), positions.get(file_id, ())),
        )
        for file_id, path, is_relative, size, number, key, mapping, until, begin, end, start, is_changed in rows
        if is_changed or file_id in touched
    ]


def _changed_inlined(
    database: CatalogDatabase, table_id: int, first: int, last: int
) -> dict[int, list[tuple[int, int, str]]]:
    """Return the changes of inlined rows by a snapshot that has these rows: snapshot, id of the row, and kind."""
    version = database.version
    kept = [number for (number,) in database.rows(f"SELECT snapshot_id FROM {spec.SNAPSHOT} ORDER BY 1")]
    changes: dict[int, list[tuple[int, int, str]]] = {}
    for name in inlined_tables(database, table_id):
        sql = f"SELECT {version.row_id}, {version.begin_snapshot}, {version.end_snapshot} FROM {identifier(name)}"
        for row_id, begin, end in database.rows(sql):
            place = bisect_right(kept, min(last, last if end is None else end - 1))
            if place and (at := kept[place - 1]) >= begin:  # others are of no snapshot that is kept, as ended files
                kinds = ((begin, "insert"), (end, "delete"))
                found = [(when, row_id, kind) for when, kind in kinds if when is not None and first <= when <= last]
                changes.setdefault(at, []).extend(found)
    return {at: found for at, found in changes.items() if found}


def _inlined_changes(
    session: LakeSession, scan: Scan, at: int, changes: Sequence[tuple[int, int, str]]
) -> tuple[tuple[ScanColumn, ...], pa.Table]:
    """Return changes of inlined rows, which DuckLake reads in a snapshot that has them, with its columns."""
    wanted = {column.column_id for column in scan.columns}
    earlier = scanned_columns(session, scan.table, at)
    then = tuple(column for column in earlier.columns if column.column_id in wanted)
    rows = _inlined(session, replace(earlier, columns=then), ("rowid",))
    places = {row_id: place for place, row_id in enumerate(rows.column("rowid").to_pylist())}
    taken = rows.drop_columns("rowid").take([places[row_id] for _, row_id, _ in changes])
    facts = [pa.array([change[place] for change in changes], kind) for place, kind in enumerate(CHANGE.types)]
    return then, pa.table([*facts, *taken.columns], schema=pa.schema([*CHANGE, *taken.schema]))


def _snapshot(database: CatalogDatabase, named: int | dt.datetime | None) -> int:
    if named is None:
        ((newest,),) = database.rows(f"SELECT max(snapshot_id) FROM {spec.SNAPSHOT}")
        return int(newest)
    if isinstance(named, dt.datetime):
        moment = named if named.tzinfo else named.replace(tzinfo=dt.UTC)
        rows = database.rows(f"SELECT snapshot_id, snapshot_time FROM {spec.SNAPSHOT}")
        times = {number: moment_of(time) for number, time in rows}
        if before := [number for number, time in times.items() if time <= moment]:
            return int(max(before))
        raise CatalogError(
            f"the lake has no snapshot of {moment} or earlier; the oldest is of {min(times.values())}:",
            "name another timestamp.",
        )
    ((oldest, newest, found),) = database.rows(
        "SELECT min(snapshot_id), max(snapshot_id), "
        f"(SELECT count(*) FROM {spec.SNAPSHOT} WHERE snapshot_id = ?) FROM {spec.SNAPSHOT}",
        [named],
    )
    if found:
        return named
    kept = f"the newest is {newest}" if named > newest else f"the oldest is {oldest}"
    raise CatalogError(f"there is no snapshot {named}, or it has expired; {kept}:", "name another version.")


def _table(database: CatalogDatabase, name: TableName, at: int) -> tuple[int, str]:
    """Return the id and the folder of the table that had this name in a snapshot."""
    t_seen, s_seen = (_SEEN.format(at=at).replace("begin", f"{of}.begin").replace("end_", f"{of}.end_") for of in "ts")
    tables = f"FROM {spec.TABLE} t JOIN {spec.SCHEMA} s ON s.schema_id = t.schema_id WHERE {t_seen} AND {s_seen}"
    rows = database.rows(
        f"SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative {tables} "
        "AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)",
        [name.schema, name.table],
    )
    if len(rows) != 1:
        known = [".".join(names) for names in database.rows(f"SELECT s.schema_name, t.table_name {tables}")]
        advice = meant(str(name), known) if known else "name a version that it has."
        raise CatalogError(f"snapshot {at} of the lake has no table {name}:", advice)
    table_id, schema_path, schema_is_relative, path, is_relative = rows[0]
    root = (database.root if schema_is_relative else "") + schema_path
    return table_id, (root if is_relative else "") + path


def _column(
    session: LakeSession, column: LakeColumn, every: Sequence[LakeColumn], defaults: Mapping[int, str]
) -> ScanColumn:
    try:
        if (sql := sql_type_of(column, every)) is not None:
            return _typed(session, column, data_file_type(duckdb.type(sql), column.name), every, defaults)
    except SchemaError:
        pass
    raise SchemaError(
        f"column {column.name!r} has the type {column.type}, which no reader of its files knows:",
        "name the columns to read, without it; drop it from a table that a transform joins.",
    )


def _typed(
    session: LakeSession,
    column: LakeColumn,
    data_type: pa.DataType,
    every: Sequence[LakeColumn],
    defaults: Mapping[int, str],
) -> ScanColumn:
    inner = [part for part in every if part.parent == column.column_id]
    types: Iterator[pa.DataType] = (
        iter((data_type.key_type, data_type.item_type))
        if t.is_map(data_type)
        else iter((data_type.value_type,))
        if t.is_list(data_type)
        else (field.type for field in data_type)
        if t.is_struct(data_type)
        else iter(())
    )
    parts = tuple(_typed(session, part, kind, every, defaults) for part, kind in zip(inner, types, strict=True))
    text = defaults.get(column.column_id)
    default, sql = pa.scalar(None, data_type), sql_type_of(column, every)
    assert sql is not None  # noqa: S101 - that of the whole column is known
    if text is not None:
        value = session.engine.execute(f"SELECT ?::{sql} AS value", [text]).to_arrow_table().column(0)
        default = cast(value.combine_chunks(), data_type)[0]
    return ScanColumn(column.column_id, column.name, sql, data_type, default, parts)


def _files(database: CatalogDatabase, table_id: int, folder: str, at: int) -> dict[int, ScanFile]:
    """Return the files of a snapshot by their ids."""
    return {
        file_id: ScanFile(
            (folder if is_relative else "") + path, size, rows, key, mapping, at if (until or 0) > at else None
        )
        for file_id, path, is_relative, size, rows, key, mapping, until in database.rows(
            f"SELECT {_FILE} FROM {spec.DATA_FILE} WHERE table_id = ? AND {_SEEN.format(at=at)} ORDER BY data_file_id",
            [table_id],
        )
    }


def _delete_files(
    database: CatalogDatabase, table_id: int, folder: str, condition: str
) -> Iterator[tuple[int, int, DeleteFile]]:
    """Yield files of deletes, oldest first: the id of the data file, the snapshot that added it, and the file."""
    rows = database.rows(
        "SELECT data_file_id, begin_snapshot, path, path_is_relative, format, encryption_key, "
        f"{until_of_deletes(table_id)} "
        f"FROM {spec.DELETE_FILE} WHERE table_id = ? AND {condition} ORDER BY begin_snapshot",
        [table_id],
    )
    for file_id, begin, path, is_relative, kind, key, until in rows:
        uri = (folder if is_relative else "") + path
        if kind != "parquet":
            raise CatalogError(
                f"{uri} has deletes in the form {kind}, which only DuckLake reads:",
                "let it write them again: `CALL ducklake_rewrite_data_files`, or read by lake_assets.connect.",
            )
        yield file_id, begin, DeleteFile(uri, key, until if (until or 0) > begin else None)  # or of a flush before it


def _add_deletes(database: CatalogDatabase, table_id: int, folder: str, at: int, files: Mapping[int, ScanFile]) -> None:
    for file_id, _, deletes in _delete_files(database, table_id, folder, _SEEN.format(at=at)):
        if file_id in files:
            files[file_id].deletes.append(replace(deletes, until=at if (deletes.until or 0) > at else None))
    if database.has_table(name := spec.inlined_deletes(table_id)):
        for file_id, position in database.rows(
            f"SELECT file_id, row_id FROM {identifier(name)} WHERE begin_snapshot <= ?", [at]
        ):
            if file_id in files:
                files[file_id].positions.append(position)


def _seen_inlined(database: CatalogDatabase, at: int) -> str:
    begin, end = database.version.begin_snapshot, database.version.end_snapshot
    return f"{begin} <= {at:d} AND ({end} IS NULL OR {end} > {at:d})"


def _inlined(session: LakeSession, scan: Scan, others: Sequence[str] = ()) -> pa.Table:
    """Return the inlined rows, after other columns of DuckLake, as it reads them; it opens no file for this."""
    if scan.has_filename:  # DuckLake's own column of this name tells inlined rows
        raise CatalogError(
            f"table {scan.table} has a column filename, so that its rows in the catalog cannot be told from others:",
            "write them into files: `CALL ducklake_flush_inlined_data`.",
        )
    listed = ", ".join([*others, *(identifier(column.name) for column in scan.columns)]) or "1"
    table = f"{scan.table.sql} AT (VERSION => {scan.snapshot:d})"
    sql = f"SELECT {listed} FROM {table} WHERE {spec.IS_INLINED}"
    rows = session.connection.execute(sql).to_arrow_table()
    columns = [cast(rows.column(c.name).combine_chunks(), c.type) for c in scan.columns]
    ids = [pa.field(name, pa.int64()) for name in others]
    return pa.table([*map(rows.column, others), *columns], schema=pa.schema([*ids, *scan.schema]))


def _kept(
    database: CatalogDatabase,
    table_id: int,
    scan: Scan,
    files: Mapping[int, ScanFile],
    conditions: Sequence[Condition],
) -> dict[int, ScanFile]:
    """Return the files whose values can fulfil all conditions, by the bounds and values that the catalog has."""
    by_name = {column.name: column for column in scan.columns}
    kept = dict(files)
    for condition in conditions:
        column = by_name.get(condition.column)
        if column is None or column.parts or not kept:
            continue
        rows = database.rows(
            "SELECT data_file_id, min_value, max_value, null_count, value_count "
            f"FROM {spec.FILE_COLUMN_STATS} WHERE table_id = ? AND column_id = ? "
            # A file of a partition has one value.
            "UNION ALL SELECT v.data_file_id, v.partition_value, v.partition_value, "
            "CASE WHEN v.partition_value IS NULL THEN 1 ELSE 0 END, "
            "CASE WHEN v.partition_value IS NULL THEN 0 ELSE 1 END "
            f"FROM {spec.FILE_PARTITION_VALUE} v JOIN {spec.DATA_FILE} f ON f.data_file_id = v.data_file_id "
            f"JOIN {spec.PARTITION_COLUMN} k ON k.partition_id = f.partition_id AND k.table_id = v.table_id "
            "AND k.partition_key_index = v.partition_key_index "
            "WHERE v.table_id = ? AND k.column_id = ? AND k.transform = 'identity'",
            [table_id, column.column_id] * 2,
        )
        ids = [row[0] for row in rows]
        facts = Extents(column.type, *([row[place] for row in rows] for place in range(1, 5)))
        for file_id in (file_id for file_id, may in zip(ids, may_fulfil(condition, facts), strict=True) if not may):
            kept.pop(file_id, None)
    return kept
