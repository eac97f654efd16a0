"""A table as the catalog describes it: its name, columns, partitioning and options; and its snapshots."""

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Self

from lake_assets.base.duckdb_engine import identifier
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import duckdb_type
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.schema.column_rules import SortKey
from lake_assets.spark.task.scanned_files import MappedColumn, Mappings

# How Parquet nests the parts of a list or map.
_INSIDE_LIST = "list, element"
_INSIDE_MAP = "key_value, "

Key = tuple[str | None, ...]
"""The values of a partition as the catalog writes them; the function says whether in the stream's or table's order."""

_QUOTED = re.compile(r'^"(.*)"$', re.DOTALL)
_IN_SNAPSHOT = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column or a part of a nested one."""

    column_id: int
    name: str
    type: str  # DuckLake's name of it
    parent: int | None
    is_nullable: bool = True  # DuckLake 1.5.5 writes false for some parts of nested columns, and heeds it for none
    default: str | None = None  # of new rows that lack the column


@dataclass(frozen=True)
class Table:
    """A table of the lake, as of the last snapshot."""

    table_id: int
    folder: str  # its URI, ending in a slash
    columns: Mapping[int, LakeColumn]

    @cached_property
    def leaves(self) -> Mapping[str, LakeColumn]:
        """The columns that hold values, by the path that Parquet gives them."""
        parents = {column.parent for column in self.columns.values()}
        return {self.parquet_path(c): c for c in self.columns.values() if c.column_id not in parents}

    @cached_property
    def nested(self) -> Mapping[str, LakeColumn]:
        """The columns that have parts, by the path that Parquet gives them."""
        parents = {column.parent for column in self.columns.values()}
        return {self.parquet_path(c): c for c in self.columns.values() if c.column_id in parents}

    def parquet_path(self, column: LakeColumn) -> str:
        """Return the path that Parquet gives a column, or a part of a nested one."""
        if column.parent is None:
            return column.name
        parent = self.columns[column.parent]
        inside = {"list": _INSIDE_LIST, "map": _INSIDE_MAP + column.name}.get(parent.type, column.name)
        return f"{self.parquet_path(parent)}, {inside}"

    def with_outer(self, column: LakeColumn) -> Iterator[LakeColumn]:
        """Yield a column, and the columns that it is a part of."""
        yield column
        if column.parent is not None:
            yield from self.with_outer(self.columns[column.parent])

    def without(self, column_ids: Collection[int]) -> "Table":
        """Return the table without some columns and their parts."""
        kept = (c for c in self.columns.values() if not any(o.column_id in column_ids for o in self.with_outer(c)))
        return replace(self, columns={column.column_id: column for column in kept})

    def top_level(self, name: str) -> LakeColumn | None:
        """Return the column of this name; upper and lower case are the same."""
        matching = (c for c in self.columns.values() if c.parent is None and c.name.lower() == name.lower())
        return next(matching, None)


def read_folder(database: CatalogDatabase, name: TableName) -> tuple[int, str]:
    """Return a table's id, and the URI of its folder, which ends in a slash.

    Raises NotDirectError without such a table.
    """
    rows = database.rows(
        f"SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative {spec.FROM_LIVE_TABLE}",
        [name.schema, name.table],
    )
    if len(rows) != 1:
        raise NotDirectError(f"the catalog has {len(rows)} tables {name}")
    table_id, schema_path, schema_is_relative, path, is_relative = rows[0]
    root = (database.root if schema_is_relative else "") + schema_path
    return table_id, (root if is_relative else "") + path


def find_table(database: CatalogDatabase, name: TableName) -> int | None:
    """Return the id of a table; None if it does not exist."""
    ids = database.rows(f"SELECT t.table_id {spec.FROM_LIVE_TABLE}", [name.schema, name.table])
    return ids[0][0] if len(ids) == 1 else None


def read_columns(database: CatalogDatabase, table_id: int | None, snapshot: int | None = None) -> list[LakeColumn]:
    """Return the columns of a table and the parts of nested ones, in their order; in a snapshot, or now when None."""
    at, numbers = ("end_snapshot IS NULL", []) if snapshot is None else (_IN_SNAPSHOT, [snapshot, snapshot])
    rows = database.rows(
        "SELECT column_id, column_name, column_type, parent_column, nulls_allowed, CASE WHEN default_value <> 'NULL' "
        f"AND default_value_type = 'literal' THEN default_value END FROM {spec.COLUMN} "
        f"WHERE table_id = ? AND {at} ORDER BY column_order",
        [table_id, *numbers],
    )
    return [
        LakeColumn(number, name, kind, parent, parent is not None or bool(nulls), default)
        for number, name, kind, parent, nulls, default in rows
    ]


def read_table(database: CatalogDatabase, name: TableName) -> Table:
    """Return the table's description.

    Raises NotDirectError if it does not exist, or has columns of an unsupported type or with the same path.
    """
    table_id, folder = read_folder(database, name)
    columns = {column.column_id: column for column in read_columns(database, table_id)}
    table = Table(table_id, folder, columns)
    if len(table.leaves) < len(columns.keys() - {column.parent for column in columns.values()}):
        raise NotDirectError(f"two columns of {name} have one path in Parquet, as `a, b` and the field b of a have")
    for column in table.leaves.values():
        if duckdb_type(column.type) is None:
            raise NotDirectError(f"column {column.name} of {name} is of type {column.type}")
    return table


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The columns by which a table's files are partitioned now, in the order of their keys; none of a plain table."""

    partition_id: int | None
    columns: Sequence[LakeColumn]

    def read_from_path(self, inside: Collection[str] = ()) -> set[int]:
        """Return the ids of the columns that readers take from a file's path, without those that are `inside` it.

        These names are in lower case.
        """
        return {column.column_id for column in self.columns if column.name.lower() not in inside}

    def stored_leaves(self, table: Table, inside: Collection[str] = ()) -> dict[str, LakeColumn]:
        """Return the table's leaves that a data file must have; `inside` as in `read_from_path`."""
        from_path = self.read_from_path(inside)
        return {path: column for path, column in table.leaves.items() if column.column_id not in from_path}


def read_partitioning(database: CatalogDatabase, table_id: int) -> Partitioning:
    """Return the partitioning of a table. Raises NotDirectError if it transforms the table's columns."""
    keys = _partition_keys(database, table_id)
    if any(transform != "identity" for _, transform, *_ in keys):
        raise NotDirectError("the table is not partitioned by the plain values of its columns")
    return Partitioning(keys[0][0] if keys else None, tuple(LakeColumn(*column) for _, _, *column in keys))


def read_mappings(database: CatalogDatabase, table_id: int) -> Mappings:
    """Return the mappings of a table's files."""
    mappings: dict[int, list[MappedColumn]] = {}
    for mapping_id, *entry in database.rows(
        "SELECT m.mapping_id, n.column_id, n.source_name, n.target_field_id, n.parent_column, n.is_partition "
        f"FROM {spec.COLUMN_MAPPING} m JOIN {spec.NAME_MAPPING} n ON n.mapping_id = m.mapping_id "
        "WHERE m.table_id = ? AND m.type = 'map_by_name' ORDER BY m.mapping_id",
        [table_id],
    ):
        mappings.setdefault(mapping_id, []).append(tuple(entry))
    return mappings


_OF_PATHS = {"identity", "year", "month", "day", "hour"}


def partition_keys(session: LakeSession, name: TableName) -> list[str]:
    """Return the names of the columns by which a table is partitioned now, in lower case, in the order of its keys.

    A key that DuckLake's extension does not make of a path, a bucket of a column, is such as `bucket(4) of region`.
    """
    with session.read() as database:
        keys = _partition_keys(database, find_table(database, name))
    return [name.lower() if key in _OF_PATHS else f"{key} of {name.lower()}" for _, key, _, name, *_ in keys]


def _partition_keys(database: CatalogDatabase, table_id: int | None) -> list[Row]:
    """Return the keys of a table's partitioning: its id, the key's transform, and the column."""
    return database.rows(
        "SELECT i.partition_id, k.transform, c.column_id, c.column_name, c.column_type, c.parent_column "
        f"FROM {spec.PARTITION_INFO} i "
        f"JOIN {spec.PARTITION_COLUMN} k ON k.partition_id = i.partition_id AND k.table_id = i.table_id "
        f"JOIN {spec.COLUMN} c ON c.column_id = k.column_id AND c.table_id = i.table_id "
        "WHERE i.table_id = ? AND i.end_snapshot IS NULL AND c.end_snapshot IS NULL ORDER BY k.partition_key_index",
        [table_id],
    )


def key_values(partitioning: Partitioning, partition: Partition) -> Key:
    """Return the partition's values as texts of the catalog, in the order of the table's keys.

    Raises NotDirectError if the table is partitioned by others.
    """
    texts = {
        column.name.lower(): None if value is None else str(value)
        for column, value in zip(partition.columns, partition.values, strict=True)
    }
    names = [column.name.lower() for column in partitioning.columns]
    if set(names) != set(texts):
        of_table, of_stream = (", ".join(parts) or "nothing" for parts in (names, texts))
        raise NotDirectError(f"the table is partitioned by {of_table}, the stream by {of_stream}")
    return tuple(texts[name] for name in names)


def column_types(columns: Sequence[LakeColumn]) -> dict[str, str] | None:
    """Return the SQL type of each column, by its name; None if a type is unknown here.

    The columns are in the table's order, with the parts of nested ones.
    """
    types = {column.name: sql_type_of(column, columns) for column in columns if column.parent is None}
    known = {name: text for name, text in types.items() if text is not None}
    return known if len(known) == len(types) else None


def sql_type_of(column: LakeColumn, columns: Sequence[LakeColumn]) -> str | None:
    """Return the SQL type of a column or a part of one, which are all among `columns`; None if it is unknown here."""
    parts = [part for part in columns if part.parent == column.column_id]
    types = [sql_type_of(part, columns) for part in parts]
    if None in types:
        return None
    match column.type, types:
        case "list", [element]:
            return f"{element}[]"
        case "map", [key, value]:
            return f"MAP({key}, {value})"
        case "struct", [_, *_]:
            fields = (f"{identifier(part.name)} {text}" for part, text in zip(parts, types, strict=True))
            return f"STRUCT({', '.join(fields)})"
        case name, []:
            return duckdb_type(name)
    return None


def read_options(database: CatalogDatabase, table_id: int | None) -> dict[str, str]:
    """Return the options of the lake, and those of a table in their place."""
    rows = database.rows(
        f"SELECT key, value FROM {spec.METADATA} WHERE scope IS NULL "
        f"OR (scope = 'table' AND scope_id = ?) ORDER BY scope IS NOT NULL",
        [table_id],
    )
    return dict(rows)


def table_options(session: LakeSession, name: TableName) -> dict[str, str]:
    """Return the DuckLake options that were set for this table only, as texts."""
    with session.read() as database:
        rows = database.rows(
            f"SELECT key, value FROM {spec.METADATA} WHERE scope = 'table' AND scope_id = ?",
            [find_table(database, name)],
        )
    return dict(rows)


def read_order(database: CatalogDatabase, table_id: int | None) -> tuple[SortKey, ...]:
    """Return the columns by which a table's rows are sorted in its files, up to the first key that is no column."""
    rows = database.rows(
        f"SELECT expression, sort_direction, null_order FROM {spec.SORT_EXPRESSION} JOIN {spec.SORT_INFO} "
        "USING (table_id, sort_id) WHERE table_id = ? AND end_snapshot IS NULL ORDER BY sort_key_index",
        [table_id],
    )
    keys = [
        SortKey(_QUOTED.sub(lambda match: match[1].replace('""', '"'), text), way == "DESC", nulls == "NULLS_FIRST")
        for text, way, nulls in rows
    ]
    known = {column.name.lower() for column in read_columns(database, table_id) if column.parent is None}
    return tuple(takewhile(lambda key: key.column.lower() in known, keys))


def columns_changed_at(session: LakeSession, name: TableName) -> int:
    """Return the snapshot that last changed a table's columns."""
    with session.read() as database:
        (moments,) = database.rows(
            f"SELECT max(begin_snapshot), max(end_snapshot) FROM {spec.COLUMN} WHERE table_id = ?",
            [find_table(database, name)],
        )
    return max(moment or 0 for moment in moments)


def named_since(session: LakeSession, name: TableName, database: CatalogDatabase | None = None) -> int:
    """Return the snapshot that gave this name to the table that has it now.

    Earlier ledger rows are those of a table that was dropped or renamed. 0 if there is no table, or if the catalog's
    tables cannot be used. It is read in the open transaction, or in one of its own when None.
    """
    if session.unknown_specification is not None:
        return 0
    opened = session.read(by_duckdb=session.in_transaction) if database is None else nullcontext(database)
    with opened as catalog:
        ids = catalog.rows(f"SELECT t.table_id, t.schema_id {spec.FROM_LIVE_TABLE}", [name.schema, name.table])
        if not ids:
            return 0
        ((since,),) = catalog.rows(
            # A table may have an entry for each of its changes.
            f"SELECT min(begin_snapshot) FROM {spec.TABLE} "
            "WHERE table_id = ? AND schema_id = ? AND lower(table_name) = lower(?)",
            [*ids[0], name.table],
        )
    return int(since)


def renamed(session: LakeSession, name: TableName) -> list[tuple[TableName, int]]:
    """Return today's tables that had this name before, each with the snapshot that renamed it, the last one first."""
    if session.unknown_specification is not None:
        return []
    with session.read() as database:
        rows = database.rows(
            f"SELECT s.schema_name, t.table_name, o.end_snapshot FROM {spec.TABLE} o "
            f"JOIN {spec.SCHEMA} os ON os.schema_id = o.schema_id JOIN {spec.TABLE} t ON t.table_id = o.table_id "
            f"JOIN {spec.SCHEMA} s ON s.schema_id = t.schema_id WHERE o.end_snapshot IS NOT NULL "
            "AND t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND lower(os.schema_name) = lower(?) "
            "AND lower(o.table_name) = lower(?) ORDER BY o.end_snapshot DESC",
            [name.schema, name.table],
        )
    return [(TableName(schema, table, name.lake), int(end)) for schema, table, end in rows]


def is_unfilled(database: CatalogDatabase, table: TableName, author: str, message: str) -> bool:
    """Return whether a snapshot of this author and message created the table, and it has never had rows.

    Nor has a later snapshot changed its columns or partitioning.
    """
    tables = database.rows(
        f"SELECT t.table_id, t.begin_snapshot {spec.FROM_LIVE_TABLE} "
        f"AND t.table_id NOT IN (SELECT table_id FROM {spec.TABLE_STATS} WHERE next_row_id > 0)",
        [table.schema, table.table],
    )
    if not tables:
        return False
    ((table_id, created),) = tables
    if not database.rows(
        f"SELECT 1 FROM {spec.SNAPSHOT_CHANGES} WHERE snapshot_id = ? AND author = ? AND commit_message = ?",
        [created, author, message],
    ):
        return False
    return not any(
        database.rows(
            f"SELECT 1 FROM {name} WHERE table_id = ? AND (begin_snapshot <> ? OR end_snapshot IS NOT NULL) LIMIT 1",
            [table_id, created],
        )
        for name in (spec.COLUMN, spec.PARTITION_INFO)
    )


# DuckLake's words for what a snapshot did to a table's rows. A merge of files, a rewrite and a flush change no row.
_CHANGES_ROWS = re.compile(
    "inserted_into_table|inlined_insert|tables_inserted_into|deleted_from_table|inlined_delete|tables_deleted_from"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the lake."""

    number: int
    time: dt.datetime
    author: str | None
    message: str | None
    extra_info: str | None
    changes: Sequence[tuple[str, str]]  # DuckLake's word for each, and what it changed, as the id of a table

    @classmethod
    def of(cls, row: Row) -> Self:
        """Return the snapshot of a row by `_SNAPSHOT`."""
        number, time, author, message, extra_info, changes = row
        return cls(number, moment_of(time), author, message, extra_info, _changes(changes))


def moment_of(time: dt.datetime | str) -> dt.datetime:
    """Return a snapshot's time; SQLite has it as a text."""
    return dt.datetime.fromisoformat(time) if isinstance(time, str) else time


_SNAPSHOT = (
    "SELECT s.snapshot_id, s.snapshot_time, c.author, c.commit_message, c.commit_extra_info, c.changes_made "
    f"FROM {spec.SNAPSHOT} s LEFT JOIN {spec.SNAPSHOT_CHANGES} c ON c.snapshot_id = s.snapshot_id"
)


def _changes(text: str | None) -> list[tuple[str, str]]:
    parts = (part.partition(":") for part in (text or "").split(","))
    return [(kind, changed_id) for kind, _, changed_id in parts]


def changes_rows(changes: Sequence[tuple[str, str]], table_id: int) -> bool:
    """Return whether the changes of a snapshot insert or delete rows of a table."""
    return any(changed_id == str(table_id) and _CHANGES_ROWS.fullmatch(kind) for kind, changed_id in changes)


def ask_changes(database: CatalogDatabase, since: int) -> Callable[[], list[Sequence[tuple[str, str]]]]:
    """Ask for the changes of each snapshot after this one, as of `Snapshot`."""
    answer = database.ask(f"SELECT changes_made FROM {spec.SNAPSHOT_CHANGES} WHERE snapshot_id > ?", [since])
    return lambda: [_changes(text) for (text,) in answer()]


def snapshots(database: CatalogDatabase, numbers: Sequence[int]) -> dict[int, Snapshot]:
    """Return those of the snapshots that exist, by number."""
    return {row[0]: Snapshot.of(row) for row in database.rows_among(f"{_SNAPSHOT} WHERE s.snapshot_id IN", numbers)}


def snapshots_of_table(database: CatalogDatabase, table_id: int, newest: int) -> list[Snapshot]:
    """Return the newest snapshots that changed a table, the newest first."""
    # A statement here has no percent sign of its own.
    rows = database.rows(
        f"{_SNAPSHOT} WHERE c.changes_made LIKE ? OR c.changes_made LIKE ? ORDER BY s.snapshot_id DESC LIMIT ?",
        [f"%:{table_id}", f"%:{table_id},%", newest],
    )
    return [Snapshot.of(row) for row in rows]


def snapshots_with_rows(database: CatalogDatabase, table_id: int) -> list[tuple[int, int | None]]:
    """Return the snapshots that changed rows of a table, the newest first, each with the kept one before it."""
    rows = database.rows(
        f"SELECT c.snapshot_id, (SELECT max(s.snapshot_id) FROM {spec.SNAPSHOT} s "
        f"WHERE s.snapshot_id < c.snapshot_id), c.changes_made FROM {spec.SNAPSHOT_CHANGES} c "
        "WHERE c.changes_made LIKE ? OR c.changes_made LIKE ? ORDER BY c.snapshot_id DESC",
        [f"%:{table_id}", f"%:{table_id},%"],
    )
    return [(number, before) for number, before, changes in rows if changes_rows(_changes(changes), table_id)]


def row_states(session: LakeSession, tables: Sequence[TableName]) -> dict[str, str]:
    """Return for each table a text that changes with its rows and columns; empty without it.

    It has the newest snapshot and number of either, of what is live, because snapshots expire. A rewrite of files may
    change it too.
    """
    with session.read() as database:
        ids = {str(name): find_table(database, name) for name in tables}
        return {name: "" if number is None else _row_state(database, number) for name, number in ids.items()}


def _row_state(database: CatalogDatabase, table_id: int) -> str:
    begin, end = database.version.begin_snapshot, database.version.end_snapshot
    live = f"FROM {spec.DATA_FILE} WHERE table_id = {table_id:d} AND end_snapshot IS NULL"
    newest = "coalesce(max(begin_snapshot), 0), coalesce(max(partial_max), 0)"
    found = [
        *database.rows(f"SELECT {newest}, coalesce(sum(record_count), 0) {live}"),
        *database.rows(
            f"SELECT {newest}, coalesce(-sum(delete_count), 0) FROM {spec.DELETE_FILE} "
            f"WHERE table_id = {table_id:d} AND end_snapshot IS NULL"
        ),
    ]
    for name, *_ in database.rows(f"SELECT table_name FROM {spec.INLINED_DATA_TABLES} WHERE table_id = ?", [table_id]):
        sql = f"SELECT coalesce(max({begin}), 0), 0, count(*) FROM {identifier(name)} WHERE {end} IS NULL"
        found += database.rows(sql)
    if database.has_table(deletes := spec.inlined_deletes(table_id)):
        found += database.rows(
            f"SELECT coalesce(max(begin_snapshot), 0), 0, -count(*) FROM {identifier(deletes)} "
            f"WHERE file_id IN (SELECT data_file_id {live})"
        )
    columns = f"FROM {spec.COLUMN} WHERE table_id = {table_id:d} AND end_snapshot IS NULL"
    ((changed, number),) = database.rows(f"SELECT max(begin_snapshot), count(*) {columns}")
    rows = sum(int(row[2]) for row in found)
    return f"{max(max(row[:2]) for row in found)}:{rows}:{changed}:{number}"


def snapshot_span(database: CatalogDatabase) -> tuple[int, int]:
    """Return the oldest and the newest snapshot."""
    ((oldest, newest),) = database.rows(f"SELECT min(snapshot_id), max(snapshot_id) FROM {spec.SNAPSHOT}")
    return int(oldest), int(newest)


def first_kept(database: CatalogDatabase, first: int) -> int | None:
    """Return the least snapshot that exists from `first` on; None if there is none."""
    ((number,),) = database.rows(f"SELECT min(snapshot_id) FROM {spec.SNAPSHOT} WHERE snapshot_id >= ?", [first])
    return None if number is None else int(number)


def last_addition(database: CatalogDatabase, table_id: int, before: int | None) -> int | None:
    """Return the newest snapshot before another one that added a data file to a table; None if there is none."""
    condition, parameters = ("", []) if before is None else (" AND begin_snapshot < ?", [before])
    ((snapshot,),) = database.rows(
        f"SELECT max(begin_snapshot) FROM {spec.DATA_FILE} WHERE table_id = ?{condition}", [table_id, *parameters]
    )
    return None if snapshot is None else int(snapshot)


@dataclass(frozen=True, slots=True)
class ColumnsSince:
    """The columns of a table since a snapshot."""

    changes: int  # of columns, and of parts of nested ones
    columns: int  # now


def columns_since(database: CatalogDatabase, table_id: int, snapshot: int) -> ColumnsSince:
    """Return how many columns of a table have changed since a snapshot, and how many there are."""
    ((changes, columns),) = database.rows(
        "SELECT coalesce(sum(CASE WHEN begin_snapshot > ? OR end_snapshot > ? THEN 1 ELSE 0 END), 0), "
        "sum(CASE WHEN end_snapshot IS NULL AND parent_column IS NULL THEN 1 ELSE 0 END) "
        f"FROM {spec.COLUMN} WHERE table_id = ?",
        [snapshot, snapshot, table_id],
    )
    return ColumnsSince(int(changes), int(columns))
