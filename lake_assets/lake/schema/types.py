"""Which DuckLake type a column gets, by the Arrow type that its Parquet file has.

The table of `SIMPLE` is the whole of it, with lists, structs, maps and dictionaries of those. Where Parquet can hold
more than DuckLake, the nearest type that loses nothing is taken; where there is none, the column is refused by name.

| Arrow (Parquet)                     | DuckLake                                                      |
|-------------------------------------|---------------------------------------------------------------|
| bool, bool8                         | BOOLEAN, TINYINT                                              |
| int8 … int64, uint8 … uint64        | TINYINT … BIGINT, UTINYINT … UBIGINT                          |
| float16, float32, float64           | FLOAT, FLOAT, DOUBLE                                          |
| decimal(p, s), p ≤ 38               | DECIMAL(p, s)                                                 |
| string, large, view, JSON           | VARCHAR                                                       |
| binary, large, view, fixed size     | BLOB                                                          |
| UUID                                | UUID                                                          |
| date32, date64                      | DATE                                                          |
| time32, time64                      | TIME (µs)                                                     |
| timestamp[s, ms, us]                | TIMESTAMP (µs)                                                |
| timestamp[ns]                       | TIMESTAMP_NS                                                  |
| INT96 (read as timestamp[us])       | TIMESTAMP (µs; in mode index refused)                         |
| timestamp with a zone               | TIMESTAMPTZ (µs, the instant; nanoseconds are refused at read) |
| list, large, view, fixed size       | LIST                                                          |
| struct, map                         | STRUCT, MAP                                                   |
| dictionary                          | its values' type                                              |
| null (a column that is always NULL) | that of another object, else INTEGER, as DuckDB reads it       |
| decimal256, duration, interval      | refused                                                       |
"""

from collections.abc import Sequence

import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType
from pyarrow import types as t

from lake_assets.duckdb_engine import identifier
from lake_assets.errors import SchemaError
from lake_assets.layout.partition import PartitionType
from lake_assets.parquet.leaves import is_list

PARTITION_TYPES: dict[PartitionType, str] = {
    "string": "VARCHAR",
    "integer": "BIGINT",
    "year": "BIGINT",
    "month": "VARCHAR",
    "date": "DATE",
    "hour": "VARCHAR",
}

SIMPLE: dict[pa.DataType, str] = {
    pa.null(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.string_view(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.binary_view(): "BLOB",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.time32("s"): "TIME",
    pa.time32("ms"): "TIME",
    pa.time64("us"): "TIME",
    pa.time64("ns"): "TIME",
    pa.timestamp("s"): "TIMESTAMP",
    pa.timestamp("ms"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.uuid(): "UUID",
    pa.json_(): "VARCHAR",
    pa.bool8(): "TINYINT",
}

_RENAME = "rename one where it is written, or in a transform."


def sql_type(data_type: pa.DataType, column: str) -> str:
    """The DuckLake type for an Arrow type.

    Args:
        data_type: the type as pyarrow reads it from the file.
        column: the column's name, for the error.

    Raises:
        SchemaError: DuckLake has no type that holds all of its values.
    """
    if data_type in SIMPLE:
        return SIMPLE[data_type]
    if t.is_timestamp(data_type):  # those without a zone are in the table
        return "TIMESTAMPTZ"
    if t.is_decimal(data_type) and data_type.precision <= 38 and data_type.scale >= 0:
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if t.is_fixed_size_binary(data_type):
        return "BLOB"
    if t.is_dictionary(data_type):
        return sql_type(data_type.value_type, column)
    if t.is_map(data_type):
        return f"MAP({sql_type(data_type.key_type, column)}, {sql_type(data_type.item_type, column)})"
    if t.is_struct(data_type):
        fields = ", ".join(f"{identifier(f.name)} {sql_type(f.type, column)}" for f in data_type)
        return f"STRUCT({fields})"
    if is_list(data_type):
        return f"{sql_type(data_type.value_type, column)}[]"
    raise SchemaError(
        f"column {column!r} has the type {data_type}, which DuckLake cannot hold:",
        "cast it to another type in a transform.",
    )


def check_columns(schema: pa.Schema, origin: str) -> None:
    """Refuse names that cannot be columns, or fields of structs.

    Args:
        schema: a file's or a result's schema.
        origin: where it comes from, for the error.

    Raises:
        SchemaError: a name is empty or has a zero byte, or two differ only in the case of their letters.
    """
    _check_names(list(schema), f"{origin} has", "column")


def _check_names(fields: Sequence[pa.Field], where: str, kind: str) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        name = field.name
        if not name or "\0" in name:
            raise SchemaError(f"{where} a {kind} of the name {name!r}, which SQL cannot have:", _RENAME)
        if name.lower() in seen:
            raise SchemaError(
                f"{where} the {kind}s {seen[name.lower()]!r} and {name!r}, which SQL cannot tell apart:", _RENAME
            )
        seen[name.lower()] = name
        if structs := _structs(field.type):
            for struct in structs:
                _check_names(struct, f"{where} in its {kind} {name!r}", "field")


def _structs(data_type: pa.DataType) -> list[list[pa.Field]]:
    """The fields of the structs that a type begins with, through lists and maps."""
    if t.is_struct(data_type):
        return [list(data_type)]
    if t.is_map(data_type):
        return [*_structs(data_type.key_type), *_structs(data_type.item_type)]
    return _structs(data_type.value_type) if is_list(data_type) else []


_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "UUID": pa.uuid(),
}


PARTITION_ARROW_TYPES: dict[PartitionType, pa.DataType] = {name: _ARROW[sql] for name, sql in PARTITION_TYPES.items()}


def is_read_as(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a file's column that widens to a table's may be registered as it is: DuckLake casts it at each read.

    What DuckLake 1.0 refuses, or would read to the microsecond only, is not.

    Args:
        source: the type in the file.
        target: the table's, as `arrow_type` gives it; `widens(source, target)` holds.
    """
    if t.is_null(source):
        return target in (pa.int32(), pa.int64())
    if t.is_dictionary(source):
        return is_read_as(source.value_type, target)
    if isinstance(source, pa.BaseExtensionType):
        return bool(source.equals(target))
    if t.is_float16(source) or t.is_time(source):
        return bool(source.equals(target))
    if t.is_timestamp(source):
        return bool(source.unit != "ns" or (target.unit == "ns" and target.tz is None))
    if t.is_map(source):
        return is_read_as(source.key_type, target.key_type) and is_read_as(source.item_type, target.item_type)
    if t.is_struct(source):
        return all(is_read_as(source.field(field.name).type, field.type) for field in target)
    if is_list(source):
        return is_read_as(source.value_type, target.value_type)
    return True


def arrow_type(sql: DuckDBPyType, column: str) -> pa.DataType:
    """The Arrow type that a file must have to be registered for a column of this type: the way back of `sql_type`.

    Raises:
        SchemaError: no Parquet file of pyarrow's can be registered for it (HUGEINT, INTERVAL, TIMETZ, VARIANT, …).
    """
    if sql.id in {"list", "struct", "map"}:
        children = [
            (name, arrow_type(child, column)) for name, child in sql.children if isinstance(child, DuckDBPyType)
        ]
        if sql.id == "list":
            return pa.list_(children[0][1])
        if sql.id == "map":
            return pa.map_(children[0][1], children[1][1])
        return pa.struct(children)
    if sql.id == "decimal":
        (_, precision), (_, scale) = sql.children
        return pa.decimal128(precision, scale)
    if str(sql) in _ARROW:
        return _ARROW[str(sql)]
    raise SchemaError(
        f"column {column!r} of the table has the type {sql}, for which no Parquet file can be registered:",
        "change the column's type, or fill this table by other means.",
    )
