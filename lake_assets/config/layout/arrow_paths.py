"""Paths for the rows of an Arrow table: each distinct value is rendered once, and rows have codes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import repeat
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lake_assets.config.layout.codec import HiveCodec, out_of_range, unfit_type
from lake_assets.config.layout.grammar import Part, Placeholder, Static

# A time without zone or offset, with an hour of two digits.
_CLOCK = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?"

Codes = npt.NDArray[np.int64]


def render_rows(codec: HiveCodec, rows: pa.Table | pa.RecordBatch, now: datetime) -> pa.DictionaryArray:
    """Return the path of every row; see `Template.render`. A missing column is NULL in every row."""
    parts = codec.parts
    columns = [p.column for p in parts if isinstance(p, Placeholder) and not p.is_now and p.column in rows.schema.names]
    codes: Codes = np.zeros(rows.num_rows, np.int64)
    keys: dict[str, Codes] = {}
    values: dict[str, list[object]] = {}
    for column in dict.fromkeys(columns):
        span = _span(p for p in parts if isinstance(p, Placeholder) and p.column == column)
        new, values[column] = _distinct(column, rows.column(column), span, codec.zone)
        codes, keys = _combine(codes, keys, column, new, len(values[column]))
    count = min(1, rows.num_rows) if not keys else len(next(iter(keys.values())))

    def texts(part: Part) -> Iterable[str]:
        if isinstance(part, Static):
            return repeat(part.text, count)
        if part.is_now or part.column not in keys:
            return repeat(codec.write(part, now if part.is_now else None), count)
        written = [codec.write(part, value) for value in values[part.column]]
        return [written[code] for code in keys[part.column].tolist()]

    return _decode(
        codes, [codec.clean("".join(path)) for path in zip(*map(texts, parts or (Static(""),)), strict=True)]
    )


def read_rows(
    codec: HiveCodec, placeholders: Sequence[Placeholder], column: pa.ChunkedArray | pa.Array
) -> pa.DictionaryArray:
    """Return one column's value in the path of every row; see `Template.read_rows`."""
    codes, values = _distinct(placeholders[0].column, column, _span(placeholders), codec.zone)
    texts = [codec.read([(p, codec.write(p, value)) for p in placeholders]) for value in values]
    # No partition has an empty text, so it marks a value that cannot be read back.
    return _decode(codes, [text or "" for text in texts])


def _decode(codes: Codes, texts: Sequence[str]) -> pa.DictionaryArray:
    """Return the text of each row. Two codes may have one text, such as NULL and a text that is not a timestamp."""
    distinct = pa.array(texts, pa.string()).dictionary_encode()
    indices = distinct.indices.to_numpy(zero_copy_only=False).astype(np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(indices), distinct.dictionary)


def _span(placeholders: Iterable[Placeholder]) -> str | None:
    """Return the unit within which times of a column have the same path; None if all times have different paths."""
    granularities = [placeholder.granularity for placeholder in placeholders]
    return None if None in granularities else "hour" if "HH" in granularities else "day"


def _combine(
    codes: Codes, keys: dict[str, Codes], column: str, new: Codes, size: int
) -> tuple[Codes, dict[str, Codes]]:
    """Code each combination of the earlier columns and a new one, and return the columns' codes for each too."""
    if not keys:
        return new, {column: np.arange(size)}
    both = pa.array(codes * size + new).dictionary_encode()
    pairs = both.dictionary.to_numpy()
    before, last = np.divmod(pairs, size)
    return _codes(both), {**{name: key[before] for name, key in keys.items()}, column: last}


def _distinct(
    name: str, column: pa.ChunkedArray | pa.Array, span: str | None, zone: ZoneInfo
) -> tuple[Codes, list[object]]:
    """Return a code for each row, and the value of each code; every value occurs.

    `span` is the unit within which timestamps count as equal, `hour` or `day`; None for none.
    """
    if isinstance(column, pa.ChunkedArray):
        if types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks):
            column = column.cast(column.type.value_type)  # Arrow cannot unify dictionaries that hold NULL
        column = column.unify_dictionaries().combine_chunks()
    if types.is_dictionary(column.type):
        # The dictionary may have values of other rows.
        codes, positions = _distinct(name, column.indices, None, zone)
        values = column.dictionary.take(pa.array(positions, column.indices.type))
        inner, distinct = _distinct(name, values, span, zone)
        return inner[codes], distinct
    if types.is_timestamp(column.type):
        column = _wall_clock(column, zone)
        column = column if span is None else pc.floor_temporal(column, unit=span)
    elif not _fits_paths(column.type):
        raise unfit_type(name, column.type)
    elif types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if span is not None and (types.is_string(column.type) or types.is_large_string(column.type)):
        column = _cut(column, span, zone)
    encoded = column.dictionary_encode(null_encoding="encode")
    return _codes(encoded), _python(name, encoded.dictionary)


def _wall_clock(column: pa.Array, zone: ZoneInfo) -> pa.Array:
    """Return the local times in the zone, without a zone; in microseconds at most, as Python has them."""
    if column.type.unit == "ns":
        column = _microseconds(column)
    if column.type.tz is None:
        return column
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, zone.key)))


def _microseconds(column: pa.Array) -> pa.Array:
    """Return the microsecond that contains each nanosecond; before 1970, Arrow's cast returns the next one."""
    nanos = column.view(pa.int64())
    cut = pc.divide(nanos, 1000)
    floor = pc.if_else(pc.greater(pc.multiply(cut, 1000), nanos), pc.subtract(cut, 1), cut)
    return floor.view(pa.timestamp("us", column.type.tz))


def _cut(texts: pa.Array, span: str, zone: ZoneInfo) -> pa.Array:
    """Return the texts, with timestamps cut to their day or hour, so that fewer texts are parsed.

    A cut text has the same day or hour in the zone; a text that is not a timestamp stays so.
    """
    form = f"{_CLOCK}$|{_CLOCK.replace('[ T]', 'T')}Z$" if zone.key == "UTC" else f"{_CLOCK}$"
    is_time = pc.fill_null(pc.match_substring_regex(texts, form), False)
    if span == "day":
        return pc.if_else(is_time, pc.utf8_slice_codeunits(texts, 0, 10), texts)
    hour, o_clock = pc.utf8_slice_codeunits(texts, 0, 13), pa.scalar(":00:00", texts.type)
    hours = pc.binary_join_element_wise(hour, o_clock, pa.scalar("", texts.type))
    return pc.if_else(is_time, hours, texts)


def _python(name: str, values: pa.Array) -> list[object]:
    try:
        return list(values.to_pylist())
    except (OverflowError, ValueError) as error:
        raise out_of_range(name) from error


def _codes(encoded: pa.DictionaryArray) -> Codes:
    return np.asarray(encoded.indices).astype(np.int64)


def _fits_paths(kind: pa.DataType) -> bool:
    """Return whether paths can hold the type; for floating point numbers, only with `compat: olake`."""
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    others = (types.is_integer, types.is_boolean, types.is_decimal, types.is_date, types.is_floating, types.is_null)
    return any(is_kind(kind) for is_kind in (*texts, *others))
