"""The leaves of Arrow's nested types: the parts that Parquet stores as columns."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

FIRST_NANOSECOND = -9_223_286_400_000_000_000
"""The first nanosecond since 1970 of DuckDB's TIMESTAMP_NS; 64 bits begin half a day earlier."""


class First(NamedTuple):
    """The first value of a time type of DuckDB."""

    name: str  # of the type
    first: str
    value: int  # as it is stored
    infinity: int | None  # the value before the first that means minus infinity
    hint: str = ""  # a further way to fix an earlier value


_FIRSTS = {
    "ns": First("TIMESTAMP_NS", "1677-09-22", FIRST_NANOSECOND, None, ", or land the column in microseconds"),
    "us": First("TIMESTAMP", "290309-12-22 (BC)", -9_223_372_022_400_000_000, -(2**63) + 1),
    "day": First("DATE", "5877642-06-25 (BC)", -(2**31) + 2, -(2**31) + 1),
}


def _first(data_type: pa.DataType) -> First | None:
    return _FIRSTS.get(data_type.unit if t.is_timestamp(data_type) else "day" if t.is_date32(data_type) else "")


def has_first(data_type: pa.DataType) -> bool:
    """Whether a type, or a part of it, has early values that DuckDB cannot read."""
    return any(_first(leaf) is not None for leaf in leaf_types(data_type))


def too_early(leaf: pa.Array) -> First | None:
    """The first value that DuckDB can read, if one of the values is earlier; else None."""
    first = _first(leaf.type)
    if first is None:
        return None
    stored = leaf.view(pa.int32() if t.is_date32(leaf.type) else pa.int64())
    early = pc.less(stored, first.value)
    if first.infinity is not None:
        early = pc.and_(early, pc.not_equal(stored, first.infinity))
    return first if pc.any(early).as_py() else None


def leaves(array: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """The leaf arrays of an array, in Parquet's order."""
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            yield from leaves(chunk)
    elif isinstance(array, pa.ExtensionArray):
        yield from leaves(array.storage)
    elif t.is_struct(array.type):
        for part in array.flatten():
            yield from leaves(part)
    elif t.is_map(array.type):
        yield from leaves(array.keys)
        yield from leaves(array.items)
    elif t.is_nested(array.type):
        yield from leaves(array.flatten())
    else:
        yield array


def leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the leaves of a type, in Parquet's order."""
    if isinstance(data_type, pa.BaseExtensionType):
        yield from leaf_types(data_type.storage_type)
    elif t.is_nested(data_type):
        for index in range(data_type.num_fields):
            yield from leaf_types(data_type.field(index).type)
    else:
        yield data_type


def is_list(data_type: pa.DataType) -> bool:
    """Whether values of the type are lists, in any of Arrow's forms."""
    kinds = (t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view)
    return any(is_kind(data_type) for is_kind in kinds)


def width(data_type: pa.DataType) -> int:
    """The number of Parquet columns of an Arrow column."""
    return sum(1 for _ in leaf_types(data_type))


def has_nanoseconds(data_type: pa.DataType) -> bool:
    """Whether a type, or a part of it, is a timestamp in nanoseconds."""
    return any(t.is_timestamp(leaf) and leaf.unit == "ns" for leaf in leaf_types(data_type))


def plain(data_type: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary; any other type as it is."""
    return data_type.value_type if t.is_dictionary(data_type) else data_type


def decoded(values: pa.Array) -> pa.Array:
    """The values without a dictionary."""
    return values.dictionary_decode() if t.is_dictionary(values.type) else values


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows; Arrow's own `empty_table` fails where a list or struct holds UUIDs or JSON."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def filterable(rows: Rows) -> Rows:
    """The rows without views of texts and bytes, which Arrow cannot filter or cast to numbers and dates."""
    fields = [field.with_type(_without_views(field.type)) for field in rows.schema]
    schema = pa.schema(fields, rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """The type with plain texts and bytes instead of views, also in its parts."""
    if t.is_struct(data_type):
        return pa.struct([field.with_type(_without_views(field.type)) for field in data_type])
    if t.is_map(data_type):
        return pa.map_(_without_views(data_type.key_type), _without_views(data_type.item_type))
    if t.is_dictionary(data_type):
        return pa.dictionary(data_type.index_type, _without_views(data_type.value_type), data_type.ordered)
    for is_kind, list_of in ((t.is_list, pa.list_), (t.is_large_list, pa.large_list)):
        if is_kind(data_type):
            return list_of(data_type.value_field.with_type(_without_views(data_type.value_type)))
    return _PLAIN.get(data_type, data_type)
