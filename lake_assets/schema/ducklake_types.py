"""The DuckLake type of a column, by the Arrow type of its Parquet file.

If Parquet has a type that DuckLake lacks, the column gets the nearest type that holds all values. If there is none, the
column is refused by name. Lists, structs, maps and dictionaries are mapped by the types in them.

The names in brackets are what writers call a type whose file has the one before them.

| Arrow (Parquet)                                                           | DuckLake                                 |
|---------------------------------------------------------------------------|------------------------------------------|
| bool, bool8                                                               | BOOLEAN, TINYINT                         |
| int8 … int64, uint8 … uint64 (Spark's INTERVALs)                          | TINYINT … BIGINT, UTINYINT … UBIGINT     |
| float16, float32, float64 (DuckDB's HUGEINT, UHUGEINT)                    | FLOAT, FLOAT, DOUBLE                     |
| decimal32, 64, 128, 256, of at most 38 digits                             | DECIMAL(p, s)                            |
| string, large, view, JSON, ENUM (DuckDB's BIT, BIGNUM, TIME_NS; CHAR)     | VARCHAR                                  |
| binary, large, view, fixed size                                           | BLOB                                     |
| UUID                                                                      | UUID                                     |
| date32, date64                                                            | DATE                                     |
| time32, time64, of a day: 00:00 to before 24:00                           | TIME (µs)                                |
| timestamp[s, ms, us] (DuckDB's TIMESTAMP_S, TIMESTAMP_MS)                 | TIMESTAMP (µs)                           |
| timestamp[ns]                                                             | TIMESTAMP_NS                             |
| INT96 (read as timestamp[us])                                             | TIMESTAMP (µs; in mode index refused)    |
| timestamp with a zone                                                     | TIMESTAMPTZ (µs, the instant)            |
| list, large, view, fixed size (DuckDB's ARRAY)                            | LIST                                     |
| struct, map                                                               | STRUCT, MAP                              |
| dictionary                                                                | its values' type                         |
| null (a column that is always NULL)                                       | that of another object, else INTEGER     |
| a struct with a field without a name (DuckDB's UNION)                     | refused                                  |
| decimals of more digits, 128-bit integers, durations, other extensions    | refused                                  |
| what `schema/annotations` refuses, such as INTERVAL and VARIANT           | refused                                  |
"""

from collections.abc import Sequence

import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType
from pyarrow import types as t

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import SchemaError
from lake_assets.config.layout.partition import PartitionType
from lake_assets.schema.arrow_types import is_list, shown_type
from lake_assets.schema.misfits import LAND_AS_ANOTHER

PARTITION_TYPES: dict[PartitionType, str] = {
    "string": "VARCHAR",
    "integer": "BIGINT",
    "year": "BIGINT",
    "month": "VARCHAR",
    "week": "VARCHAR",
    "date": "DATE",
    "hour": "VARCHAR",
}

_ARROW_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "BOOLEAN": (pa.bool_(),),
    "TINYINT": (pa.int8(), pa.bool8()),
    "SMALLINT": (pa.int16(),),
    "INTEGER": (pa.int32(), pa.null()),
    "BIGINT": (pa.int64(),),
    "UTINYINT": (pa.uint8(),),
    "USMALLINT": (pa.uint16(),),
    "UINTEGER": (pa.uint32(),),
    "UBIGINT": (pa.uint64(),),
    "FLOAT": (pa.float32(), pa.float16()),
    "DOUBLE": (pa.float64(),),
    "VARCHAR": (pa.string(), pa.large_string(), pa.string_view(), pa.json_()),
    "BLOB": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "DATE": (pa.date32(), pa.date64()),
    "TIME": (pa.time64("us"), pa.time64("ns"), pa.time32("s"), pa.time32("ms")),
    "TIMESTAMP": (pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ms")),
    "TIMESTAMP_NS": (pa.timestamp("ns"),),
    "UUID": (pa.uuid(),),
}
"""The Arrow types whose values a DuckLake type holds; the lake's own files have the first one."""

SIMPLE: dict[pa.DataType, str] = {arrow: sql for sql, arrows in _ARROW_TYPES.items() for arrow in arrows}

# With the types of columns that others have created.
_ARROW: dict[str, pa.DataType] = {sql: arrows[0] for sql, arrows in _ARROW_TYPES.items()} | {
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}

PARTITION_ARROW_TYPES: dict[PartitionType, pa.DataType] = {name: _ARROW[sql] for name, sql in PARTITION_TYPES.items()}

_RENAME = "rename one where it is written."  # a transform cannot tell them apart either


def sql_type(data_type: pa.DataType, column: str) -> str:
    """Return the DuckLake type for the Arrow type of a file's column; errors name the column.

    Raises SchemaError without a type that holds all of its values.
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
        f"column {column!r} has the type {shown_type(data_type)}, which DuckLake cannot hold:", LAND_AS_ANOTHER
    )


def check_columns(schema: pa.Schema, origin: str) -> None:
    """Refuse invalid names of columns and of fields of structs; errors name the origin of the schema.

    Such a name is empty or has a zero byte, or differs from another only in the case of its letters.
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
    """Return the fields of the outermost structs of a type, also within lists and maps."""
    if t.is_struct(data_type):
        return [list(data_type)]
    if t.is_map(data_type):
        return [*_structs(data_type.key_type), *_structs(data_type.item_type)]
    return _structs(data_type.value_type) if is_list(data_type) else []


def is_read_as(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether DuckLake reads a file's column as the table's type without loss, by a cast at each read.

    DuckLake 1.0 refuses some casts, and reads some types only to the microsecond. For the table's type, as
    `data_file_type` gives it, `widens(source, target)` holds.
    """
    if t.is_null(source):
        return True  # a nested column is left out of the file's mapping
    if t.is_dictionary(source):
        return is_read_as(source.value_type, target)
    if source == pa.bool8():  # but not JSON: DuckLake's extension refuses such a file for a VARCHAR
        return is_read_as(source.storage_type, target)
    if isinstance(source, pa.BaseExtensionType):
        return bool(source.equals(target))
    if t.is_floating(source) or t.is_time(source):
        # DuckDB compares a FLOAT in a file with a DOUBLE of a condition in single precision, and misses rows.
        return bool(source.equals(target))
    if t.is_timestamp(source):
        return bool(source.unit != "ns" or (target.unit == "ns" and target.tz is None))
    if t.is_map(source):
        return is_read_as(source.key_type, target.key_type) and _is_part_read_as(source.item_type, target.item_type)
    if t.is_struct(source):
        # DuckLake finds the fields of a struct by their exact names.
        types = {field.name: field.type for field in source}
        return all(field.name in types and is_read_as(types[field.name], field.type) for field in target)
    return _is_part_read_as(source.value_type, target.value_type) if is_list(source) else True


def _is_part_read_as(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether DuckLake reads elements as the table's; a mapping can leave out no elements."""
    return is_read_as(source, target) and not (t.is_null(source) and t.is_nested(target))


def data_file_type(sql: DuckDBPyType, column: str) -> pa.DataType:
    """Return the Arrow type that a file must have to be registered for this column type; the inverse of `sql_type`.

    Raises SchemaError if no Parquet file of pyarrow can be registered for it (HUGEINT, INTERVAL, TIMETZ, VARIANT, …).
    """
    if sql.id in {"list", "struct", "map"}:
        children = [
            (name, data_file_type(child, column)) for name, child in sql.children if isinstance(child, DuckDBPyType)
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
        "change the column's type.",
    )
