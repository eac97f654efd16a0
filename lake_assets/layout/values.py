"""Typed values as texts in paths: Spark's form, and Go's `%v` for `compat: olake`."""

import datetime as dt
import math
from decimal import Decimal

from lake_assets.errors import LayoutError
from lake_assets.layout.timestamps import in_zone, read_timestamp


def value_text(column: str, value: object, zone: dt.tzinfo) -> str | None:
    """Return the value as Spark casts it to a string for a path, not encoded; None for NULL.

    Booleans are `true` and `false`, decimals have no exponent, dates are `YYYY-MM-DD`, timestamps are local times in
    `zone`: `YYYY-MM-DD HH:MM:SS`, with the fraction of the second unless it is zero. Paths cannot hold floating point
    numbers, bytes, lists and structs.
    """
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case dt.datetime():
            time = _clock(column, value, zone)
            fraction = f".{time.microsecond:06d}".rstrip("0").rstrip(".")
            return f"{time:%H:%M:%S}".join((f"{time.date().isoformat()} ", fraction))
        case dt.date():
            return value.isoformat()
    raise unfit(column, type(value).__name__)


def value_time(column: str, value: object, zone: dt.tzinfo) -> dt.datetime | None:
    """Return the value's local time in `zone`; None for NULL and for a text that is not a timestamp.

    Other types are a LayoutError.
    """
    match value:
        case None:
            return None
        case str():
            return read_timestamp(value, zone)
        case dt.datetime():
            return _clock(column, value, zone)
        case dt.date():
            return dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a local time
    raise LayoutError(
        f"column {column} has the value {value!r} of type {type(value).__name__}, and its granularity needs a time:",
        "cast the column to a date or a timestamp, or leave the granularity out of the layout.",
    )


def unfit(column: str, kind: object) -> LayoutError:
    """Return the error for a type that paths cannot hold."""
    return LayoutError(
        f"column {column} is of type {kind}, which paths cannot hold:",
        "cast it to a string, an integer, a decimal, a date or a timestamp.",
    )


def out_of_range(column: str) -> LayoutError:
    """Return the error for a time that Python cannot represent."""
    return LayoutError(
        f"column {column} has a time before year 1 or after year 9999:", "give it a time within these years."
    )


def _clock(column: str, time: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    try:
        return in_zone(time, zone)
    except OverflowError as error:
        raise out_of_range(column) from error


def go_text(column: str, value: object) -> str:
    """Return the value as Go's `%v` prints it for OLake; times in UTC.

    Errors are as of `value_text`; floating point numbers are accepted.
    """
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, dt.date):  # for OLake a date is the time of its midnight
        if not isinstance(value, dt.datetime):
            value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a local time
        return f"{value_text(column, value, dt.UTC)} +0000 UTC"
    return value_text(column, value, dt.UTC) or ""


def _go_float(value: float) -> str:
    """Write Go's `%v`: the shortest digits that identify the number, with an exponent below 1e-4 and from 1e21."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{digits}e{int(exponent):+03d}"
