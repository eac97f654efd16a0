"""Columns, fields and elements without a type yet: DuckLake has them as INTEGER until the first value."""

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType
from pyarrow import types as t

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import ORDERED_TYPES
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.table import LakeColumn, Table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.schema.leaves import is_list

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


def give_types(
    transaction: Transaction, engine: duckdb.DuckDBPyConnection, table: Table, types: Mapping[int, str]
) -> None:
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
            engine.sql(f"SELECT NULL::{sql}").types[0],
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
