"""The values of partition columns in rows and in statistics, compared with those of a partition.

By the statistics of the columns that select rows, row groups without rows of a partition are left out. A partition
value may be derived from another column of the rows.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.base.errors import LayoutError, PartitionError, SchemaError, SourceError
from lake_assets.base.texts import value_text, visible_name
from lake_assets.config.layout.derived import Derived
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionType, PartitionValue
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.modes import FileFact
from lake_assets.schema.arrow_types import is_text, without_columns
from lake_assets.schema.bad_rows import bad_by_halves, positions
from lake_assets.schema.casts import cast

_SURE = "1900"  # a year from which the same time has one name in all calendars

Statistics: TypeAlias = pq.Statistics | None


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """The values that a column may have in some row groups."""

    least: Any = None  # of one type with `greatest`; both are None if the bounds are unknown
    greatest: Any = None
    has_null: bool = True  # whether NULL may be among them
    has_value: bool = True  # whether another value may be

    def may_hold(self, value: PartitionValue) -> bool:
        """Return whether the column may have the value."""
        if value is None:
            return self.has_null
        # Texts of numbers or dates do not sort as the numbers or dates do.
        comparable: Any = value
        return type(self.least) is not type(value) or bool(self.least <= comparable <= self.greatest)


Box: TypeAlias = tuple[ValueSpan, ...]
"""What the columns that select rows may have in the same row groups."""


def span_of(statistics: Statistics, *, is_old: bool = False) -> ValueSpan:
    """Return the values that the statistics of a column allow; early days of an old calendar have other names there."""
    if statistics is None:
        return ValueSpan()
    has_null = not statistics.has_null_count or statistics.null_count != 0
    with suppress(OverflowError, ValueError):  # a date that Python does not have, or no text
        if statistics.has_min_max and has_ordered_bounds(statistics):
            bounds = (statistics.min, statistics.max)
            least, greatest = (end.decode() if isinstance(end, bytes) else end for end in bounds)  # bytes of an ENUM
            if not (is_old and str(least) < _SURE):
                return ValueSpan(least, greatest, has_null)
    return ValueSpan(has_null=has_null)


def has_ordered_bounds(statistics: pq.Statistics) -> bool:
    """Return whether the least value is not greater than the greatest, as some writers have it of unsigned numbers."""
    try:
        return bool(statistics.min <= statistics.max)
    except (OverflowError, ValueError):  # times are signed numbers
        return bool(statistics.min_raw <= statistics.max_raw)


def has_whole_texts(statistics: pq.Statistics) -> bool:
    """Return whether the bounds of texts are texts; some writers cut them within a character."""
    try:
        return isinstance(statistics.min, str) and isinstance(statistics.max, str)
    except UnicodeDecodeError:
        return False


def has_wrong_counts(statistics: pq.Statistics) -> bool:
    """Return whether there are bounds of values, and no value beside the NULLs that are counted.

    Polars counted the NULLs of a column once for each page, and DuckDB finds no row of such a column by a condition.
    """
    values = statistics.num_values if statistics.has_null_count else 1
    return bool(values < 0 or (values == 0 and statistics.has_min_max))


def merged_boxes(boxes: Iterable[Box], most: int) -> tuple[Box, ...]:
    """Return boxes that hold at least the same values: at most so many, one if there would be more.

    Those that differ in the last column alone are merged if they overlap there.
    """
    by_others: dict[Box, list[ValueSpan]] = {}
    for box in boxes:
        by_others.setdefault(box[:-1], []).append(box[-1])
    fewer = tuple((*others, span) for others, spans in by_others.items() for span in _merged(spans))
    return fewer if len(fewer) <= most else (tuple(_hull(spans) for spans in zip(*fewer, strict=True)),)


def _merged(spans: Sequence[ValueSpan]) -> list[ValueSpan]:
    if any(span.least is None for span in spans):
        return [_hull(spans)]
    first, *others = sorted(spans, key=lambda span: span.least)
    apart = [replace(first, has_null=any(span.has_null for span in spans))]
    for span in others:
        if span.least > apart[-1].greatest:
            apart.append(replace(span, has_null=False))
        elif span.greatest > apart[-1].greatest:
            apart[-1] = replace(apart[-1], greatest=span.greatest)
    return apart


def _hull(spans: Sequence[ValueSpan]) -> ValueSpan:
    has_null = any(span.has_null for span in spans)
    if any(span.least is None for span in spans):
        return ValueSpan(has_null=has_null)
    return ValueSpan(min(span.least for span in spans), max(span.greatest for span in spans), has_null)


_DAY = r"^(\d{4})-?(\d{2})-?(\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?)?$"  # also 20260211, and midnight
_NUMBERS = (t.is_integer, t.is_floating, t.is_decimal)

# The types, besides texts, of a column of the files whose values select the rows of a partition column.
_SELECTING = MappingProxyType[PartitionType, Sequence[object]](
    {
        "string": (t.is_integer, t.is_date),
        "integer": _NUMBERS,
        "year": _NUMBERS,
        "month": (),
        "week": (),
        "date": (t.is_date, lambda data_type: t.is_timestamp(data_type) and data_type.tz is None),
        "hour": (),
    }
)


def typed_value(column: PartitionColumn, value: PartitionValue) -> pa.Scalar:
    """Return a partition's value as an Arrow scalar; NULL has the column's type too."""
    return pa.scalar(
        value, {"integer": pa.int64(), "year": pa.int64(), "date": pa.date32()}.get(column.type, pa.string())
    )


def selecting_values(
    source: pa.Schema, by_name: Mapping[str, str], partition: Partition, origin: str, derived: Iterable[Derived]
) -> dict[str, pa.Scalar]:
    """Return the values that select the rows of a partition, by column of the source."""
    values, sources = {}, {source.name: source for source in derived}
    for column, value in zip(partition.columns, partition.values, strict=True):
        if not column.in_rows:
            continue
        selecting = sources[column.name].column if column.name in sources else column.name
        name = by_name.get(selecting.lower())
        if name is None:
            raise SchemaError(
                f"{origin} has no column {selecting!r}, which selects the rows of a partition:",
                "land it again with that column, or correct `partitions` in the config.",
            )
        if column.name in sources and not sources[column.name].is_whole:
            continue
        given = source.field(name).type
        data_type = given.value_type if t.is_dictionary(given) else given
        if not any(is_kind(data_type) for is_kind in (t.is_null, is_text, *_SELECTING[column.type])):
            raise SchemaError(
                f"column {name!r} of {origin} is {given}, and cannot hold a partition of type {column.type}:",
                "correct the type of this partition column in the config, or land the column as text.",
            )
        values[name] = typed_value(column, value)
    return values


def is_other(array: pa.Array, column: PartitionColumn, value: PartitionValue) -> pa.Array:
    """Return whether each value of a partition column in the rows differs from the partition's value."""
    if value is None:
        return pc.is_valid(array)
    if column.type != "string" and any(is_kind(array.type) for is_kind in _SELECTING[column.type]):  # type: ignore[operator]
        # A date may be a timestamp at midnight and a number may be a float, with other texts.
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # types without a common type
            return pc.fill_null(pc.not_equal(array, typed_value(column, value)), True)
    texts, is_of = _texts(array, column), pa.array([str(form) for form in column.forms(value)], pa.string())
    return pc.invert(pc.is_in(texts, is_of))


def _texts(array: pa.Array, column: PartitionColumn) -> pa.Array:
    """Return the values as texts; a day has one text in each form that can be nothing else."""
    if column.type != "date":
        return cast(array, pa.string())
    if t.is_uint16(array.type):  # as ClickHouse writes days since 1970
        array = array.cast(pa.int32()).cast(pa.date32())
    return pc.replace_substring_regex(cast(array, pa.string()), _DAY, r"\1-\2-\3")


def _is_of(column: PartitionColumn, text: str) -> bool:
    try:
        column.parse(text)
    except PartitionError:
        return False
    return True


def other_value(array: pa.Array, name: str, column: PartitionColumn, value: PartitionValue) -> tuple[str, str] | None:
    """Return a value of a partition column in the rows that differs from the partition's, with a fix."""
    wrong = array.filter(is_other(array, column, value))
    if not len(wrong):
        return None
    text = cast(wrong[:1], pa.string())[0].as_py()
    fix = "land the row in its own partition."
    if value is None:
        fix = (
            f"{fix} If the layout writes NULL as this value too, as OLake, give the partition column another name and "
            f"from: {name}."
        )
    elif column.type in TIME_TYPES and str(text).startswith(str(value)):
        fix = f"if the path holds a part of it, give the partition column another name and from: {name}."
    elif text is not None and not _is_of(column, text):
        fix = (
            f"if it is the path's value in another form, name the partition column otherwise, such as {name}_of_path, "
            f"and give the layout its folder: {name}={{{name}_of_path}}."
        )
    return f"{column.name}={value_text(text)}", fix


def cast_whole(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast values to a type; refuses a timestamp with a time of day, which the cast would drop."""
    values = cast(array, data_type)
    if t.is_timestamp(array.type) and not values.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a time of day")
    return values


Facts = Mapping[FileFact, object]

_TYPES: Mapping[FileFact, pa.DataType] = MappingProxyType(
    {
        "uri": pa.string(),
        "row_number": pa.int64(),
        "modified": pa.timestamp("us", "UTC"),
        "written_at": pa.timestamp("us", "UTC"),
        "run_id": pa.string(),
    }
)
_NOTHING: Facts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns that are added to the rows of an object."""

    template: Template
    of_path: tuple[PartitionColumn, ...] = ()  # the columns of the layout, besides partition columns
    of_file: Mapping[str, FileFact] = field(default_factory=dict)  # what the other columns hold, by their names
    rescue: str | None = None  # the column with what does not fit the others: NULL, or a JSON object

    @property
    def _types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns that are not of the path."""
        rescue = {self.rescue: pa.string()} if self.rescue else {}
        return {name: _TYPES[fact] for name, fact in self.of_file.items()} | rescue

    def lacking(self, table: pa.Schema) -> pa.Schema:
        """Return the columns that a table lacks, without those of the path."""
        known = {name.lower() for name in table.names}
        return pa.schema([(name, kind) for name, kind in self._types.items() if name.lower() not in known])

    def without(self, table: pa.Schema) -> pa.Schema:
        """Return the columns of a table without the added ones."""
        return without_columns(table, (*(column.name for column in self.of_path), *self._types))

    @property
    def numbers(self) -> frozenset[str]:
        """The names of the columns with the number of each row."""
        return frozenset(name for name, fact in self.of_file.items() if fact == "row_number")

    def values(self, key: str, uri: str, schema: pa.Schema, facts: Facts = _NOTHING) -> Mapping[str, pa.Scalar]:
        """Return the values of an object by column; NULL of the column's type if a fact is unknown.

        A column of the path that the file has too is the file's. One of another name is refused.
        """
        texts = self.template.match(key, file=True) or {}
        own = {name.lower() for name in schema.names}
        if (taken := next((name for name in self._types if name.lower() in own), None)) is not None:
            whose = "the stream's column of rescue" if taken == self.rescue else "one of the stream's file_columns"
            raise SchemaError(
                f"the object {visible_name(uri)} has a column {taken!r}, which is {whose}:",
                "give the stream's column another name.",
            )
        try:
            of_path = {
                column.name: typed_value(column, column.parse(texts[column.name]))
                for column in self.of_path
                if column.name.lower() not in own
            }
        except PartitionError as error:
            raise SourceError(
                f"the path of the object {visible_name(uri)} does not fit path_columns: {error.problem.rstrip(':')}:",
                "move the object, or correct the column's type in the config.",
            ) from error
        of_file = {name: facts.get(fact) for name, fact in self.of_file.items()}
        return of_path | {name: pa.scalar(of_file.get(name), kind) for name, kind in self._types.items()}


def with_added_columns(schema: pa.Schema, values: Mapping[str, pa.Scalar]) -> pa.Schema:
    """Return the schema with the columns of the values appended."""
    return pa.schema([*schema, *((name, value.type) for name, value in values.items())]) if values else schema


def with_added_values(
    batch: pa.RecordBatch, values: Mapping[str, pa.Scalar], numbers: frozenset[str], first: int
) -> pa.RecordBatch:
    """Return the rows with the values appended, as far as they have no column of the name.

    The columns in `numbers` get the number of the row instead, from 1; `first` is that of the first row, from 0.
    """
    for name, value in values.items():
        if name in batch.schema.names:  # what the reader of the object has kept
            continue
        if name in numbers:
            column = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows), start=first)
        else:
            column = pa.repeat(value, batch.num_rows)
        batch = batch.append_column(name, column)
    return batch


_ONE_DAY = dt.timedelta(days=1)


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
        return day - 2 * _ONE_DAY, day + 2 * _ONE_DAY  # the text and the stream may have different offsets
    if isinstance(value, dt.datetime):
        if value.tzinfo and is_utc:
            value = value.astimezone(dt.UTC)
        day, off = value.date(), _ONE_DAY if value.tzinfo and not is_utc else 0 * _ONE_DAY
        return day - off, day + off
    if isinstance(value, dt.date):
        return value, value
    raise ValueError("not a time")
