"""The values of partition columns in rows, compared with those of a partition."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.errors import PartitionError, SchemaError
from lake_assets.layout.derived import Derived
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionType, PartitionValue
from lake_assets.layout.texts import value_text
from lake_assets.layout.times import TIME_TYPES
from lake_assets.parquet.casts import cast
from lake_assets.parquet.leaves import is_text

_DAY = r"^(\d{4})-?(\d{2})-?(\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?)?$"  # also 20260211, and midnight
_NUMBERS = (t.is_integer, t.is_floating, t.is_decimal)

# The types, besides texts, of a column of the files whose values select the rows of a partition column.
_CHOOSING = MappingProxyType[PartitionType, Sequence[object]](
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


def chosen_values(
    source: pa.Schema,
    by_name: Mapping[str, str],
    partition: Partition,
    origin: str,
    derived: Mapping[str, Derived],
) -> dict[str, pa.Scalar]:
    """Return the values that select the rows of a partition, by column of the source."""
    chosen = {}
    for column, value in zip(partition.columns, partition.values, strict=True):
        if not column.in_rows:
            continue
        wanted = derived[column.name].column if column.name in derived else column.name
        name = by_name.get(wanted.lower())
        if name is None:
            raise SchemaError(
                f"{origin} has no column {wanted!r}, which selects the rows of a partition:",
                "land it again with that column, or correct `partitions` in the config.",
            )
        if column.name in derived and not derived[column.name].is_whole:
            continue
        given = source.field(name).type
        data_type = given.value_type if t.is_dictionary(given) else given
        if not any(is_kind(data_type) for is_kind in (t.is_null, is_text, *_CHOOSING[column.type])):
            raise SchemaError(
                f"column {name!r} of {origin} is {given}, and cannot hold a partition of type {column.type}:",
                "correct the type of this partition column in the config, or land the column as text.",
            )
        chosen[name] = typed_value(column, value)
    return chosen


def is_other(array: pa.Array, column: PartitionColumn, value: PartitionValue) -> pa.Array:
    """Return whether each value of a partition column in the rows differs from the partition's value."""
    if value is None:
        return pc.is_valid(array)
    if column.type != "string" and any(is_kind(array.type) for is_kind in _CHOOSING[column.type]):  # type: ignore[operator]
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


def read_as(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast values to a type; refuses a timestamp with a time of day, which the cast would drop."""
    values = cast(array, data_type)
    if t.is_timestamp(array.type) and not values.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a time of day")
    return values
