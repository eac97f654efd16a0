"""The partitions that a stream's config promises: its values, times the dates from `start` to today."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from zoneinfo import ZoneInfo

from lake_assets.config.streams import Stream
from lake_assets.partition import TIME_FORMATS, Partition, PartitionColumn, PartitionType, PartitionValue


def expected_partitions(stream: Stream, known: Sequence[Partition], now: dt.datetime) -> Iterator[Partition]:
    """Every partition that there should be by now.

    A column without configured values has those of the partitions that are known. Today is that of the stream's time
    zone; hours are those of UTC, up to the present one.

    Args:
        stream: the config.
        known: partitions that exist, of this stream.
        now: the moment, with a time zone.
    """
    columns = stream.columns
    values = [
        expected_values(stream, column, [p.values[index] for p in known], now) for index, column in enumerate(columns)
    ]
    return (Partition(columns, combination) for combination in product(*values))


def sort_key(partition: Partition) -> tuple[tuple[bool, bool, PartitionValue], ...]:
    """By the values from first to last, NULL after all others; a column's values have one type but for it."""
    return tuple((value is None, isinstance(value, str), value or 0) for value in partition.values)


def time_key(kind: PartitionType, value: PartitionValue) -> dt.datetime:
    """When a value of a column that is a time begins, by the clock that named it.

    Args:
        kind: one of `TIME_FORMATS`.
        value: of such a column, not NULL.
    """
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a clock's face
    if isinstance(value, int):
        return dt.datetime(value, 1, 1)  # noqa: DTZ001
    return dt.datetime.strptime(str(value), TIME_FORMATS[kind])  # noqa: DTZ007


def expected_values(
    stream: Stream, column: PartitionColumn, known: Sequence[PartitionValue], now: dt.datetime
) -> list[PartitionValue]:
    """The values of one column that there should be by now, each once; see `expected_partitions`."""
    field = stream.partitions[column.name]
    if field.start is not None:
        zone = ZoneInfo("UTC" if column.type == "hour" else stream.time_zone)
        present = now.astimezone(zone)
        last = present.date() if field.end is None else min(field.end, present.date())
        days = [field.start + dt.timedelta(days=n) for n in range((last - field.start).days + 1)]
        texts = dict.fromkeys(text for day in days for text in _TEXTS[column.type](day))
        if column.type == "hour":
            texts = {text: None for text in texts if text <= f"{present:%Y-%m-%d-%H}"}
        return [column.parse(text) for text in texts]
    if field.values is not None:
        return list(dict.fromkeys(column.parse(column.text(value)) for value in field.values))
    return list(dict.fromkeys(known))


_TEXTS: Mapping[PartitionType, Callable[[dt.date], Sequence[str]]] = MappingProxyType(
    {
        "year": lambda day: [f"{day.year:04}"],
        "month": lambda day: [day.isoformat()[:7]],
        "date": lambda day: [day.isoformat()],
        "hour": lambda day: [f"{day.isoformat()}-{hour:02}" for hour in range(24)],
    }
)
