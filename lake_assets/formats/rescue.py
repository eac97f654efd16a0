"""What does not fit is kept: values that their columns' types refuse, and fields that no column takes, as JSON."""

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as t

UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
"""The errors of a cast that its values, or their types, do not allow."""

NOTHING = object()
"""What is left of a value of which a type takes all."""


def converted(count: int, convert: Callable[[int, int], pa.Array], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Convert the values that can be, and return the places of the others, which are NULL.

    Args:
        count: number of values.
        convert: the values from a place up to another one, as this type; raises ArrowInvalid if one of them cannot be.
        kind: the type.
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


def leftover(value: object, kind: pa.DataType) -> object:
    """Return the fields of a nested value, at any depth, that a type lacks; `NOTHING` if it has all of them."""
    if isinstance(value, Mapping) and t.is_struct(kind):
        types = {field.name.lower(): field.type for field in kind}
        known = ((name, types.get(name.lower()), one) for name, one in value.items())
        rest: dict[str, object] = {name: one if of is None else leftover(one, of) for name, of, one in known}
        return {name: one for name, one in rest.items() if one is not NOTHING and one is not None} or NOTHING
    if t.is_map(kind) and isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else value  # of JSON, or of Arrow
        left = {str(key): leftover(one, kind.item_type) for key, one in items}
        return {key: one for key, one in left.items() if one is not NOTHING} or NOTHING
    if isinstance(value, list) and (t.is_list(kind) or t.is_large_list(kind)):
        found = [leftover(one, kind.value_type) for one in value]
        return NOTHING if all(one is NOTHING for one in found) else [None if one is NOTHING else one for one in found]
    return NOTHING


def dumped(fields: Mapping[str, object]) -> str:
    """Return what is kept of a row: a JSON object. A value that JSON has not, such as a date, is a text."""
    return json.dumps(_plain(fields), ensure_ascii=False, default=_text)


def merged(texts: pa.Array, found: Mapping[int, Mapping[str, object]]) -> pa.Array:
    """Return the JSON objects of rows with what else is kept of some of them, by their places."""
    if not found:
        return texts
    values = texts.to_pylist()
    for row, fields in found.items():
        values[row] = dumped({**json.loads(values[row] or "{}"), **fields})
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
