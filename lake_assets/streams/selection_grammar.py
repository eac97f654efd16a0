"""The selection grammar: `region=NW|NE,date=2026-02-01..2026-02-28`.

A selection has conditions on columns, which commas separate; a column without a condition may have any value. A
condition has alternatives, which `|` separates:

| alternative        | selects                                                          | columns           |
|--------------------|------------------------------------------------------------------|-------------------|
| `NW`, `2026-02-11` | the value                                                        | all               |
| `*`                | every value                                                      | all               |
| `N*`               | the values of that form; `*` is any number of characters         | all               |
| `A..B`             | the values from A to B, both included; A or B may be left out    | all               |
| `2026-02`, `2026`  | the values in that period                                        | month, date, hour |
| `last:7`           | the last seven values by now                                     | times             |

A character of the grammar that is part of a value is percent-encoded: `%2A` for `*`, `%7C` for `|`, `%2E%2E` for `..`,
`%2C` for a comma, `%25` for a percent sign, and `last%3A7` for the text `last:7`.
"""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

from lake_assets.base.errors import PartitionError
from lake_assets.base.texts import shown
from lake_assets.config.layout.hive import unescape
from lake_assets.config.layout.partition import WHOLE, Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES, TimeType
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.calendar import Calendar

_ALTERNATIVES, _RANGE, _ANY, _LAST = "|", "..", "*", "last:"
_EXAMPLE = "write conditions such as region=NW,date=2026-02-11, each column once (a comma in a value as %2C)."

Comparable = str | int
"""What values of a column are compared by: texts of times and strings, or numbers."""


@dataclass(frozen=True, slots=True)
class OneValue:
    """One value."""

    value: PartitionValue

    def matches(self, column: PartitionColumn, value: PartitionValue) -> bool:  # noqa: ARG002 - of all alternatives
        """Return whether it is the value."""
        return value == self.value


@dataclass(frozen=True, slots=True)
class Between:
    """The values from one to another, both included; None means no bound. NULL is never between."""

    first: Comparable | None
    last: Comparable | None

    def matches(self, column: PartitionColumn, value: PartitionValue) -> bool:
        """Return whether the value is in the range."""
        if value is None:
            return False
        key = _key(column, value)
        # Both bounds and the value have the type of the column.
        return (self.first is None or key >= self.first) and (self.last is None or key <= self.last)  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The texts of a form; of `*` every value, NULL too."""

    form: str

    def matches(self, column: PartitionColumn, value: PartitionValue) -> bool:
        """Return whether the value's text has the form."""
        if self.form == _ANY or value is None:
            return self.form == _ANY
        parts = (re.escape(column.composed(unescape(part))) for part in self.form.split(_ANY))
        return re.fullmatch(".*".join(parts), str(_key(column, value)), re.DOTALL) is not None


Alternative = OneValue | Between | Pattern
EVERY = (Pattern(_ANY),)


@dataclass(frozen=True, slots=True)
class Selector:
    """What one selection text means, for the columns of a stream."""

    columns: tuple[PartitionColumn, ...]
    conditions: tuple[tuple[Alternative, ...], ...]  # of each column: one of them is enough

    @property
    def named(self) -> list[Partition] | None:
        """The partitions, if the text names each by its values; None if it describes them."""
        values: list[list[PartitionValue]] = []
        for condition in self.conditions:
            named = [alternative.value for alternative in condition if isinstance(alternative, OneValue)]
            if len(named) < len(condition):
                return None
            values.append(named)
        return [Partition(self.columns, combination) for combination in product(*values)]

    @property
    def values(self) -> list[Partition]:
        """Each value that a condition names, as a partition of that column alone."""
        return [
            Partition((column,), (alternative.value,))
            for column, condition in zip(self.columns, self.conditions, strict=True)
            for alternative in condition
            if isinstance(alternative, OneValue)
        ]

    def matches(self, partition: Partition) -> bool:
        """Return whether a partition of the stream is selected."""
        return all(
            any(alternative.matches(column, value) for alternative in condition)
            for column, condition, value in zip(self.columns, self.conditions, partition.values, strict=True)
        )

    def expected(self, calendar: Calendar, most: int) -> list[Partition] | None:
        """Return the selected partitions that the config expects by now, with named values that it does not have.

        None if the values of a column come from the landing zone, or if these are more than `most` partitions.
        """
        values: list[list[PartitionValue]] = []
        for column, condition in zip(self.columns, self.conditions, strict=True):
            named = [alternative.value for alternative in condition if isinstance(alternative, OneValue)]
            patterns = [alternative for alternative in condition if not isinstance(alternative, OneValue)]
            if patterns and not calendar.has_values(column):
                return None
            known = calendar.values(column) if patterns else []
            matching = [value for value in known if any(pattern.matches(column, value) for pattern in patterns)]
            values.append(list(dict.fromkeys([*named, *matching])))
        if prod(map(len, values)) > most:
            return None
        return [Partition(self.columns, combination) for combination in product(*values)]


def parse_selector(stream: StreamConfig, text: str, calendar: Calendar) -> Selector:
    """Read a selection such as `region=NW|NE,date=last:7`, where `last:7` ends with the calendar's last value."""
    if text == WHOLE and not stream.partition_columns:
        return Selector((), ())
    texts: dict[str, str] = {}
    for part in text.split(","):
        name, equals, condition = part.partition("=")
        name = name.strip()
        if not stream.partition_columns:
            raise PartitionError(f"{shown(text)}: the stream has no partition columns:", f"write {WHOLE}.")
        if not equals or name in texts:
            raise PartitionError(f"{shown(text)} is not a selection of partitions:", _EXAMPLE)
        texts[name] = condition
    columns = {column.name: column for column in stream.partition_columns}
    if (selection := re.sub(rf"/(?=(?:{'|'.join(map(re.escape, columns))})=)", ",", text)) != text:
        raise PartitionError(f"{shown(text)} is a path:", f"write {selection} (a slash inside a value as %2F).")
    if unknown := [name for name in texts if name not in columns]:
        raise PartitionError(
            f"the stream has no partition column {shown(unknown[0])}:",
            f"its columns are {', '.join(columns)}; write {','.join(f'{name}=…' for name in columns)}.",
        )
    conditions = {name: _condition(columns[name], condition, calendar) for name, condition in texts.items()}
    return Selector(stream.partition_columns, tuple(conditions.get(name, EVERY) for name in columns))


def _condition(column: PartitionColumn, text: str, calendar: Calendar) -> tuple[Alternative, ...]:
    return tuple(_alternative(column, part, calendar) for part in text.split(_ALTERNATIVES))


def _alternative(column: PartitionColumn, text: str, calendar: Calendar) -> Alternative:
    kind = TIME_TYPES.get(column.type)
    if text.startswith(_LAST):
        return _newest(column, kind, text, calendar)
    if _RANGE in text:
        first, _, last = text.partition(_RANGE)
        return _range(column, kind, first, last)
    if _ANY in text:
        return Pattern(text)
    if kind is not None and (period := _period(kind, text)) is not None:
        return Between(*period)
    return OneValue(_value(column, text))


def _value(column: PartitionColumn, text: str) -> PartitionValue:
    """Return the value that a text names."""
    (value,) = Partition.parse((column,), f"{column.name}={text}").values
    return value


def _range(column: PartitionColumn, kind: TimeType | None, first: str, last: str) -> Between:
    if not first and not last:
        raise PartitionError(
            f"the range of partition column {column.name} has no values:",
            f"write {_example(column)}, or {column.name}=* for every value.",
        )
    between = Between(_bound(column, kind, first, 0), _bound(column, kind, last, -1))
    if between.first is not None and between.last is not None and between.first > between.last:  # type: ignore[operator]
        raise PartitionError(
            f"the range {column.name}={first}{_RANGE}{last} ends before it begins:",
            f"write the smaller value first: {column.name}={last}{_RANGE}{first}.",
        )
    return between


def _bound(column: PartitionColumn, kind: TimeType | None, text: str, end: int) -> Comparable | None:
    """Return a bound of a range; a period, such as a month of dates, has two: `end` is 0 or -1."""
    if not text:
        return None
    if kind is not None and (period := _period(kind, text)) is not None:
        return period[end]
    value = _value(column, text)
    if value is None:
        raise PartitionError(
            f"partition column {column.name} has a range with NULL, which has no order:",
            f"name NULL beside a range: {_example(column)}|{text}.",
        )
    return _key(column, value)


def _period(kind: TimeType, text: str) -> tuple[str, str] | None:
    """Return the first and last value in a longer time than a value; None if the text is none."""
    for period in TIME_TYPES.values():
        if len(period.parts) >= len(kind.parts):
            continue
        try:
            start = period.start(text)
        except ValueError:
            continue
        if period.text(start) != text:
            continue
        return kind.within(period, start)
    return None


def _newest(column: PartitionColumn, kind: TimeType | None, text: str, calendar: Calendar) -> Between:
    """Return the last values of a time column, up to the present one or the config's last."""
    number = text.removeprefix(_LAST)
    if kind is None:
        raise PartitionError(
            f"partition column {column.name} is of type {column.type}, and {text} is for times:",
            f"name its values, or write last%3A{number} for that text.",
        )
    if not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise PartitionError(
            f"partition column {column.name} has {text!r}, which is not a number of {kind.noun}s:",
            f"write one from 1 on, such as {column.name}=last:7.",
        )
    last = calendar.spans[column.name].last
    try:
        first = kind.text(kind.at(kind.number(kind.start(last)) - int(number) + 1))
    except (ValueError, OverflowError):  # before the year 1
        return Between(None, last)
    return Between(first, last)


def _key(column: PartitionColumn, value: PartitionValue) -> Comparable:
    assert value is not None  # noqa: S101 - the callers have handled NULL
    if column.type in TIME_TYPES:
        return column.text(value)
    return value if isinstance(value, int) else str(value)


def _example(column: PartitionColumn) -> str:
    kind = TIME_TYPES.get(column.type)
    if kind is None:
        return f"{column.name}={'1..10' if column.type == 'integer' else 'A..C'}"
    first, last = (kind.text(dt.datetime(2026, month, 1, tzinfo=dt.UTC)) for month in (1, 2))
    return f"{column.name}={first}{_RANGE}{last}"


def values_text(partitions: Iterable[Partition]) -> str:
    """Return the values of partitions, column by column: `region NE, NW; date 2026-02-01 to 2026-02-28`."""
    by_column: dict[PartitionColumn, dict[PartitionValue, None]] = {}
    for partition in partitions:
        for column, value in zip(partition.columns, partition.values, strict=True):
            by_column.setdefault(column, {})[value] = None
    texts = [f"{column.name} {_values_text(column, list(values))}" for column, values in by_column.items()]
    return "; ".join(texts) or WHOLE


def _values_text(column: PartitionColumn, values: list[PartitionValue]) -> str:
    texts = [column.shown(value) for value in values]
    if len(texts) <= _LISTED:
        return ", ".join(sorted(texts))
    if column.type in TIME_TYPES:
        times = sorted(column.text(value) for value in values if value is not None)
        null = "" if len(times) == len(values) else " and NULL"
        return f"{times[0]} to {times[-1]}{null} ({len(texts):,})"
    return f"{', '.join(sorted(texts)[:_LISTED])} and {len(texts) - _LISTED:,} more"


_LISTED = 5  # values of a column
