"""The parts of Arrow's nested types that have no parts themselves: as Parquet stores them."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

FIRST_NANOSECOND = -9_223_286_400_000_000_000
"""The least nanosecond since 1970 that DuckDB's TIMESTAMP_NS has; 64 bits begin half a day earlier."""


class First(NamedTuple):
    """The first time of a type of DuckDB's."""

    name: str  # of the type
    first: str
    value: int  # as it is stored
    endless: int | None  # what means minus infinity, before the first
    way_out: str = ""


_FIRSTS = {
    "ns": First("TIMESTAMP_NS", "1677-09-22", FIRST_NANOSECOND, None, ", or land the column in microseconds"),
    "us": First("TIMESTAMP", "290309-12-22 (BC)", -9_223_372_022_400_000_000, -(2**63) + 1),
    "day": First("DATE", "5877642-06-25 (BC)", -(2**31) + 2, -(2**31) + 1),
}


def _first(data_type: pa.DataType) -> First | None:
    return _FIRSTS.get(data_type.unit if t.is_timestamp(data_type) else "day" if t.is_date32(data_type) else "")


def has_first(data_type: pa.DataType) -> bool:
    """Whether a type is one, or has one in it, whose first values DuckDB cannot read."""
    return any(_first(leaf) is not None for leaf in leaf_types(data_type))


def too_early(leaf: pa.Array) -> First | None:
    """What DuckDB can read at first, if one of the values comes before."""
    first = _first(leaf.type)
    if first is None:
        return None
    stored = leaf.view(pa.int32() if t.is_date32(leaf.type) else pa.int64())
    early = pc.less(stored, first.value)
    if first.endless is not None:
        early = pc.and_(early, pc.not_equal(stored, first.endless))
    return first if pc.any(early).as_py() else None


def leaves(array: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """The arrays without parts of which this one is made, in Parquet's order."""
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
    """The types of `leaves`."""
    if isinstance(data_type, pa.BaseExtensionType):
        yield from leaf_types(data_type.storage_type)
    elif t.is_nested(data_type):
        for index in range(data_type.num_fields):
            yield from leaf_types(data_type.field(index).type)
    else:
        yield data_type


def width(data_type: pa.DataType) -> int:
    """How many columns of Parquet an Arrow column is."""
    return sum(1 for _ in leaf_types(data_type))


def has_nanoseconds(data_type: pa.DataType) -> bool:
    """Whether a type is a timestamp in nanoseconds, or has one in it."""
    return any(map(is_nanoseconds, leaf_types(data_type)))


def is_nanoseconds(data_type: pa.DataType) -> bool:
    """Whether a type is a timestamp in nanoseconds."""
    return bool(t.is_timestamp(data_type) and data_type.unit == "ns")


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows; Arrow's own `empty_table` fails where a list or struct holds UUIDs or JSON."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def filterable(rows: Rows) -> Rows:
    """The rows with texts and bytes in a form that Arrow can filter, and read numbers and dates from: no views."""
    fields = [field.with_type(_without_views(field.type)) for field in rows.schema]
    schema = pa.schema(fields, rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """The type with plain texts and bytes for views, also in its parts."""
    if t.is_struct(data_type):
        return pa.struct([field.with_type(_without_views(field.type)) for field in data_type])
    if t.is_map(data_type):
        return pa.map_(_without_views(data_type.key_type), _without_views(data_type.item_type))
    if t.is_dictionary(data_type):
        return pa.dictionary(data_type.index_type, _without_views(data_type.value_type), data_type.ordered)
    for is_list, list_of in ((t.is_list, pa.list_), (t.is_large_list, pa.large_list)):
        if is_list(data_type):
            return list_of(data_type.value_field.with_type(_without_views(data_type.value_type)))
    return _PLAIN.get(data_type, data_type)
