"""Columns without values in a file. Parquet has no type for them, so it is taken from other files."""

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types as t

from lake_assets.parquet.leaves import is_list, joined, joined_columns, leaf_types, plain


def without_values(schema: pa.Schema) -> list[str]:
    """Return the columns without values in a file, or with parts without values, so that their type is not known."""
    return [field.name for field in schema if _has_null(field.type)]


def filled(schema: pa.Schema, others: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema with types of other files' schemas for columns without values; reads as few schemas as needed.

    The first type is taken. The `Fitter` checks whether it fits the values of the other files.
    """
    others = iter(others)
    while without_values(schema) and (other := next(others, None)) is not None:
        schema = joined_columns(schema, other, lambda own, given: given if t.is_null(own) else own)
    return schema


def with_values(schema: pa.Schema) -> pa.Schema:
    """Return the schema without columns, and fields of structs, that are NULL in all rows, if there are others."""
    fields = [field.with_type(typed(field.type)) for field in schema if not t.is_null(field.type)]
    return pa.schema(fields) if fields else schema


def typed(data_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries and fields of structs that are NULL in all rows, also in its parts.

    A struct keeps some field.
    """
    if t.is_struct(data_type):
        fields = [field.with_type(typed(field.type)) for field in data_type if not t.is_null(field.type)]
        return pa.struct(fields) if fields else data_type
    if t.is_map(data_type):
        return pa.map_(typed(data_type.key_type), typed(data_type.item_type))
    return pa.list_(typed(data_type.value_type)) if is_list(data_type) else plain(data_type)


def emptied(own: pa.DataType, landed: pa.DataType) -> pa.DataType:
    """Return a column's own type, with the type null for the parts that have none where it landed."""
    return joined(own, landed, lambda own, landed: landed if t.is_null(landed) else own)


def stored(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a data file: a column, or a part of it, without a type yet is INTEGER there."""
    if not without_values(schema):
        return schema
    return joined_columns(schema, schema, lambda own, _: pa.int32() if t.is_null(own) else own)


def as_landed(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values of a stored type as the type that they had, in which parts without values are of the type null."""
    if t.is_null(data_type):
        return pa.nulls(len(values))
    return pa.array(values.to_pylist(), data_type) if _has_null(data_type) else values


def _has_null(data_type: pa.DataType) -> bool:
    return any(map(t.is_null, leaf_types(data_type)))
