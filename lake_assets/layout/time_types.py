"""Which type of a time the paths of a layout can hold, told by writing a sample there and reading it back."""

import datetime as dt
from zoneinfo import ZoneInfo

from lake_assets.errors import PartitionError
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES, TimeName

_SAMPLE = dt.datetime(2026, 2, 9, 3, tzinfo=dt.UTC)  # no two of its parts have the same digits


def time_type(template: Template, column: str) -> TimeName | None:
    """The type of a time whose values the paths hold; None where they hold the column whole, or as no such type."""
    found = _sample(template, column)
    return next((kind.name for kind in TIME_TYPES.values() if kind.text(_SAMPLE) == found), None)


def check_time_type(template: Template, column: PartitionColumn, field: str) -> None:
    """Refuse a column type whose values the layout's paths do not hold.

    Args:
        template: names the column.
        column: with its type.
        field: of the config, where the type stands.

    Raises:
        ValueError: the paths hold parts of a time, and these are no value of the type; or they hold the hours of a
            zone, of which daylight saving gives two the same name.
    """
    found = _sample(template, column.name)
    if found is None:
        return
    if column.type == "hour" and template.time_zone != "UTC":
        raise ValueError(
            f"{field} is hour, and hours are those of UTC: leave time_zone {template.time_zone} out of the layout"
        )
    kind = TIME_TYPES.get(column.type)
    if not (kind.text(_SAMPLE) == found if kind else _is_value(column, found)):
        other = time_type(template, column.name)
        hint = f"write {other}" if other else "write string, or other parts in the layout"
        example = f", not {kind.text(_SAMPLE)}" if kind else ""
        raise ValueError(
            f"{field} is {column.type}, and the paths of the layout {template.text!r} hold values such as "
            f"{found}{example}: {hint}"
        )


def _is_value(column: PartitionColumn, text: str) -> bool:
    try:
        return column.text(column.parse(text)) == text
    except PartitionError:
        return False


def _sample(template: Template, column: str) -> str | None:
    """What a path of the sample says of the column; None where it holds the column whole."""
    if any(place.granularity is None for place in template.placeholders if place.name == column):
        return None
    now = _SAMPLE.replace(tzinfo=ZoneInfo(template.time_zone))
    in_parts = {place.column for place in template.placeholders if place.granularity}
    whole = {place.column for place in template.placeholders if place.granularity is None}
    row = {name: "1" if name in whole else now for name in whole | in_parts}
    found = template.match(f"{template.render_row(row, now=now)}/file", file=True)
    return found[column] if found else None
