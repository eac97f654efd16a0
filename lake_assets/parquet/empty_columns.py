"""Columns without values in a file. Parquet has no type for them, so it is taken from other files."""

from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa
from pyarrow import types as t

from lake_assets.parquet.leaves import is_list, leaf_types, plain


def without_values(schema: pa.Schema) -> list[str]:
    """Return the columns without values in a file, or with parts without values, so that their type is not known."""
    return [field.name for field in schema if _has_null(field.type)]


def filled(schema: pa.Schema, others: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema with types of other files' schemas for columns without values; reads as few schemas as needed.

    The first type is taken. The `Fitter` checks whether it fits the values of the other files.
    """
    others, fill = iter(others), partial(_joined, takes=lambda own, _: bool(t.is_null(own)))
    while without_values(schema) and (other := next(others, None)) is not None:
        types = {field.name.lower(): field.type for field in other}
        schema = pa.schema([f.with_type(fill(f.type, types.get(f.name.lower(), f.type))) for f in schema])
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
    return _joined(own, landed, lambda _, other: bool(t.is_null(other)))


def stored(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a data file: a column, or a part of it, without a type yet is INTEGER there."""
    return schema if not without_values(schema) else pa.schema([f.with_type(_stored(f.type)) for f in schema])


def as_landed(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values of a stored type as the type that they had, in which parts without values are of the type null."""
    if t.is_null(data_type):
        return pa.nulls(len(values))
    return pa.array(values.to_pylist(), data_type) if _has_null(data_type) else values


def _stored(data_type: pa.DataType) -> pa.DataType:
    if t.is_struct(data_type):
        return pa.struct([field.with_type(_stored(field.type)) for field in data_type])
    if t.is_map(data_type):
        return pa.map_(_stored(data_type.key_type), _stored(data_type.item_type))
    if is_list(data_type):
        return pa.list_(_stored(data_type.value_type)) if _has_null(data_type) else data_type
    return pa.int32() if t.is_null(data_type) else data_type


def _joined(own: pa.DataType, other: pa.DataType, takes: Callable[[pa.DataType, pa.DataType], bool]) -> pa.DataType:
    """Return a type with those parts of another one that `takes` says of both."""
    join = partial(_joined, takes=takes)
    if takes(own, other):
        return other
    if t.is_struct(own) and t.is_struct(other):
        types = {field.name.lower(): field.type for field in other}
        return pa.struct([f.with_type(join(f.type, types.get(f.name.lower(), f.type))) for f in own])
    if t.is_map(own) and t.is_map(other):
        return pa.map_(join(own.key_type, other.key_type), join(own.item_type, other.item_type))
    if is_list(own) and is_list(other) and (_has_null(own) or _has_null(other)):
        return pa.list_(join(own.value_type, other.value_type))
    return own


def _has_null(data_type: pa.DataType) -> bool:
    return any(map(t.is_null, leaf_types(data_type)))
