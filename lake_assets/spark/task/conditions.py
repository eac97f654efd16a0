"""Conditions on columns, by which files, row groups and rows are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.spark.task.scanned_files import ScanColumn


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column that every wanted row fulfils."""

    column: str
    operator: str  # `=` (to one of the values), `<`, `<=`, `>`, `>=`, `null`, `not null`
    values: tuple[object, ...] = ()
    is_exact: bool = False  # readers leave out each row that does not fulfil it; as of `is_decidable`


@dataclass(frozen=True, slots=True)
class Extents:
    """What is known of a column's values, in each of several files or row groups; None if it is not."""

    type: pa.DataType
    least: Sequence[Any]  # values, or texts of them
    greatest: Sequence[Any]
    nulls: Sequence[int | None]
    values: Sequence[int | None]  # the number of those that are not NULL


def is_ordered(data_type: pa.DataType) -> bool:
    """Return whether bounds of a type decide; those of floating-point numbers leave NaN out.

    Spark has no nanoseconds, so that it finds other rows by them.
    """
    return bool(
        t.is_integer(data_type)
        or (t.is_timestamp(data_type) and data_type.unit != "ns")
        or t.is_string(data_type)
        or t.is_date32(data_type)
        or t.is_boolean(data_type)
        or t.is_decimal(data_type)
    )


def may_fulfil(condition: Condition, facts: Extents) -> list[bool]:
    """Return for each file or row group whether it may have a row that fulfils a condition."""
    if condition.operator == "null":
        return [nulls != 0 for nulls in facts.nulls]
    has_values = [values != 0 for values in facts.values]
    if condition.operator == "not null" or not is_ordered(facts.type):
        return has_values
    try:
        least, greatest = (_bounds(values, facts.type) for values in (facts.least, facts.greatest))
        wanted = [pa.scalar(value).cast(facts.type) for value in condition.values if value is not None]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):  # values of another type, odd bounds
        return has_values
    may = pa.array([False] * len(facts.least), pa.bool_())
    for value in wanted:
        if condition.operator == "=":
            one = pc.and_(pc.less_equal(least, value), pc.greater_equal(greatest, value))
        else:
            one = _COMPARED[condition.operator](least if "<" in condition.operator else greatest, value)
        may = pc.or_(may, pc.fill_null(one, True))
    return [bool(one) for one in pc.and_(may, pa.array(has_values, pa.bool_())).to_pylist()]


def _bounds(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        return pa.array(values, pa.string()).cast(data_type)
    return pa.array(values, data_type)


_COMPARED = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def is_decidable(condition: Condition, columns: Sequence[ScanColumn]) -> bool:
    """Return whether Arrow finds the rows that fulfil a condition, as Spark does."""
    kind = next((column.type for column in columns if column.name == condition.column), None)
    if kind is None or t.is_nested(kind) or not condition.values:
        return kind is not None and not t.is_nested(kind)
    try:
        _ = [pa.scalar(value).cast(kind) for value in condition.values]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return is_ordered(kind)


def fulfilled(condition: Condition, values: pa.Array) -> pa.Array:
    """Return which values of a column fulfil a condition for which `is_decidable` holds."""
    if condition.operator in ("null", "not null"):
        return values.is_null() if condition.operator == "null" else values.is_valid()
    wanted = [pa.scalar(value).cast(values.type) for value in condition.values]
    if condition.operator == "=":
        return pc.and_(pc.is_in(values, pa.array([value.as_py() for value in wanted], values.type)), values.is_valid())
    return pc.fill_null(_COMPARED[condition.operator](values, wanted[0]), fill_value=False)
