"""What does not fit is kept: values that their columns' types refuse, and fields that no column takes, as JSON."""

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as t

UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
"""The errors of a cast that its values, or their types, do not allow."""

NOTHING = object()
"""What is left of a value of which a type takes all."""


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
        except UNFIT:
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
        parts = {name: split_by_type(one, kind.field(name).type, keeps=keeps) for name, one in known.items()}
        rest = {name: left for name, (_, left) in parts.items() if left is not NOTHING}
        rest |= {name: one for name, one in others.items() if one is not None}
        return {name: part for name, (part, _) in parts.items()}, rest or NOTHING
    if t.is_map(kind) and isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else value  # of JSON, or of Arrow
        parts = {key: split_by_type(one, kind.item_type, keeps=keeps) for key, one in items}
        rest = {str(key): left for key, (_, left) in parts.items() if left is not NOTHING}
        return {key: part for key, (part, _) in parts.items()}, rest or NOTHING
    if isinstance(value, list) and (t.is_list(kind) or t.is_large_list(kind)):
        found = [split_by_type(one, kind.value_type, keeps=keeps) for one in value]
        all_taken = all(left is NOTHING for _, left in found)
        left = NOTHING if all_taken else [None if left is NOTHING else left for _, left in found]
        return [part for part, _ in found], left
    return value, NOTHING


def path_of(rest: Mapping[str, object], kind: pa.DataType) -> str:
    """Return the path of the first field in the rest of a struct, such as `place.x`."""
    name, value = next(iter(rest.items()))
    fields = (kind.field(known).type for known in kind.names if known.lower() == name.lower())
    within = next((field for field in fields if t.is_struct(field)), None)
    return name if within is None or not isinstance(value, Mapping) else f"{name}.{path_of(value, within)}"


def as_json(value: object) -> str:
    """Return a value as JSON, such as what is kept of a row. One that JSON has not, such as a date, is a text."""
    return json.dumps(_plain(value), ensure_ascii=False, default=_text)


def with_kept(texts: pa.Array, found: Mapping[int, Mapping[str, object]]) -> pa.Array:
    """Return the JSON objects of rows with what else is kept of some of them, by their places."""
    if not found:
        return texts
    values = texts.to_pylist()
    for row, fields in found.items():
        values[row] = as_json({**json.loads(values[row] or "{}"), **fields})
    return pa.array(values, texts.type)


class NumberText(str):
    """A number of JSON that no double is."""

    __slots__ = ()


def exact_float(text: str) -> float | NumberText:
    """Return a number of JSON as a double; as a text if a double is another number."""
    number = float(text)
    return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(text) else NumberText(text)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of Python
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: object) -> str:
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)
