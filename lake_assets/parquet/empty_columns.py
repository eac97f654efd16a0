"""Columns that have no value in a file: Parquet gives them no type, so it is looked for in other files."""

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types as t


def without_values(schema: pa.Schema) -> list[str]:
    """The columns that have no value in a file, or parts without one: their type is not known from it."""
    return [field.name for field in schema if _has_null(field.type)]


def filled(schema: pa.Schema, others: Iterable[pa.Schema]) -> pa.Schema:
    """The schema with the types that other files of the same table have, where it has no value itself.

    No more of them are looked at than needed.

    A type that is found is taken as it is; whether it fits the values of the others is for the `Fitter` to say.
    """
    others = iter(others)
    while without_values(schema) and (other := next(others, None)) is not None:
        types = {field.name.lower(): field.type for field in other}
        schema = pa.schema([f.with_type(_filled(f.type, types.get(f.name.lower(), f.type))) for f in schema])
    return schema


def with_values(schema: pa.Schema) -> pa.Schema:
    """The schema without the columns that are NULL in all rows; as it is, if there are no others."""
    fields = [field for field in schema if not t.is_null(field.type)]
    return pa.schema(fields) if fields else schema


def _filled(known: pa.DataType, other: pa.DataType) -> pa.DataType:
    if t.is_null(known):
        return other
    if t.is_struct(known) and t.is_struct(other):
        types = {field.name: field.type for field in other}
        return pa.struct([f.with_type(_filled(f.type, types.get(f.name, f.type))) for f in known])
    if t.is_map(known) and t.is_map(other):
        return pa.map_(_filled(known.key_type, other.key_type), _filled(known.item_type, other.item_type))
    if _has_null(known) and is_list(other):
        return pa.list_(_filled(known.value_type, other.value_type))
    return known


def _has_null(data_type: pa.DataType) -> bool:
    if t.is_struct(data_type):
        return any(_has_null(field.type) for field in data_type)
    if t.is_map(data_type):
        return _has_null(data_type.key_type) or _has_null(data_type.item_type)
    if is_list(data_type):
        return _has_null(data_type.value_type)
    return bool(t.is_null(data_type))


def is_list(data_type: pa.DataType) -> bool:
    """Whether values of the type are lists, in any of Arrow's forms."""
    kinds = (t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view)
    return any(is_kind(data_type) for is_kind in kinds)
