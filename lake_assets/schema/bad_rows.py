"""What does not fit: the rows of a batch with a value that its column cannot hold, and why; what rescue keeps of them.

Rescue keeps values that their columns' types refuse, and fields that no column takes, as JSON.
"""

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.schema.arrow_types import (
    dictionary_decoded,
    exceeded,
    is_list,
    is_text,
    joined_types,
    without_dictionary,
    without_views,
)
from lake_assets.schema.casts import NumberText, cast, is_number, numbers_differ

ROW_NUMBER = "_row"
"""The column of a batch that has the numbers of its rows in their object, from 0."""

CAST_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
"""The errors of a cast that its values, or their types, do not allow."""

NOTHING = object()
"""What is left of a value of which a type takes all."""

Convert = Callable[[pa.Array, pa.DataType], pa.Array]

_SHOWN = 200  # characters of a value


class BadRows(NamedTuple):
    """Rows that are left out, as they were read; `ROW_NUMBER` is their last column."""

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
        fields = {name.lower(): part for name, part in value.items()} if isinstance(value, Mapping) else {}
        return bool(fields) and all(_is_same(fields.get(name.lower()), part) for name, part in other.items())
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


def bad_positions(values: pa.Array, data_type: pa.DataType, convert: Convert = cast) -> list[int]:
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
        except CAST_ERRORS:
            return False
        return exceeded(converted) is None

    return list(bad_by_halves(values, fits))


def lines_of_values(values: pa.Array, rows: list[int]) -> list[str]:
    """Return values as texts, each of one line and not too long."""
    taken = (
        without_views(pa.record_batch([dictionary_decoded(values)], ["value"]))
        .column(0)
        .take(pa.array(rows, pa.int64()))
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


def bad_by_halves(values: pa.Array, fits: Callable[[pa.Array], bool]) -> Iterator[int]:
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
    (least, most), (first, last) = _range(values.type), _range(data_type)
    lower, upper = (pa.scalar(bound, values.type) for bound in (max(least, first), min(most, last)))
    return pc.or_(pc.less(values, lower), pc.greater(values, upper))


def _range(data_type: pa.DataType) -> tuple[int, int]:
    bits = data_type.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if t.is_signed_integer(data_type) else (0, 2**bits - 1)


def positions(mask: pa.Array) -> list[int]:
    """Return the positions of true values; NULL is false."""
    return list(pc.indices_nonzero(pc.fill_null(mask, fill_value=False)).to_pylist())


def converted_values(
    count: int, convert: Callable[[int, int], pa.Array], kind: pa.DataType
) -> tuple[pa.Array, list[int]]:
    """Convert the values that can be, and return the places of the others, which are NULL.

    `convert` takes the values from a place up to another one, and raises ArrowInvalid if one of them cannot be.
    """
    unfit: list[int] = []

    def parts(start: int, stop: int) -> Iterator[pa.Array]:
        try:
            yield convert(start, stop)
        except CAST_ERRORS:
            if stop - start == 1:
                unfit.append(start)
                yield pa.nulls(1, kind)
                return
            middle = (start + stop) // 2
            yield from parts(start, middle)
            yield from parts(middle, stop)

    return pa.concat_arrays(list(parts(0, count))) if count else pa.nulls(0, kind), unfit


def matched_fields(
    fields: Mapping[str, object], names: Iterable[str], *, keeps: bool
) -> tuple[dict[str, object], dict[str, object]]:
    """Return fields by the known names that are theirs in any case, and the others.

    Two fields that are one are an ArrowInvalid; with `keeps` the second one is among the others.
    """
    mine = {name.lower(): name for name in names}
    known: dict[str, object] = {}
    others: dict[str, object] = {}
    for name in sorted(fields, key=lambda name: mine.get(name.lower()) != name):
        if (own := mine.get(name.lower())) is None or own in known:
            if own is not None and fields[name] is not None and not keeps:
                raise pa.ArrowInvalid(f"the field {own!r} is there twice, as {name!r} too")
            others[name] = fields[name]
        else:
            known[own] = fields[name]
    return known, others


def split_by_type(value: object, kind: pa.DataType, *, keeps: bool = True) -> tuple[object, object]:
    """Return what a type takes of a nested value of JSON or Arrow, and the rest: `NOTHING` if it takes all."""
    if isinstance(value, Mapping) and t.is_struct(kind):
        known, others = matched_fields(value, kind.names, keeps=keeps)
        parts = {name: split_by_type(part, kind.field(name).type, keeps=keeps) for name, part in known.items()}
        rest = {name: left for name, (_, left) in parts.items() if left is not NOTHING}
        rest |= {name: field for name, field in others.items() if field is not None}
        return {name: part for name, (part, _) in parts.items()}, rest or NOTHING
    if t.is_map(kind) and isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else value  # of JSON, or of Arrow
        parts = {key: split_by_type(item, kind.item_type, keeps=keeps) for key, item in items}
        rest = {str(key): left for key, (_, left) in parts.items() if left is not NOTHING}
        return {key: part for key, (part, _) in parts.items()}, rest or NOTHING
    if isinstance(value, list) and (t.is_list(kind) or t.is_large_list(kind)):
        elements = [split_by_type(element, kind.value_type, keeps=keeps) for element in value]
        rests = [None if rest is NOTHING else rest for _, rest in elements]
        return [part for part, _ in elements], NOTHING if all(rest is NOTHING for _, rest in elements) else rests
    return value, NOTHING


def path_of(rest: Mapping[str, object], kind: pa.DataType) -> str:
    """Return the path of the first field in the rest of a struct, such as `place.x`."""
    name, value = next(iter(rest.items()))
    fields = (kind.field(known).type for known in kind.names if known.lower() == name.lower())
    within = next((field for field in fields if t.is_struct(field)), None)
    return name if within is None or not isinstance(value, Mapping) else f"{name}.{path_of(value, within)}"


def as_json(value: object) -> str:
    """Return a value as JSON, such as what is kept of a row. One that JSON has not, such as a date, is a text."""
    return json.dumps(_json_value(value), ensure_ascii=False, default=_json_text)


def with_kept(texts: pa.Array, kept: Mapping[int, Mapping[str, object]]) -> pa.Array:
    """Return the JSON objects of rows with what else is kept of some of them, by their places."""
    if not kept:
        return texts
    values = texts.to_pylist()
    for row, fields in kept.items():
        values[row] = as_json({**json.loads(values[row] or "{}"), **fields})
    return pa.array(values, texts.type)


def exact_float(text: str) -> float | NumberText:
    """Return a number of JSON as a double; as a text if a double is another number."""
    number = float(text)
    return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(text) else NumberText(text)


def _json_value(value: Any) -> Any:  # noqa: ANN401 - any value of Python
    if isinstance(value, Mapping):
        return {str(name): _json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(element) for element in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _json_text(value: object) -> str:
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)
