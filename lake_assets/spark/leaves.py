"""The parts of Arrow's nested types that have no parts themselves: as Parquet stores them."""

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import types as t

FIRST_NANOSECOND = -9_223_286_400_000_000_000
"""The least nanosecond since 1970 that DuckDB's TIMESTAMP_NS has, 1677-09-22; 64 bits begin half a day earlier."""


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
