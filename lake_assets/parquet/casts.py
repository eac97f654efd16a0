"""Casts of columns to types that hold their values, at any depth of nested types.

Arrow matches the fields of structs by their exact names, and silently drops the values of others.
"""

from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.formats.numbers import exact, is_checked
from lake_assets.parquet.leaves import is_list


def cast(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast values to another type. Fields that only the new type has are NULL, and those that it lacks are dropped.

    Fields of structs are matched by name; upper and lower case are the same. Raises ArrowInvalid if the type cannot
    hold a value, or a number would be another one.
    """
    if isinstance(array, pa.ExtensionArray) and not isinstance(data_type, pa.BaseExtensionType):
        array = array.storage
    if array.type.equals(data_type):
        return array
    if t.is_null(data_type):
        return pa.nulls(len(array))
    if _is_decimal(array.type, data_type):
        return _decimals(array, data_type)
    if _is_uuid(array.type, data_type):
        return _uuids(array)
    if is_checked(array.type, data_type):
        return exact(array, data_type)
    if t.is_null(array.type) or _is_cast_by_arrow(array.type, data_type):
        return array.cast(data_type)
    if t.is_dictionary(array.type):
        return cast(array.dictionary_decode(), data_type)
    if t.is_struct(data_type):
        return _struct(array, data_type)
    if t.is_map(data_type):
        if t.is_struct(array.type):  # one of `footers.ENTRIES`
            (entries,) = array.flatten()
        else:
            entry = pa.struct([pa.field("key", array.type.key_type, nullable=False), ("value", array.type.item_type)])
            entries = array.cast(pa.list_(entry))
        keys, items = entries.flatten().flatten()
        parts = (cast(keys, data_type.key_type), cast(items, data_type.item_type))
        return pa.MapArray.from_arrays(_offsets(entries), *parts, mask=array.is_null()).cast(data_type)
    values = cast(array.flatten(), data_type.value_type)
    return pa.ListArray.from_arrays(_offsets(array), values, mask=array.is_null()).cast(data_type)


def _struct(array: pa.StructArray, data_type: pa.StructType) -> pa.StructArray:
    # A field of a struct that is NULL is NULL here, and its stored values are ignored.
    known = dict(zip((field.name.lower() for field in array.type), array.flatten(), strict=True))
    parts = [
        cast(known[field.name.lower()], field.type) if field.name.lower() in known else pa.nulls(len(array), field.type)
        for field in data_type
    ]
    return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=array.is_null())


def _offsets(lists: pa.Array) -> pa.Int32Array:
    """Return where each list begins and ends in the flattened values; a list that is NULL has none."""
    lengths = pc.cast(pc.fill_null(pc.list_value_length(lists), 0), pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(lengths)])


def _is_cast_by_arrow(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether structs of two types have the same fields in the same order, and Arrow casts whole lists."""
    if t.is_list_view(given) or t.is_large_list_view(given):
        return False  # Arrow leaves the last offset out
    if t.is_struct(given) and t.is_map(wanted):
        return False
    if t.is_struct(given) and t.is_struct(wanted):
        return [f.name for f in given] == [f.name for f in wanted] and all(
            _is_cast_by_arrow(mine.type, other.type) for mine, other in zip(given, wanted, strict=True)
        )
    if t.is_map(given) and t.is_map(wanted):
        return all(
            _is_cast_by_arrow(*pair)
            for pair in ((given.key_type, wanted.key_type), (given.item_type, wanted.item_type))
        )
    if is_list(given) and is_list(wanted):
        return _is_cast_by_arrow(given.value_type, wanted.value_type)
    if t.is_dictionary(given):
        return _is_cast_by_arrow(given.value_type, wanted)
    is_own = _is_decimal(given, wanted) or _is_uuid(given, wanted) or is_checked(given, wanted)
    return not (t.is_null(wanted) or is_own)


def _is_decimal(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(t.is_decimal(wanted) and t.is_binary(given))


def _is_uuid(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(wanted.equals(pa.uuid()) and t.is_string(given))


def _decimals(array: pa.BinaryArray, data_type: pa.DataType) -> pa.Array:
    """Return decimals by their digits as whole numbers in two's complement, with the highest byte first."""
    _, places, data = array.buffers()
    offsets = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1]
    stored = np.append(np.frombuffer(data or b"", np.uint8), np.uint8(0))
    lengths, width = np.diff(offsets), data_type.byte_width
    longest = int(lengths.max(initial=0))
    if longest > width:
        raise pa.ArrowInvalid(f"a decimal has {longest} bytes, and {data_type} has {width}")
    signs = np.where((lengths > 0) & (stored[offsets[:-1]] > 127), 255, 0).astype(np.uint8)
    numbers = np.repeat(signs[:, None], width, axis=1)
    for byte in range(longest):
        has = lengths > byte
        numbers[has, byte] = stored[offsets[1:][has] - 1 - byte]
    valid = array.is_valid().buffers()[1] if array.null_count else None
    decimals = pa.Array.from_buffers(data_type, len(array), [valid, pa.py_buffer(numbers)])
    decimals.validate(full=True)
    return decimals


def _uuids(array: pa.StringArray) -> pa.Array:
    try:
        numbers = [text and UUID(text).bytes for text in array.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(f"it has a text that is no UUID: {error}") from error
    return pa.array(numbers, pa.binary(16)).cast(pa.uuid())
