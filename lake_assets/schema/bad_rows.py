"""Which rows of a batch have a value that its column cannot hold, and the reasons in words."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.schema.casts import cast, is_number, numbers_differ
from lake_assets.schema.leaves import (
    dictionary_decoded,
    filterable,
    is_list,
    is_text,
    joined_types,
    unheld,
    without_dictionary,
)
from lake_assets.schema.rescue import UNFIT

NUMBER = "_row"
"""The column of a batch that has the numbers of its rows in their object, from 0."""

Convert = Callable[[pa.Array, pa.DataType], pa.Array]

_SHOWN = 200  # characters of a value


class BadRows(NamedTuple):
    """Rows that are left out, as they were read; `NUMBER` is their last column."""

    rows: pa.RecordBatch
    reasons: list[str]


def is_alike(given: pa.DataType, known: pa.DataType) -> bool:
    """Return whether single values of a type may be some of another one: texts and what they show, and numbers."""
    given = without_dictionary(given)
    kinds = (is_number, t.is_boolean, t.is_temporal)
    if is_text(given):
        return any(is_kind(known) for is_kind in (*kinds, is_text)) or known.equals(pa.uuid())
    if is_text(known):
        return any(is_kind(given) for is_kind in kinds)
    is_nested = (t.is_struct, is_list, t.is_map)
    return any(is_kind(given) and is_kind(known) for is_kind in is_nested) or (is_number(given) and is_number(known))


def is_changed(values: pa.Array, others: pa.Array) -> bool:
    """Return whether a cast of nested values has changed one; fields may be left out."""
    return t.is_nested(others.type) and not all(
        map(_is_same, python_values(dictionary_decoded(values)), python_values(others))
    )


def _is_same(value: object, other: object) -> bool:
    """Return whether a nested value has all that another one has, by names in any case."""
    if isinstance(other, Mapping):
        fields = {name.lower(): one for name, one in value.items()} if isinstance(value, Mapping) else {}
        return bool(fields) and all(_is_same(fields.get(name.lower()), one) for name, one in other.items())
    if isinstance(other, list) and isinstance(value, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return value == other or (value != value and other != other)  # noqa: PLR0124 - NaN


def python_values(values: pa.Array) -> list[object]:
    """Return the values as those of Python; one that Python has not is a text."""
    try:
        return list(dictionary_decoded(values).to_pylist())
    except UnicodeDecodeError:
        return python_values(with_escaped_bytes(dictionary_decoded(values)))
    except (ValueError, OverflowError):
        return [None if not value.is_valid else _text(value) for value in values]


def with_escaped_bytes(values: pa.Array) -> pa.Array:
    r"""Return values in whose texts each byte that is not UTF-8 is written as `\xc3`."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        stored = joined_types(values.type, values.type, lambda kind, _: pa.binary() if is_text(kind) else kind)
        return pa.array([_escaped(value, values.type) for value in cast(values, stored).to_pylist()], values.type)
    return values


def _escaped(value: Any, kind: pa.DataType) -> object:  # noqa: ANN401 - of any type
    if value is None:
        return None
    if t.is_struct(kind):
        return {field.name: _escaped(value[field.name], field.type) for field in kind}
    if t.is_map(kind):
        return [(_escaped(key, kind.key_type), _escaped(item, kind.item_type)) for key, item in value]
    if is_list(kind):
        return [_escaped(element, kind.value_type) for element in value]
    return value.decode(errors="backslashreplace") if is_text(kind) else value


def misfitting(values: pa.Array, data_type: pa.DataType, convert: Convert = cast) -> list[int]:
    """Return the positions of the values that a type cannot hold, or that DuckDB cannot read.

    `convert` raises ArrowInvalid.
    """
    values = dictionary_decoded(values)
    given = values.type
    if t.is_integer(given) and t.is_integer(data_type):
        return positions(_outside(values, data_type))
    if t.is_floating(given) and t.is_floating(data_type):
        return positions(numbers_differ(values, values.cast(data_type, safe=False).cast(given)))

    def fits(part: pa.Array) -> bool:
        try:
            converted = convert(part, data_type)
        except UNFIT:
            return False
        return unheld(converted) is None

    return list(misfits_by_halves(values, fits))


def reasons_of(name: str, values: pa.Array, rows: list[int], data_type: pa.DataType) -> Iterator[str]:
    """Yield the reasons of rows whose value a column cannot hold."""
    for text in lines_of_values(values, rows):
        yield f"column {name!r} has the value {text}, which {data_type} cannot hold"


def lines_of_values(values: pa.Array, rows: list[int]) -> list[str]:
    """Return values as texts, each of one line and not too long."""
    taken = (
        filterable(pa.record_batch([dictionary_decoded(values)], ["value"])).column(0).take(pa.array(rows, pa.int64()))
    )
    taken = with_escaped_bytes(taken)
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return [_cut("NULL" if text is None else text) for text in taken.cast(pa.string()).to_pylist()]
    return [_cut(_text(value)) for value in taken]


def _text(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):  # a time that Python does not have
        return f"of type {value.type}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def misfits_by_halves(values: pa.Array, fits: Callable[[pa.Array], bool]) -> Iterator[int]:
    """Yield the positions of values that do not fit, found by halves, so that a few cost little.

    `fits` says whether all of some values do.
    """
    parts = [(0, len(values))]
    while parts:
        start, count = parts.pop()
        # Arrow casts all elements that lists share, also those of the lists before and after a slice.
        is_shared = t.is_nested(values.type) and count < len(values)
        part = values.take(pa.array(range(start, start + count))) if is_shared else values.slice(start, count)
        if not count or fits(part):
            continue
        if count == 1:
            yield start
            continue
        half = count // 2
        parts += [(start + half, count - half), (start, half)]


def _outside(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return whether integers are outside of a type's range."""
    (least, most), (first, last) = _range(values.type), _range(data_type)
    lower, upper = (pa.scalar(bound, values.type) for bound in (max(least, first), min(most, last)))
    return pc.or_(pc.less(values, lower), pc.greater(values, upper))


def _range(data_type: pa.DataType) -> tuple[int, int]:
    bits = data_type.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if t.is_signed_integer(data_type) else (0, 2**bits - 1)


def positions(mask: pa.Array) -> list[int]:
    """Return the positions of true values; NULL is false."""
    return list(pc.indices_nonzero(pc.fill_null(mask, fill_value=False)).to_pylist())
