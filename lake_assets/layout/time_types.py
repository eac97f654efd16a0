"""The type of time that the paths of a layout hold, found by writing a sample and reading it back."""

import datetime as dt
from zoneinfo import ZoneInfo

from lake_assets.errors import PartitionError
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES, TimeName

_SAMPLE = dt.datetime(2026, 2, 9, 3, tzinfo=dt.UTC)  # no two of its parts have the same digits


def time_type(template: Template, column: str) -> TimeName | None:
    """Return the type of time that the paths hold; None if they hold the whole column, or other parts of a time."""
    text = _sample_text(template, column)
    return next((kind.name for kind in TIME_TYPES.values() if kind.text(_SAMPLE) == text), None)


def check_time_type(template: Template, column: PartitionColumn, field: str) -> None:
    """Refuse a column type whose values the layout's paths do not hold.

    Args:
        template: the layout, which has the column.
        column: the column with its type.
        field: the config's field of the type.

    Raises:
        ValueError: the paths hold parts of a time that are not a value of the type; or they hold hours of another time
            zone than UTC, two of which have the same name when daylight saving ends.
    """
    text = _sample_text(template, column.name)
    if text is None:
        return
    if column.type == "hour" and template.time_zone != "UTC":
        raise ValueError(
            f"{field} is hour, and hours are those of UTC: leave time_zone {template.time_zone} out of the layout"
        )
    kind = TIME_TYPES.get(column.type)
    if not (kind.text(_SAMPLE) == text if kind else _is_value(column, text)):
        other = time_type(template, column.name)
        hint = f"write {other}" if other else "write string, or other parts in the layout"
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
    values = template.match(f"{template.render_row(row, now=now)}/file", file=True)
    return values[column] if values else None
