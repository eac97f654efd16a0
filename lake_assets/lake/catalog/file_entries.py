"""Entries of data files in the catalog: the mapping of their columns, copies of others, and paths that it has already.

The first file of a table has a new mapping, and so has the first file after its columns have changed. A column, field
or element without a type yet is an INTEGER of DuckLake's until the first value. A copy keeps the facts of its original.
DuckLake deletes the file of an ended path once no snapshot needs it, even if the path was registered again. So a path
is registered only once, in one table.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType
from pyarrow import types as t

from lake_assets.base.duckdb_engine import expressions
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import ORDERED_TYPES, Bounds
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.file_facts import ColumnFacts
from lake_assets.lake.catalog.table import LakeColumn, Table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.schema.arrow_types import is_list
from lake_assets.spark.task.scanned_files import Mappings

_NAMES = {sql: name for name, sql in ORDERED_TYPES.items()} | {"TIMESTAMP WITH TIME ZONE": "timestamptz"}
_COLUMN = (
    "column_id", "begin_snapshot", "table_id", "column_order", "column_name", "column_type", "default_value",
    "nulls_allowed", "parent_column", "default_value_type", "default_value_dialect",
)  # fmt: skip


def untyped_ids(database: CatalogDatabase, table_id: int, columns: Sequence[LakeColumn]) -> frozenset[int]:
    """Return the leaves of a table with rows that are INTEGER, and of which no file has ever had a value."""
    parents = {column.parent for column in columns}
    leaves = {column.column_id for column in columns if column.type == "int32" and column.column_id not in parents}
    rows = database.rows(f"SELECT 1 FROM {spec.TABLE_STATS} WHERE table_id = ? AND next_row_id > 0", [table_id])
    if not leaves or not rows:
        return frozenset()
    for (column_id,) in database.rows(
        f"SELECT column_id FROM {spec.TABLE_COLUMN_STATS} WHERE table_id = ? AND min_value IS NOT NULL", [table_id]
    ):
        leaves.discard(column_id)
    if leaves:
        listed = ", ".join(map(str, leaves))
        with_values = database.rows(
            f"SELECT DISTINCT column_id FROM {spec.FILE_COLUMN_STATS} WHERE table_id = ? AND column_id IN ({listed}) "
            "AND (value_count IS NULL OR value_count <> 0)",
            [table_id],
        )
        leaves -= {column_id for (column_id,) in with_values}
    return frozenset(leaves)


def with_untyped(schema: pa.Schema, columns: Sequence[LakeColumn], ids: frozenset[int]) -> pa.Schema:
    """Return the columns with the type null where they have no type yet."""
    tops = {column.name: column for column in columns if column.parent is None}
    return pa.schema([field.with_type(_with_null(field.type, tops[field.name], columns, ids)) for field in schema])


def _with_null(
    data_type: pa.DataType, column: LakeColumn, columns: Sequence[LakeColumn], ids: frozenset[int]
) -> pa.DataType:
    if column.column_id in ids:
        return pa.null()
    parts = [part for part in columns if part.parent == column.column_id]
    if t.is_struct(data_type):
        return pa.struct(
            [f.with_type(_with_null(f.type, part, columns, ids)) for f, part in zip(data_type, parts, strict=True)]
        )
    if t.is_map(data_type):
        key, value = parts
        item = _with_null(data_type.item_type, value, columns, ids)
        return pa.map_(_with_null(data_type.key_type, key, columns, ids), item)
    return pa.list_(_with_null(data_type.value_type, parts[0], columns, ids)) if is_list(data_type) else data_type


def give_types(transaction: Transaction, table: Table, types: Mapping[int, str]) -> None:
    """Give untyped columns their types, by their ids, in a new state of the table's columns.

    Raises NotDirectError if DuckLake has another name for one of the types.
    """
    database, snapshot = transaction.database, transaction.snapshot_id
    ((most,),) = database.rows(f"SELECT max(column_id) FROM {spec.COLUMN} WHERE table_id = ?", [table.table_id])
    rows: list[Row] = []

    def add(column_id: int, kept: Row, kind: DuckDBPyType) -> None:
        nonlocal most
        order, name, default, nullable, parent, default_type, dialect = kept
        rows.append(
            (column_id, snapshot, table.table_id, order, name, _name(kind), default, nullable, parent, default_type,
             dialect)
        )  # fmt: skip
        for name, child in kind.children if kind.id in {"list", "struct", "map"} else ():
            if isinstance(child, DuckDBPyType):
                most += 1
                part = "element" if kind.id == "list" else name
                add(most, (most, part, default, True, column_id, default_type, dialect), child)

    for column_id, sql in types.items():
        kept = database.rows(
            f"SELECT {', '.join(_COLUMN[3:5])}, {', '.join(_COLUMN[6:])} FROM {spec.COLUMN} "
            "WHERE table_id = ? AND column_id = ? AND end_snapshot IS NULL",
            [table.table_id, column_id],
        )
        if table.columns[column_id].parent is None:  # as a new column: DuckLake makes no map of the NULLs of a file
            most += 1
        add(
            most if table.columns[column_id].parent is None else column_id,
            kept[0],
            expressions().sql(f"SELECT NULL::{sql}").types[0],
        )
        database.execute(
            f"UPDATE {spec.COLUMN} SET end_snapshot = ? WHERE table_id = ? AND column_id = ? AND end_snapshot IS NULL",
            [snapshot, table.table_id, column_id],
        )
    database.insert(spec.COLUMN, _COLUMN, rows)
    transaction.alter(table)


def _name(kind: DuckDBPyType) -> str:
    if kind.id in {"list", "struct", "map"}:
        return str(kind.id)
    if kind.id == "decimal":
        return str(kind).lower()
    if str(kind) not in _NAMES:
        raise NotDirectError(f"DuckLake's name of {kind} is not known")
    return _NAMES[str(kind)]


Folders = frozenset[tuple[str, str]]
"""Partition columns, in lower case, each with the name of the path's folder that holds its value."""


def ensure_mapping(transaction: Transaction, table: Table, from_path: Collection[int], folders: Folders) -> int:
    """Return the id of the mapping for files that have exactly the table's columns, except those read from the path.

    The transaction gets a new one if there is none. `from_path` has the ids of the columns that are read from the path,
    and `folders` those of them whose folder has another name than the column.
    """
    expected = {
        (column.column_id, _source_name(table, column, folders), column.parent, column.column_id in from_path)
        for column in table.columns.values()
    }
    if (known_id := _fitting(transaction.mappings.get(table.table_id, {}), expected)) is not None:
        return known_id
    if (known_id := _fitting(transaction.read_mappings(table), expected)) is not None:
        return known_id
    mapping_id = transaction.new_file_id()  # the extension numbers mappings and files together
    numbers: dict[int | None, int | None] = {None: None}
    rows: list[Row] = []
    for number, column in enumerate(_parents_first(table, None)):
        numbers[column.column_id] = number
        name, is_partition = _source_name(table, column, folders), column.column_id in from_path
        rows.append((mapping_id, number, name, column.column_id, numbers[column.parent], is_partition))
    database = transaction.database
    database.insert(
        spec.COLUMN_MAPPING, ("mapping_id", "table_id", "type"), [(mapping_id, table.table_id, "map_by_name")]
    )
    database.insert(
        spec.NAME_MAPPING,
        ("mapping_id", "column_id", "source_name", "target_field_id", "parent_column", "is_partition"),
        rows,
    )
    known = transaction.mappings.get(table.table_id, {})
    transaction.mappings[table.table_id] = {**known, mapping_id: [(*entry,) for _, *entry in rows]}
    return mapping_id


def _fitting(mappings: Mappings, expected: Collection[tuple[int, str, int | None, bool]]) -> int | None:
    """Return the id of the mapping of these columns: of each the id, the name in the file, the parent, and its kind."""
    for mapping_id, entries in mappings.items():
        targets = {number: target for number, _, target, *_ in entries}
        if expected == {
            (target, source, None if parent is None else targets.get(parent), bool(in_path))
            for _, source, target, parent, in_path in entries
        }:
            return mapping_id
    return None


def _source_name(table: Table, column: LakeColumn, folders: Folders) -> str:
    """Return the name of a file's column, or of a path's folder, in DuckLake's mappings."""
    if column.parent is None:
        return dict(folders).get(column.name.lower(), column.name)
    return "list" if table.columns[column.parent].type == "list" else column.name


def _parents_first(table: Table, parent: int | None) -> Iterator[LakeColumn]:
    """Yield the columns, each before its parts."""
    for column in table.columns.values():
        if column.parent == parent:
            yield column
            yield from _parents_first(table, column.column_id)


def add_copies(transaction: Transaction, table: Table, copies: Mapping[int, str]) -> int | None:
    """Add copies of data files, URIs by the ids of their originals, with these' partition, mapping and statistics.

    So readers find the columns in a copy as in its original, also those that were added, widened or renamed since.
    Returns the number of rows; None if the catalog no longer has one of the originals. Raises NotDirectError if a file
    has rows of several snapshots, row ids of its own, or its own key.
    """
    database = transaction.database
    names = database.columns(spec.DATA_FILE)
    files = {file["data_file_id"]: file for file in _entries(database, spec.DATA_FILE, names, list(copies))}
    if set(files) != set(copies):
        return None
    for file in files.values():
        if file["partial_max"] is not None or file["row_id_start"] is None or file["encryption_key"] is not None:
            raise NotDirectError(f"the file {file['path']} cannot be copied as it is")
    rows: int = sum(file["record_count"] for file in files.values())
    row_id = transaction.grow(table, rows, sum(file["file_size_bytes"] for file in files.values()))
    new_ids: dict[int, int] = {}
    entries: list[Row] = []
    for file_id, uri in copies.items():
        file = files[file_id]
        new_ids[file_id] = transaction.new_file_id()
        changed = {
            "data_file_id": new_ids[file_id],
            "begin_snapshot": transaction.snapshot_id,
            "end_snapshot": None,
            "path": uri.removeprefix(table.folder),
            "path_is_relative": uri.startswith(table.folder),
            "row_id_start": row_id,
        }
        row_id += file["record_count"]
        entries.append(tuple((file | changed)[name] for name in names))
    database.insert(spec.DATA_FILE, names, entries)
    for name in (spec.FILE_PARTITION_VALUE, spec.FILE_COLUMN_STATS):
        columns = database.columns(name)
        copied = _entries(database, name, columns, list(copies))
        if name == spec.FILE_COLUMN_STATS:
            copied = [entry for entry in copied if entry["column_id"] in table.columns]
            transaction.widen(table, _facts(table, copied, len(copies)), is_first=False)
        rows_of = [tuple((e | {"data_file_id": new_ids[e["data_file_id"]]})[c] for c in columns) for e in copied]
        if rows_of:
            database.insert(name, columns, rows_of)
    transaction.note("inserted_into_table", table)
    return rows


def _entries(
    database: CatalogDatabase, name: str, columns: Sequence[str], file_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the rows of one of the catalog's tables about these files."""
    rows = database.rows_among(f"SELECT {', '.join(columns)} FROM {name} WHERE data_file_id IN", file_ids)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _facts(table: Table, entries: Sequence[Mapping[str, Any]], files: int) -> dict[int, list[ColumnFacts]]:
    """Return the facts of the columns that hold values; unknown ones for a file without an entry of the column."""
    facts: dict[int, list[ColumnFacts]] = {column.column_id: [] for column in table.leaves.values()}
    for entry in entries:
        if entry["column_id"] in facts:
            bounds = Bounds(entry["min_value"], entry["max_value"])
            facts[entry["column_id"]].append(
                ColumnFacts(entry["column_size_bytes"] or 0, entry["value_count"], entry["null_count"], bounds)
            )
    unknown = ColumnFacts(0, None, None, Bounds(None, None))
    return {column_id: of_column + [unknown] * (files - len(of_column)) for column_id, of_column in facts.items()}


PathState = Literal["live", "ended", "elsewhere"]
"""The state of a registered path: live in this table, ended in all tables, or live in another table."""


def registered_before(
    database: CatalogDatabase, table_id: int, folder: str, uris: Sequence[str]
) -> dict[str, PathState]:
    """Return the states of those of the files that the catalog has.

    `folder` is the URI of the table's folder, ending in a slash; the paths of files in it are relative.
    """
    states: dict[str, PathState] = {}
    names = {uri: uri for uri in uris} | {u.removeprefix(folder): u for u in uris if u.startswith(folder)}
    for path, owner, end, is_relative in database.rows_among(
        f"SELECT path, table_id, end_snapshot, path_is_relative FROM {spec.DATA_FILE} WHERE path IN", list(names)
    ):
        if is_relative and owner != table_id:
            continue  # another table's file of the same name
        state: PathState = "ended" if end is not None else "live" if owner == table_id else "elsewhere"
        if states.get(names[path], "ended") == "ended":
            states[names[path]] = state
    scheduled = f"SELECT path FROM {spec.FILES_SCHEDULED_FOR_DELETION} WHERE path IN"
    for (path,) in database.rows_among(scheduled, list(names)):
        states.setdefault(names[path], "ended")
    return states


def live_file_ids(database: CatalogDatabase, table: Table, uris: Sequence[str]) -> dict[str, int]:
    """Return the ids of those of the files that are live in the table."""
    names = {uri.removeprefix(table.folder): uri for uri in uris}
    live = f"SELECT path, data_file_id, table_id FROM {spec.DATA_FILE} WHERE end_snapshot IS NULL AND path IN"
    rows = database.rows_among(live, list(names))
    return {names[path]: file_id for path, file_id, owner in rows if owner == table.table_id}
