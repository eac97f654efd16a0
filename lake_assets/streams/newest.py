"""The newest partitions of a stream at a moment: those that a schedule refreshes."""

import datetime as dt
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import pendulum

from lake_assets.config.streams import Stream
from lake_assets.layout.partition import PartitionType
from lake_assets.streams.calendar import Calendar, Span, time_text

Unit = Literal["years", "months", "days", "hours"]

_UNITS: Mapping[PartitionType, Unit] = MappingProxyType(
    {"year": "years", "month": "months", "date": "days", "hour": "hours"}
)


def recent_texts(stream: Stream, at: dt.datetime, lookback: int) -> dict[str, tuple[str, str] | None]:
    """For each partition column that is a time, its first and its last value in the window that ends at a moment.

    Years, months and days are those of the stream's time zone, however long its clock makes a day; hours are those of
    UTC, of which each has a name of its own.

    Args:
        stream: whose columns they are.
        at: the moment, with a time zone.
        lookback: how many partitions before the current one belong to the window.

    Returns:
        Values as a path writes them, by the column's name, within the column's start and end; None where the window
        lies outside these.
    """
    calendar = Calendar(stream, at)
    return {name: _window(stream, name, span, at, lookback) for name, span in calendar.spans.items()}


def _window(stream: Stream, name: str, span: Span, at: dt.datetime, lookback: int) -> tuple[str, str] | None:
    kind = stream.partitions[name].type
    # An hour of a zone with daylight saving would have one name for two.
    current = pendulum.instance(at).in_timezone("UTC" if kind == "hour" else stream.time_zone)
    # On the calendar, not on the clock: the day before is 23 or 25 hours ago where daylight saving begins or ends.
    day = pendulum.datetime(current.year, current.month, current.day, current.hour)
    first = max(time_text(day.subtract(**{_UNITS[kind]: lookback}), kind), span.first)
    return None if first > span.last else (first, span.last)
