"""The values of partition columns in rows, compared with those of a partition."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.errors import SchemaError
from lake_assets.layout.derived import Derived
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionType, PartitionValue
from lake_assets.parquet.casts import cast
from lake_assets.parquet.type_fit import STRING_KINDS

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
        if not any(is_kind(data_type) for is_kind in (t.is_null, *STRING_KINDS, *_CHOOSING[column.type])):
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
    return pc.fill_null(pc.not_equal(cast(array, pa.string()), pa.scalar(str(value))), True)


def read_as(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast values to a type; refuses a timestamp with a time of day, which the cast would drop."""
    values = cast(array, data_type)
    if t.is_timestamp(array.type) and not values.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a time of day")
    return values
