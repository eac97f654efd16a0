"""The values of partition columns in rows, compared with those of a partition."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.base.errors import PartitionError, SchemaError, SourceError
from lake_assets.base.texts import value_text, visible_name
from lake_assets.config.layout.derived import Derived
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionType, PartitionValue
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.modes import FileFact
from lake_assets.schema.casts import cast
from lake_assets.schema.leaves import is_text, without_columns

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
