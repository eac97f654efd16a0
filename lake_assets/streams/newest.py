"""The newest partitions of a stream, which a schedule refreshes."""

import datetime as dt

from lake_assets.config.streams import Stream
from lake_assets.layout.times import TIME_TYPES, TimeType
from lake_assets.streams.calendar import Calendar, Span


def recent_texts(stream: Stream, at: dt.datetime, lookback: int) -> dict[str, tuple[str, str] | None]:
    """The first and the last value of each time column in the window that ends at a moment.

    Years, months and days are in the stream's time zone, and hours in UTC, where no hour occurs twice.

    Args:
        stream: the config.
        at: the moment, with a time zone.
        lookback: the number of partitions before the current one in the window.

    Returns:
        The two values as a path has them, by the column's name, within the column's start and end; None if the window
        is outside of these.
    """
    return {
        name: _window(TIME_TYPES[stream.partitions[name].type], span, lookback)
        for name, span in Calendar(stream, at).spans.items()
    }


def _window(kind: TimeType, span: Span, lookback: int) -> tuple[str, str] | None:
    # Counted in calendar days: the day before is 23 or 25 hours ago when daylight saving begins or ends.
    start, present = (kind.number(kind.start(text)) for text in (span.first, span.present))
    first = kind.text(kind.at(max(present - lookback, start)))
    return None if first > span.last else (first, span.last)
