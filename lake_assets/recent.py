"""The newest partitions of a stream at a moment: those that a schedule refreshes."""

import datetime as dt
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import pendulum

from lake_assets.config.streams import PartitionField, Stream
from lake_assets.partition import TIME_FORMATS, PartitionType

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
    times = {name: field for name, field in stream.partitions.items() if field.type in TIME_FORMATS}
    return {name: _window(field, stream.time_zone, at, lookback) for name, field in times.items()}


def _window(field: PartitionField, time_zone: str, at: dt.datetime, lookback: int) -> tuple[str, str] | None:
    # An hour of a zone with daylight saving would have one name for two.
    zone = "UTC" if field.type == "hour" else time_zone
    unit = _UNITS[field.type]
    current = pendulum.instance(at).in_timezone(zone)
    # On the calendar, not on the clock: the day before is 23 or 25 hours ago where daylight saving begins or ends.
    day = pendulum.datetime(current.year, current.month, current.day, current.hour)
    last = day if field.end is None else min(day, _end(field.end))
    assert field.start is not None  # noqa: S101 - the config requires it of a time
    first = max(
        day.subtract(**{unit: lookback}), pendulum.datetime(field.start.year, field.start.month, field.start.day)
    )
    form = TIME_FORMATS[field.type]
    texts = first.strftime(form), last.strftime(form)
    return None if texts[0] > texts[1] else texts


def _end(date: dt.date) -> pendulum.DateTime:
    """The last hour of a date."""
    return pendulum.datetime(date.year, date.month, date.day, 23)
