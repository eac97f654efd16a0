"""Which row groups may have rows of a partition, by the statistics of the columns that select the rows."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from lake_assets.config.layout.partition import PartitionValue

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
