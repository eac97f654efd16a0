"""Casts of columns to types that hold their values, at any depth of nested types.

Arrow matches the fields of structs by their exact names, and silently drops the values of others.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from math import isinf
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.schema.arrow_types import is_list

_EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}  # below this, each whole number is exact
_WRAPPED = 1.5e38  # below this, and above 38 digits, Arrow refuses a decimal; of larger ones it drops bits above 128
_WHOLE = re.compile(r"([+-]?[0-9]+)(\.0*)?")
_HEX = r"^0[xX]"
_POWER = r"^-?[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,2}$"


class NumberText(str):
    """A number of JSON that no double is."""

    __slots__ = ()


def is_number(data_type: pa.DataType) -> bool:
    """Return whether a type is one of numbers."""
    return bool(t.is_integer(data_type) or t.is_floating(data_type) or t.is_decimal(data_type))


def is_checked(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether `exact_cast` makes a type of numbers or texts, because Arrow's cast may change them."""
    if t.is_string(source) or t.is_large_string(source):
        return is_number(target)
    if t.is_decimal(source) and t.is_decimal(target):
        return bool(source.scale < target.scale)
    if t.is_floating(source) and t.is_floating(target):
        return bool(target.bit_width < source.bit_width)
    if t.is_decimal(target):
        return is_number(source)
    return bool(t.is_floating(target) and t.is_decimal(source))


def exact_cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Return numbers, or texts of numbers, as another type, for which `is_checked` holds."""
    if t.is_integer(target):
        return _whole(values).cast(target)
    if t.is_decimal(target) and t.is_integer(values.type):
        # Arrow wants room for all digits that such integers may have.
        return values.cast(pa.decimal256(20 + target.scale, target.scale)).cast(target)
    if t.is_decimal(target):
        if pc.any(pc.greater_equal(pc.abs(values.cast(pa.float64())), _WRAPPED / 10.0**target.scale)).as_py():
            raise pa.ArrowInvalid(f"a number is too large for {target}")
        return _as_decimals(values, target) if t.is_floating(values.type) else values.cast(target)
    made = (values.cast(pa.string()) if t.is_decimal(values.type) else values).cast(target)
    if t.is_string(values.type) or t.is_large_string(values.type):
        large = pc.fill_null(pc.greater_equal(pc.abs(made), _EXACT[target]), fill_value=False)
        for text, number in zip(values.filter(large).to_pylist(), made.filter(large).to_pylist(), strict=True):
            whole = _WHOLE.fullmatch(text)
            if isinf(number) and "inf" not in text.lower():
                raise pa.ArrowInvalid(f"{text} is too large for {target}")
            if whole and int(whole[1]) != number:
                raise pa.ArrowInvalid(f"{text} would be rounded to {target}")
    elif pc.any(
        numbers_differ(values, (exact_cast if t.is_decimal(values.type) else pc.cast)(made, values.type))
    ).as_py():
        raise pa.ArrowInvalid(f"a number would be rounded to {target}")
    return made


def _as_decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Return floating-point numbers as decimals: exactly, or else by the fewest digits of which each is the nearest.

    Arrow's own casts between the two multiply by a power of ten, and are off in the last digit.
    """
    made = values.cast(pa.string()).cast(target)
    is_other = pc.not_equal(made, values.cast(target))
    if not pc.any(is_other).as_py():
        return made
    pairs = zip(*(a.filter(is_other).to_pylist() for a in (values, values.cast(target), made)), strict=True)
    kept = [nearest if Decimal(value) == nearest else shortest for value, nearest, shortest in pairs]
    return pc.replace_with_mask(made, pc.fill_null(is_other, fill_value=False), pa.array(kept, target))


def numbers_differ(values: pa.Array, others: pa.Array) -> pa.Array:
    """Return whether numbers of one type differ; NaN is NaN."""
    differ = pc.not_equal(values, others)
    if not t.is_floating(values.type):
        return differ
    return pc.and_(differ, pc.invert(pc.and_(pc.is_nan(values), pc.is_nan(others))))


def has_large(column: pa.ChunkedArray | pa.Array) -> bool:
    """Return whether a floating-point number, at any depth, may be a whole one that has been rounded."""
    if t.is_struct(column.type):
        return any(map(has_large, column.flatten()))
    if t.is_list(column.type):
        return has_large(pc.list_flatten(column))
    return t.is_floating(column.type) and bool(pc.any(pc.greater_equal(pc.abs(column), _EXACT[column.type])).as_py())


def may_wrap(text: bytes | memoryview, types: Iterable[pa.DataType], before: str) -> bool:
    """Return whether a text may have a number that Arrow's readers turn into another decimal.

    A number follows one of the characters `before`.
    """
    scales = [scale for kind in types for scale in _scales(kind)]
    return bool(scales) and _large_number(max(scales), before).search(text) is not None


def _scales(kind: pa.DataType) -> Iterator[int]:
    if t.is_decimal(kind):
        yield kind.scale
    for number in range(kind.num_fields):
        yield from _scales(kind.field(number).type)


@cache
def _large_number(scale: int, before: str) -> re.Pattern[bytes]:
    """Return the pattern of numbers with more whole digits than 38 without the scale, or with an exponent."""
    digits, start = max(39 - scale, 1), re.escape(before)
    return re.compile(rf"[0-9]{{{digits}}}|(?:[{start}\s]|\A)-?[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]".encode())


def rounded_number(value: object, data_type: pa.DataType) -> object:
    """Return the first number in a value of JSON that its part of a type does not hold; None if all are held."""
    if t.is_decimal(data_type) and isinstance(value, int | float | NumberText):
        return value if Decimal(str(value)).copy_abs() >= 10 ** (data_type.precision - data_type.scale) else None
    if isinstance(value, int) and t.is_floating(data_type):
        try:
            return None if int(data_type.to_pandas_dtype()(value)) == value else value
        except OverflowError:
            return value
    parts: list[tuple[object, pa.DataType]] = []
    if isinstance(value, dict) and t.is_struct(data_type):
        parts = [(value.get(field.name), field.type) for field in data_type]
    elif isinstance(value, dict) and t.is_map(data_type):
        parts = [(item, data_type.item_type) for item in value.values()]
    elif isinstance(value, list) and t.is_list(data_type):
        parts = [(item, data_type.value_type) for item in value]
    return next((number for part in parts if (number := rounded_number(*part)) is not None), None)


def _whole(texts: pa.Array) -> pa.Array:
    """Return texts of whole numbers without the zeros of their fraction, and their exponents.

    Hexadecimal digits are refused: 0x1F is a code, and not 31.
    """
    place = pc.index(pc.match_substring_regex(texts, _HEX), value=True).as_py()
    if place >= 0:
        raise pa.ArrowInvalid(f"invalid value '{texts[place]}'")
    texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.0*$", r"\1")
    if not pc.any(has_power := pc.match_substring_regex(texts, _POWER)).as_py():
        return texts
    numbers = [Decimal(text) for text in texts.filter(has_power).to_pylist()]
    wholes = [str(int(number)) if number == int(number) else str(number) for number in numbers]
    return pc.replace_with_mask(texts, pc.fill_null(has_power, fill_value=False), pa.array(wholes, texts.type))


def cast(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast values to another type. Fields that only the new type has are NULL, and those that it lacks are dropped.

    Fields of structs are matched by name; upper and lower case are the same. Raises ArrowInvalid if the type cannot
    hold a value, or a number would be another one.
    """
    if _is_text_and_uuid(array.type, data_type):
        return _uuids(array, data_type)
    if isinstance(array, pa.ExtensionArray) and not isinstance(data_type, pa.BaseExtensionType):
        array = array.storage
    if array.type.equals(data_type):
        return array
    if t.is_null(data_type):
        return pa.nulls(len(array))
    if _is_decimal_of_bytes(array.type, data_type):
        return _decimals(array, data_type)
    if is_checked(array.type, data_type):
        return exact_cast(array, data_type)
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


def _is_cast_by_arrow(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow's own cast is right: structs have the same fields in order, and no part needs ours."""
    if t.is_list_view(source) or t.is_large_list_view(source):
        return False  # Arrow leaves the last offset out
    if t.is_struct(source) and t.is_map(target):
        return False
    if t.is_struct(source) and t.is_struct(target):
        return [f.name for f in source] == [f.name for f in target] and all(
            _is_cast_by_arrow(*(field.type for field in pair)) for pair in zip(source, target, strict=True)
        )
    if t.is_map(source) and t.is_map(target):
        return all(
            _is_cast_by_arrow(*pair)
            for pair in ((source.key_type, target.key_type), (source.item_type, target.item_type))
        )
    if is_list(source) and is_list(target):
        return _is_cast_by_arrow(source.value_type, target.value_type)
    if t.is_dictionary(source):
        return _is_cast_by_arrow(source.value_type, target)
    ours = (_is_decimal_of_bytes, _is_text_and_uuid, is_checked)
    return not (t.is_null(target) or any(is_ours(source, target) for is_ours in ours))


def _is_decimal_of_bytes(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(t.is_decimal(target) and t.is_binary(source))


def _is_text_and_uuid(source: pa.DataType, target: pa.DataType) -> bool:
    text, other = (source, target) if t.is_string(source) else (target, source)
    return bool(t.is_string(text) and other.equals(pa.uuid()))


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


def _uuids(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return texts of UUIDs, or UUIDs of texts."""
    if t.is_string(data_type):
        return pa.array([value and str(value) for value in array.to_pylist()], data_type)
    try:
        numbers = [text and UUID(text).bytes for text in array.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(f"it has a text that is no UUID: {error}") from error
    return pa.array(numbers, pa.binary(16)).cast(pa.uuid())
