"""Paths for the rows of an Arrow table: distinct values are rendered once, and only codes are made for rows."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import repeat
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lake_assets.errors import LayoutError
from lake_assets.layout.grammar import Part, Placeholder, Static
from lake_assets.layout.values import out_of_range

# A time without zone or offset, with an hour of two digits.
_CLOCK = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?"

Codes = npt.NDArray[np.int64]


def render_rows(
    parts: Sequence[Part],
    rows: pa.Table | pa.RecordBatch,
    now: datetime,
    zone: ZoneInfo,
    write: Callable[[Placeholder, object], str],
    whole: Callable[[str], str],
) -> pa.DictionaryArray:
    """The path of every row; see `Template.render`.

    Args:
        parts: of the template.
        rows: a column that is missing has NULL in every row.
        now: the time of the run.
        zone: whose clock parts of timestamps are of.
        write: makes the text of one placeholder for one value.
        whole: makes the path of all the texts.

    Raises:
        LayoutError: a column's type or value is none that a path can name.
    """
    columns = [p.column for p in parts if isinstance(p, Placeholder) and not p.is_now and p.column in rows.schema.names]
    codes: Codes = np.zeros(rows.num_rows, np.int64)
    keys: dict[str, Codes] = {}
    values: dict[str, list[object]] = {}
    for column in dict.fromkeys(columns):
        span = _span(p for p in parts if isinstance(p, Placeholder) and p.column == column)
        new, values[column] = _distinct(column, rows.column(column), span, zone)
        codes, keys = _combine(codes, keys, column, new, len(values[column]))
    count = min(1, rows.num_rows) if not keys else len(next(iter(keys.values())))

    def texts(part: Part) -> Iterable[str]:
        if isinstance(part, Static):
            return repeat(part.text, count)
        if part.is_now or part.column not in keys:
            return repeat(write(part, now if part.is_now else None), count)
        written = [write(part, value) for value in values[part.column]]
        return [written[code] for code in keys[part.column].tolist()]

    paths = [whole("".join(path)) for path in zip(*map(texts, parts or (Static(""),)), strict=True)]
    # Two values may have one path, as NULL and a text that is no timestamp.
    distinct = pa.array(paths, pa.string()).dictionary_encode()
    indices = distinct.indices.to_numpy().astype(np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(indices), distinct.dictionary)


def read_rows(
    places: Sequence[Placeholder],
    column: pa.ChunkedArray | pa.Array,
    zone: ZoneInfo,
    write: Callable[[Placeholder, object], str],
    read: Callable[[Sequence[tuple[Placeholder, str]]], str | None],
) -> pa.DictionaryArray:
    """What the path of every row says of one column; see `Template.read_rows`.

    Args:
        places: the column's, at least one.
        column: the values.
        zone: as for `render_rows`.
        write: as for `render_rows`.
        read: makes the encoded value of the texts of all places.
    """
    codes, values = _distinct(places[0].column, column, _span(places), zone)
    texts = [read([(place, write(place, value)) for place in places]) for value in values]
    # No partition's text is empty, so a value that cannot be read back is of none.
    distinct = pa.array([text or "" for text in texts], pa.string()).dictionary_encode()
    indices = distinct.indices.to_numpy(zero_copy_only=False).astype(np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(indices), distinct.dictionary)


def _span(places: Iterable[Placeholder]) -> str | None:
    """Within which times of a column have the same path; None where all have different paths."""
    granularities = [place.granularity for place in places]
    return None if None in granularities else "hour" if "HH" in granularities else "day"


def _combine(
    codes: Codes, keys: dict[str, Codes], column: str, new: Codes, size: int
) -> tuple[Codes, dict[str, Codes]]:
    """One code for each combination that occurs of the columns so far and another, and their codes by column."""
    if not keys:
        return new, {column: np.arange(size)}
    both = pa.array(codes * size + new).dictionary_encode()
    pairs = both.dictionary.to_numpy()
    before, last = np.divmod(pairs, size)
    return _codes(both), {**{name: key[before] for name, key in keys.items()}, column: last}


def _distinct(
    name: str, column: pa.ChunkedArray | pa.Array, span: str | None, zone: ZoneInfo
) -> tuple[Codes, list[object]]:
    """A code for each row, and the value of each code, all of which occur.

    Args:
        name: of the column, for errors.
        column: the values.
        span: `hour` or `day`, within which timestamps count as equal; None to tell all apart.
        zone: whose hours and days these are.
    """
    if isinstance(column, pa.ChunkedArray):
        if types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks):
            column = column.cast(column.type.value_type)  # Arrow cannot unify dictionaries that hold NULL
        column = column.unify_dictionaries().combine_chunks()
    if types.is_dictionary(column.type):
        # Its dictionary may hold values of other rows.
        codes, positions = _distinct(name, column.indices, None, zone)
        values = column.dictionary.take(pa.array(positions, column.indices.type))
        inner, distinct = _distinct(name, values, span, zone)
        return inner[codes], distinct
    if types.is_timestamp(column.type):
        column = _wall_clock(column, zone)
        column = column if span is None else pc.floor_temporal(column, unit=span)
    elif not _names_a_path(column.type):
        raise LayoutError(
            f"column {name} is of type {column.type}, which no path can name:",
            "cast it to a string, an integer, a decimal, a date or a timestamp.",
        )
    elif types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if span is not None and (types.is_string(column.type) or types.is_large_string(column.type)):
        column = _cut(column, span, zone)
    encoded = column.dictionary_encode(null_encoding="encode")
    return _codes(encoded), _python(name, encoded.dictionary)


def _wall_clock(column: pa.Array, zone: ZoneInfo) -> pa.Array:
    """What a clock in the zone shows, without a zone; in microseconds at most, which Python has."""
    if column.type.unit == "ns":
        column = _microseconds(column)
    if column.type.tz is None:
        return column
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, zone.key)))


def _microseconds(column: pa.Array) -> pa.Array:
    """The microsecond in which each nanosecond is; Arrow's cast would cut one before 1970 to the next."""
    nanos = column.view(pa.int64())
    cut = pc.divide(nanos, 1000)
    floor = pc.if_else(pc.greater(pc.multiply(cut, 1000), nanos), pc.subtract(cut, 1), cut)
    return floor.view(pa.timestamp("us", column.type.tz))


def _cut(texts: pa.Array, span: str, zone: ZoneInfo) -> pa.Array:
    """The texts, of which those of one day or hour are one: to read each as a time takes long.

    A text that is cut names the same day or hour by the zone's clock, or is no time before and after.
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


def _names_a_path(kind: pa.DataType) -> bool:
    """Whether a path can be made of the type; floating point numbers are for `compat: olake` to take or refuse."""
    checks = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_integer,
        types.is_boolean,
        types.is_decimal,
        types.is_date,
        types.is_floating,
        types.is_null,
    )
    return any(check(kind) for check in checks)
