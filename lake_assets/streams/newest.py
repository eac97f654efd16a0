"""The newest partitions of a stream at a moment: those that a schedule refreshes."""

import datetime as dt

from lake_assets.config.streams import Stream
from lake_assets.layout.times import TIME_TYPES, TimeType
from lake_assets.streams.calendar import Calendar, Span


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
    return {
        name: _window(TIME_TYPES[stream.partitions[name].type], span, lookback)
        for name, span in Calendar(stream, at).spans.items()
    }


def _window(kind: TimeType, span: Span, lookback: int) -> tuple[str, str] | None:
    # On the calendar, not on the clock: the day before is 23 or 25 hours ago where daylight saving begins or ends.
    start, present = (kind.number(kind.start(text)) for text in (span.first, span.present))
    first = kind.text(kind.at(max(present - lookback, start)))
    return None if first > span.last else (first, span.last)
