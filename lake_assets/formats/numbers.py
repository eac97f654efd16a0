"""The rule for numbers: one enters a column if it is the same number there; otherwise it is refused, and never rounded.

A number of a text is that of its digits. One with a fraction is the nearest DOUBLE or FLOAT, as 0.1 is.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from math import isinf

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.formats.rescue import NumberText

_EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}  # below this, each whole number is exact
_WRAPPED = 1.5e38  # below this, and above 38 digits, Arrow refuses a decimal; of larger ones it drops bits above 128
_WHOLE = re.compile(r"([+-]?[0-9]+)(\.0*)?")
_HEX = r"^0[xX]"
_POWER = r"^-?[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,2}$"


def is_number(data_type: pa.DataType) -> bool:
    """Return whether a type is one of numbers."""
    return bool(t.is_integer(data_type) or t.is_floating(data_type) or t.is_decimal(data_type))


def is_checked(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether `exact` decides about numbers of a type, or texts, as another type, and not Arrow's cast."""
    if t.is_string(given) or t.is_large_string(given):
        return is_number(wanted)
    if t.is_decimal(given) and t.is_decimal(wanted):
        return bool(given.scale < wanted.scale)
    if t.is_floating(given) and t.is_floating(wanted):
        return bool(wanted.bit_width < given.bit_width)
    if t.is_decimal(wanted):
        return is_number(given)
    return bool(t.is_floating(wanted) and t.is_decimal(given))


def exact(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return numbers, or texts of numbers, as another type; `is_checked` holds of the types."""
    if t.is_integer(wanted):
        return _whole(values).cast(wanted)
    if t.is_decimal(wanted) and t.is_integer(values.type):
        # Arrow wants room for all digits that such integers may have.
        return values.cast(pa.decimal256(20 + wanted.scale, wanted.scale)).cast(wanted)
    if t.is_decimal(wanted):
        if pc.any(pc.greater_equal(pc.abs(values.cast(pa.float64())), _WRAPPED / 10.0**wanted.scale)).as_py():
            raise pa.ArrowInvalid(f"a number is too large for {wanted}")
        return _decimals(values, wanted) if t.is_floating(values.type) else values.cast(wanted)
    made = (values.cast(pa.string()) if t.is_decimal(values.type) else values).cast(wanted)
    if t.is_string(values.type) or t.is_large_string(values.type):
        large = pc.fill_null(pc.greater_equal(pc.abs(made), _EXACT[wanted]), fill_value=False)
        for text, number in zip(values.filter(large).to_pylist(), made.filter(large).to_pylist(), strict=True):
            whole = _WHOLE.fullmatch(text)
            if isinf(number) and "inf" not in text.lower():
                raise pa.ArrowInvalid(f"{text} is too large for {wanted}")
            if whole and int(whole[1]) != number:
                raise pa.ArrowInvalid(f"{text} would be rounded to {wanted}")
    elif pc.any(differs(values, (exact if t.is_decimal(values.type) else pc.cast)(made, values.type))).as_py():
        raise pa.ArrowInvalid(f"a number would be rounded to {wanted}")
    return made


def _decimals(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return floating-point numbers as decimals: exactly, or else by the fewest digits of which each is the nearest.

    Arrow's own casts between the two multiply by a power of ten, and are off in the last digit.
    """
    made = values.cast(pa.string()).cast(wanted)
    is_other = pc.not_equal(made, values.cast(wanted))
    if not pc.any(is_other).as_py():
        return made
    pairs = zip(*(a.filter(is_other).to_pylist() for a in (values, values.cast(wanted), made)), strict=True)
    kept = [nearest if Decimal(value) == nearest else shortest for value, nearest, shortest in pairs]
    return pc.replace_with_mask(made, pc.fill_null(is_other, fill_value=False), pa.array(kept, wanted))


def differs(values: pa.Array, others: pa.Array) -> pa.Array:
    """Return whether numbers of one type differ; NaN is NaN."""
    other = pc.not_equal(values, others)
    return (
        pc.and_(other, pc.invert(pc.and_(pc.is_nan(values), pc.is_nan(others))))
        if t.is_floating(values.type)
        else other
    )


def has_large(column: pa.ChunkedArray | pa.Array) -> bool:
    """Return whether a floating-point number, at any depth, may be a whole one that has been rounded."""
    if t.is_struct(column.type):
        return any(map(has_large, column.flatten()))
    if t.is_list(column.type):
        return has_large(pc.list_flatten(column))
    return t.is_floating(column.type) and bool(pc.any(pc.greater_equal(pc.abs(column), _EXACT[column.type])).as_py())


def may_wrap(text: bytes | memoryview, types: Iterable[pa.DataType], before: str) -> bool:
    """Return whether a text may have a number that Arrow's readers make another decimal; one is behind `before`."""
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


def rounded(value: object, data_type: pa.DataType) -> object:
    """Return a number in a value of JSON that a type, or the part of it for this number, does not hold; None: none."""
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
    return next((number for part in parts if (number := rounded(*part)) is not None), None)


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
