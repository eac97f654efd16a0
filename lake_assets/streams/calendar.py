"""The partitions that a stream's config expects, and the reason why another partition is outside the config.

Every command, check, report and sensor and Dagster's definitions use this module, so that all of them agree.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from zoneinfo import ZoneInfo

from lake_assets.base.errors import FuturePartitionError, LakeAssetsError, OutsidePartitionError
from lake_assets.base.texts import nearest
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES, TimeType, zone_of
from lake_assets.config.partitions import PartitionField
from lake_assets.config.streams import StreamConfig

VALUES_NAMED = 10  # in an error
HasRows = Callable[[PartitionColumn, PartitionValue], bool]
"""Whether the lake has rows with this value of a partition column."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The values of a time column, as texts, which sort as times do."""

    first: str  # of `start`
    end: str | None  # of `end`; None if the config has none
    present: str

    @property
    def last(self) -> str:
        """The last value by now."""
        return self.present if self.end is None else min(self.end, self.present)


class Calendar:
    """The partitions that a stream's config expects at a moment, with a time zone; the present when None.

    A column without configured values has the known ones. Today is the date in the stream's time zone. Hours are in
    UTC, up to the present one.
    """

    def __init__(self, stream: StreamConfig, now: dt.datetime | None = None) -> None:
        self._stream = stream
        self._now = now or dt.datetime.now(dt.UTC)
        self.spans: Mapping[str, TimeSpan] = {
            column.name: self._span(column, stream.partitions[column.name])
            for column in stream.partition_columns
            if column.type in TIME_TYPES
        }
        self._values = {
            column.name: configured_values(column, values)
            for column in stream.partition_columns
            if (values := stream.partitions[column.name].values) is not None
        }
        self._known = {name: frozenset(values) for name, values in self._values.items()}
        self._verdicts: dict[tuple[str, PartitionValue], OutsidePartitionError | None] = {}  # of values of columns

    def expected(self, known: Sequence[Partition]) -> Iterator[Partition]:
        """Return every expected partition by now; a column without configured values has those of `known`."""
        columns = self._stream.partition_columns
        values = [self.values(column, [p.values[index] for p in known]) for index, column in enumerate(columns)]
        return (Partition(columns, combination) for combination in product(*values))

    def values(self, column: PartitionColumn, known: Iterable[PartitionValue] = ()) -> list[PartitionValue]:
        """Return the expected values of one column by now, each once; see `expected`."""
        if column.name in self._values:
            return list(self._values[column.name])
        if column.name not in self.spans:
            return list(dict.fromkeys(known))
        span = self.spans[column.name]
        kind = TIME_TYPES[column.type]
        first, last = (kind.number(kind.start(text)) for text in (span.first, span.last))
        return [column.parse(kind.text(kind.at(number))) for number in range(first, last + 1)]

    def has_values(self, column: PartitionColumn) -> bool:
        """Return whether the config has the values of a column; those of another come from the landing zone."""
        return column.name in self._values or column.name in self.spans

    def outside(self, partition: Partition, has_rows: HasRows | None = None) -> OutsidePartitionError | None:
        """Return why the config does not have a partition by now; None if it does. Some columns are enough.

        `has_rows` is for a partition that a person has typed: a value without rows in the lake may be a typo.
        """
        for column, value in zip(partition.columns, partition.values, strict=True):
            if has_rows is not None:
                error = self._outside(column, value, has_rows)
            elif (key := (column.name, value)) in self._verdicts:
                error = self._verdicts[key]
            else:
                error = self._verdicts[key] = self._outside(column, value, None)
            if error is not None:
                return error
        return None

    def _outside(
        self, column: PartitionColumn, value: PartitionValue, has_rows: HasRows | None
    ) -> OutsidePartitionError | None:
        if (span := self.spans.get(column.name)) is not None:
            return self._outside_span(column, span, column.text(value), is_null=value is None)
        values = self._values.get(column.name)
        if values is None or value in self._known[column.name]:
            return None
        text, texts = column.shown(value), [column.shown(known) for known in values]
        listed = ", ".join(texts[:VALUES_NAMED]) + (", …" if len(texts) > VALUES_NAMED else "")
        problem, fix = f"partition value {column.name}={text} is not in `values` ({listed})", "add it to `values`"
        if has_rows is not None and has_rows(column, value):
            problem, fix = f"{problem} any more, and the lake has rows of it", f"{fix} again"
        elif has_rows is not None and (near := nearest(text, texts)):
            fix = f"did you mean {near[0]}? Otherwise {fix}"
        hint = f"{fix}, or leave `values` out so that new ones are found."
        return OutsidePartitionError(f"{problem}:", hint, "not_in_values")

    def _outside_span(
        self, column: PartitionColumn, span: TimeSpan, text: str, *, is_null: bool
    ) -> OutsidePartitionError | None:
        field, named = self._stream.partitions[column.name], f"partition value {column.name}={text}"
        if is_null:
            return OutsidePartitionError(
                f"partition value {column.name} is NULL, and the column has the type {column.type}:",
                f"ingest it with `--outside`, or land its rows with a value of {column.name}.",
                "null_time",
            )
        if text < span.first:
            return OutsidePartitionError(
                f"{named} is before start {field.start}:", "move `start` back.", "before_start"
            )
        if span.end is not None and text > span.end:
            return OutsidePartitionError(
                f"{named} is after end {field.end}:", "move `end`, or leave it out.", "after_end"
            )
        if text > span.present:
            return FuturePartitionError(
                f"{named} is in the future.", "Use --outside to ingest it anyway.", "in_the_future"
            )
        return None

    def _span(self, column: PartitionColumn, field: PartitionField) -> TimeSpan:
        kind = TIME_TYPES[column.type]
        assert field.start is not None  # noqa: S101 - the config requires it of a time
        return TimeSpan(
            kind.text(dt.datetime.combine(field.start, dt.time.min)),
            kind.text(dt.datetime.combine(field.end, dt.time.max)) if field.end else None,
            kind.text(self._now.astimezone(ZoneInfo(zone_of(kind.name, self._stream.time_zone)))),
        )


def configured_values(column: PartitionColumn, values: Iterable[str]) -> list[PartitionValue]:
    """Return the configured values of a column, typed, each once: 7 and 07 are the same integer."""
    return list(dict.fromkeys(column.parse(column.text(value)) for value in values))


def deferred(error: LakeAssetsError) -> LakeAssetsError:
    """Return the error as sensors and schedules log it: they ingest one of the future when its time has come."""
    if not isinstance(error, FuturePartitionError):
        return error
    return FuturePartitionError(error.problem, "It is ingested when its time has come.", error.reason)


def sort_key(partition: Partition) -> tuple[tuple[bool, bool, PartitionValue], ...]:
    """Return a key that sorts partitions by their values, column by column, with NULL last."""
    return tuple((value is None, isinstance(value, str), 0 if value is None else value) for value in partition.values)


def recent_texts(stream: StreamConfig, at: dt.datetime, lookback: int) -> dict[str, tuple[str, str] | None]:
    """Return the first and the last value of each time column in the window that ends at a moment.

    Years, months and days are in the stream's time zone, and hours in UTC, where no hour occurs twice. The window has
    so many partitions before the current one. The two values are as a path has them, within the column's start and end;
    None if the window is outside of these.
    """
    return {
        name: _window(TIME_TYPES[stream.partitions[name].type], span, lookback)
        for name, span in Calendar(stream, at).spans.items()
    }


def _window(kind: TimeType, span: TimeSpan, lookback: int) -> tuple[str, str] | None:
    # Counted in calendar days: the day before is 23 or 25 hours ago when daylight saving begins or ends.
    start, present = (kind.number(kind.start(text)) for text in (span.first, span.present))
    first = kind.text(kind.at(max(present - lookback, start)))
    return None if first > span.last else (first, span.last)
