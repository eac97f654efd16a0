"""Comparison of rows with a partition value that is derived from another of their columns."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.base.errors import LayoutError, SchemaError
from lake_assets.base.texts import value_text
from lake_assets.config.layout.derived import Derived
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.schema.bad_rows import bad_by_halves, positions
from lake_assets.schema.spans import ValueSpan

_DAY = dt.timedelta(days=1)


def derived_values(
    derived: Sequence[Derived], partition: Partition, names: Mapping[str, str], origin: str
) -> Iterator["DerivedValue"]:
    """Return the values of a partition that are derived from columns of the rows, `names` by their lower case."""
    sources = {source.name: source for source in derived}
    for column, value in zip(partition.columns, partition.values, strict=True):
        source = sources.get(column.name)
        if source is not None and source.column.lower() in names:
            yield DerivedValue(source, column, value, names[source.column.lower()], partition, origin)


@dataclass(frozen=True, slots=True)
class DerivedValue:
    """A partition value, and the column of the rows that it is derived from."""

    derived: Derived
    column: PartitionColumn
    value: PartitionValue
    name: str  # the rows' column
    partition: Partition  # for errors
    origin: str  # the object or result with the rows, for errors

    def has(self, batch: pa.RecordBatch) -> pa.Array:
        """Return whether each row has the value. A text that is no time is refused."""
        values = batch.column(self.name)
        texts = self._texts(values)
        no_time = pc.and_(pc.is_valid(values), pc.equal(texts, HIVE_NULL))
        if t.is_null(values.type) or not pc.any(no_time).as_py():
            return self._is_of(texts)
        text = values[pc.index(no_time, True).as_py()].as_py()
        if text == "":  # the same as NULL, as in a path
            return self._is_of(texts)
        raise SchemaError(
            f"column {self.name!r} of {self.origin} selects the rows of a partition, and has the value {text!r}, which "
            "is not a time:",
            "write it as a timestamp such as 2026-02-11T13:45:00Z; docs/layout.md lists other formats.",
        )

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse rows of other partitions."""
        is_other = self.is_other(batch)
        if pc.any(is_other).as_py():
            values = batch.column(self.name)
            texts = self._texts(values)
            place = pc.index(is_other, True).as_py()
            value, text = values[place].as_py(), texts[place].as_py()
            row = f"{self.name}={value_text(value)}"
            made = f"{self.column.name}={'NULL' if text == HIVE_NULL else text}"
            is_time = self.column.type in TIME_TYPES
            clock = f" in the time zone {self.derived.template.time_zone}" if is_time else ""
            hint = ", or correct the layout's time_zone in the config." if is_time else "."
            raise SchemaError(
                f"{self.origin} has a row with {row}, which is {made}{clock}, and belongs to {self.partition}:",
                f"land the row in its own partition{hint}",
            )

    def is_other(self, batch: pa.RecordBatch) -> pa.Array:
        """Return whether each row belongs to another partition."""
        return pc.invert(self._is_of(self._texts(batch.column(self.name))))

    def others(self, batch: pa.RecordBatch) -> list[int]:
        """Return the positions of rows of other partitions, and of rows from which no value can be derived."""
        try:
            return positions(self.is_other(batch))
        except SchemaError:
            self.is_other(batch.slice(0, 0))

        def fits(values: pa.Array) -> bool:
            try:
                return bool(pc.all(self._is_of(self._texts(values))).as_py())
            except SchemaError:
                return False

        return list(bad_by_halves(batch.column(self.name), fits))

    def is_proved(self, span: ValueSpan, kind: pa.DataType) -> bool:
        """Return whether the bounds of the rows' column, as texts, prove that all rows have the value."""
        if self.value is None:
            return not span.has_value
        # Only times sort as the days that are derived from them. In another zone the clock may go back over midnight.
        sorts = t.is_date(kind) or (
            t.is_timestamp(kind) and (kind.tz is None or self.derived.template.time_zone == "UTC")
        )
        if span.has_null or not sorts or span.least is None or span.greatest is None:
            return False
        return bool(pc.all(self._is_of(self._texts(pa.array([span.least, span.greatest])))).as_py())

    def may_be_in(self, span: ValueSpan) -> bool:
        """Return whether a row group may have the value, by the values of the rows' column in it."""
        return days_of(self.derived, self.column, span).may_hold(day_of(self.column, self.value))

    def _is_of(self, texts: pa.Array) -> pa.Array:
        return pc.is_in(
            texts, pa.array([self.column.text(form) for form in self.column.forms(self.value)], pa.string())
        )

    def _texts(self, values: pa.Array) -> pa.Array:
        try:
            return self.derived.texts(values).cast(pa.string())
        except LayoutError as error:
            kinds = "a date or a timestamp of the years 1 to 9999" if self.column.type in TIME_TYPES else "a text"
            raise SchemaError(
                f"no {self.column.name} can be derived from column {self.name!r} of {self.origin}: {error.problem}",
                f"land {kinds} in it, or name another column as `from` of {self.column.name} in the config.",
            ) from error


def day_of(column: PartitionColumn, value: PartitionValue) -> str | None:
    """Return the text of a derived value up to its day, as `days_of` has it; None for NULL."""
    # The text of an hour begins with that of its day, and ISO texts sort by time.
    return None if value is None else column.text(value)[:10]


def days_of(derived: Derived, column: PartitionColumn, span: ValueSpan) -> ValueSpan:
    """Return the days, weeks, months or years that values of the rows' column have, as texts."""
    if column.type not in TIME_TYPES:
        return ValueSpan()
    # A text that is not a time is NULL too.
    has_null = span.has_null or span.least is None or isinstance(span.least, str)
    try:
        is_utc = derived.template.time_zone == "UTC"
        least, greatest = _days(span.least, is_utc)[0], _days(span.greatest, is_utc)[1]
    except (OverflowError, ValueError):  # a date that Python does not have, or a text without a date
        return ValueSpan(has_null=has_null)
    kind = TIME_TYPES["date" if column.type == "hour" else column.type]
    first, last = (kind.text(dt.datetime.combine(day, dt.time.min)) for day in (least, greatest))
    return ValueSpan(first, last, has_null)


def _days(value: object, is_utc: bool) -> tuple[dt.date, dt.date]:
    """Return the first and the last day of a value, in UTC or in any time zone."""
    if isinstance(value, str):
        day = dt.date.fromisoformat(value[:10])
        return day - 2 * _DAY, day + 2 * _DAY  # the text and the stream may have different offsets
    if isinstance(value, dt.datetime):
        if value.tzinfo and is_utc:
            value = value.astimezone(dt.UTC)
        day, off = value.date(), _DAY if value.tzinfo and not is_utc else 0 * _DAY
        return day - off, day + off
    if isinstance(value, dt.date):
        return value, value
    raise ValueError("not a time")
