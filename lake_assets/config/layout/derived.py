"""Partition columns that are derived from another column of the rows, and the types of time that a layout's paths hold.

Such a column is the date of a timestamp, or the rows' own value under another name.
"""

import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import pyarrow as pa

from lake_assets.base.errors import PartitionError
from lake_assets.config.layout.grammar import quoted
from lake_assets.config.layout.partition import PartitionColumn, PartitionType
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import MARKS, TIME_TYPES, TimeName

_SAMPLE = dt.datetime(2026, 2, 9, 3, tzinfo=dt.UTC)  # no two of its parts have the same digits


@dataclass(frozen=True, slots=True)
class Derived:
    """A partition column that is derived from a column of the rows."""

    name: str
    column: str
    template: Template  # a layout whose placeholders say how the partition column is made

    @property
    def is_whole(self) -> bool:
        """Whether a value is the rows' own value under another name, not parts of it."""
        return any(p.granularity is None for p in self.template.placeholders if p.name == self.name)

    def texts(self, values: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
        """Return the partition column's value for each row, as `PartitionColumn.text` writes it."""
        return self.template.read_rows(self.name, values)


def placeholders_for(kind: PartitionType, column: str) -> str:
    """Return the placeholders that make a partition column of this type from a column of the rows.

    Such as `{ts,,YY}-{ts,,MM}-{ts,,DD}` for a date, or `{store}`.
    """
    source, parts = quoted(column), TIME_TYPES[kind].parts if kind in TIME_TYPES else ()
    return "".join(f"{MARKS[part]}{{{source},,{part}}}" for part in parts) or f"{{{source}}}"


def time_type(template: Template, column: str) -> TimeName | None:
    """Return the type of time that the paths hold; None if they hold the whole column, or other parts of a time."""
    text = _sample_text(template, column)
    return next((kind.name for kind in TIME_TYPES.values() if kind.text(_SAMPLE) == text), None)


def check_time_type(template: Template, column: PartitionColumn, field: str) -> None:
    """Refuse a column type whose values the layout's paths do not hold, by a ValueError.

    The paths hold parts of a time that are not a value of the type; or they hold hours of another time zone than UTC,
    two of which have the same name when daylight saving ends; or the name of a file has the whole value, and the text
    behind it would end it too early.
    """
    text = _sample_text(template, column.name)
    if text is None:
        for part in template.placeholders if template.file_parts and column.type in TIME_TYPES else ():
            if part.name == column.name and part.separator and part.separator in TIME_TYPES[column.type].text(_SAMPLE):
                parts = placeholders_for(column.type, part.column)
                raise ValueError(
                    f"{field} is {column.type}, and in the layout {template.text!r} its value would end at the first "
                    f"{part.separator!r}: write {parts} in files"
                )
        return
    if column.type == "hour" and template.time_zone != "UTC":
        raise ValueError(
            f"{field} is hour, and hours are those of UTC: leave time_zone {template.time_zone} out of the layout"
        )
    kind = TIME_TYPES.get(column.type)
    if not (kind.text(_SAMPLE) == text if kind else _is_value(column, text)):
        right = time_type(template, column.name)
        hint = f"write {right}" if right else "write string, or other parts in the layout"
        example = f", not {kind.text(_SAMPLE)}" if kind else ""
        raise ValueError(
            f"{field} is {column.type}, and the paths of the layout {template.text!r} hold values such as "
            f"{text}{example}: {hint}"
        )


def _is_value(column: PartitionColumn, text: str) -> bool:
    try:
        return column.text(column.parse(text)) == text
    except PartitionError:
        return False


def _sample_text(template: Template, column: str) -> str | None:
    """Return the column's value in the sample's path; None if the path holds the whole column."""
    if any(placeholder.granularity is None for placeholder in template.placeholders if placeholder.name == column):
        return None
    now = _SAMPLE.replace(tzinfo=ZoneInfo(template.time_zone))
    whole = {placeholder.column for placeholder in template.placeholders if placeholder.granularity is None}
    row = {p.column: "1" if p.column in whole else now for p in template.placeholders}
    path = template.render_row(row, now=now)
    values = template.match(path if template.file_parts else f"{path}/file", file=True)
    return values[column] if values else None
