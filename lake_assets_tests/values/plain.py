"""The values of Arrow arrays as plain Python has them, so that those of two readers can be compared across types.

Nothing is left of a unit, a width or an encoding, which a reader may choose; all is left of what a value means: times
are counts of nanoseconds, so that years that Python lacks are compared too, and those with a zone are other than those
without. Floats are their shortest texts: NaN is equal to itself, and 0.0 is not -0.0.
"""

import uuid
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyarrow import types as t

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def constant(value: str, sql_type: str) -> str:
    """The expression in SQL of the text of a constant that is equal to a value of this type."""
    text = f"'CAST(''' || replace({value}::VARCHAR, '''', '''''') || ''' AS {sql_type})'"
    if sql_type == "TIMESTAMP WITH TIME ZONE":  # DuckDB cannot read its own text of the last one
        return f"CASE WHEN isfinite({value}) THEN 'make_timestamptz(' || epoch_us({value}) || ')' ELSE {text} END"
    return text


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [value for chunk in chunks for value in _plain(chunk)]


def _plain(array: pa.Array) -> list[Any]:
    kind = array.type
    if kind == pa.uuid():
        return _mapped(lambda raw: str(uuid.UUID(bytes=raw)), array.storage.to_pylist())
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if t.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if t.is_struct(kind):
        names = [field.name for field in kind]
        rows = zip(*map(_plain, array.flatten()), strict=True)
        return [
            dict(zip(names, row, strict=True)) if there.as_py() else None
            for row, there in zip(rows, array.is_valid(), strict=True)
        ]
    if t.is_map(kind) or t.is_nested(kind):
        return [_plain(item.values) if item.is_valid else None for item in array]
    if t.is_temporal(kind):
        return _moments(array)
    if t.is_floating(kind):
        return _mapped(repr, array.to_pylist())
    values: list[Any] = array.to_pylist()
    return values


def _moments(array: pa.Array) -> list[Any]:
    kind = array.type
    stored = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if t.is_date(kind):
        return _mapped(lambda n: ("day", n if t.is_date32(kind) else n / 86_400_000), stored)
    what = "time of day" if t.is_time(kind) else "duration" if t.is_duration(kind) else "time"
    what = "instant" if t.is_timestamp(kind) and kind.tz is not None else what
    # DuckDB's infinity in each unit.
    return _mapped(lambda n: (what, n if abs(n) == 2**63 - 1 else n * _NANOSECONDS[kind.unit]), stored)


def _mapped(convert: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]
