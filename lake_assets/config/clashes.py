"""Columns of landed records that contradict the layout, so that no ingest could read the landed files."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

import pyarrow as pa
from pyarrow import types

from lake_assets.config.partition_fields import PartitionField
from lake_assets.errors import LayoutError, PartitionError
from lake_assets.layout.derived import placeholders
from lake_assets.layout.partition import PartitionColumn, PartitionType
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES

_TIME = dt.datetime(2026, 2, 11, 13, 45, tzinfo=dt.UTC)


def clash(template: Template, partitions: Mapping[str, PartitionField], schema: pa.Schema) -> tuple[str, str] | None:
    """Return the problem of records with these columns and how to fix it; None if their types show no problem."""
    fields = {field.name.lower(): field for field in schema}
    for name, partition in partitions.items():
        field = fields.get(name.lower())
        if field is None or partition.where == "rows":
            continue
        source = template.source(name)
        if source is None:
            new_name = f"arrival_{name}"
            problem = f"the records have a column {field.name!r}, and the layout's {name} is the time of the run:"
        elif source == name and _in_parts(template, name) and not _may_be_equal(field.type, partition.type):
            new_name = _free_name(partition.type, source, fields.keys() | partitions.keys())
            part = partition.type if partition.type in TIME_TYPES else "part"
            paths = f"the paths of the layout {template.text!r} hold only its {part}:"
            problem = f"the records' column {field.name!r} is {field.type}, and {paths}"
        else:
            continue
        line = renamed(partitions, name, new_name)
        return problem, f"give the partition column another name, as in partitions: {{{line}}}."
    return None


def misfit(template: Template, columns: Iterable[PartitionColumn], schema: pa.Schema) -> tuple[str, str] | None:
    """Return why columns of records can never make a path of the layout, and how to fix it; None if they may."""
    examples = {field.name: _example(field.type) for field in schema}
    try:
        template.render_row(dict.fromkeys(examples), now=_TIME)
    except LayoutError as error:  # a column is missing
        return error.problem, error.hint
    try:
        path = template.render_row(examples, now=_TIME)
    except LayoutError as error:
        return f"the layout {template.text!r} does not fit the records; for example, {error.problem}", error.hint
    texts = template.match(f"{path}/file", file=True) or {}
    for column in columns:
        source = template.source(column.name)
        if source is None or examples.get(source) is None or column.name not in texts:
            continue
        try:
            column.parse(texts[column.name])
        except PartitionError as error:
            made = f"{column.name} of the records' column {source!r}, which is {schema.field(source).type}"
            problem = f"the layout {template.text!r} makes {made}; for example, {error.problem}"
            hint = "correct the type of the partition column, or name another column in the layout."
            if column.type in TIME_TYPES:
                hint = f"write {placeholders(column.type, source)} there, or correct the type of the partition column."
            return problem, hint
    return None


def _example(kind: pa.DataType) -> object:
    """Return a value of a column's type; None for texts, of which each may fit, and for types without values."""
    if types.is_timestamp(kind):
        return _TIME if kind.tz else _TIME.replace(tzinfo=None)
    if types.is_decimal(kind):
        return Decimal(1).scaleb(-kind.scale) if kind.scale > 0 else Decimal(1)
    by_kind: tuple[tuple[Callable[[pa.DataType], bool], object], ...] = (
        (types.is_date, _TIME.date()),
        (types.is_boolean, True),
        (types.is_integer, 2026),
        (types.is_floating, 2026.0),
        (types.is_nested, []),
    )
    return next((example for is_kind, example in by_kind if is_kind(kind)), None)


def renamed(partitions: Mapping[str, PartitionField], name: str, new: str) -> str:
    """Return the config's line of a partition column with another name."""
    field = partitions[name]
    parts = {"type": field.type, "from": field.source or name, "start": field.start, "end": field.end}
    written = ", ".join(f"{key}: {value}" for key, value in parts.items() if value is not None and value != "string")
    return f"{new}: {{{written}}}"


def _in_parts(template: Template, name: str) -> bool:
    return all(placeholder.granularity is not None for placeholder in template.placeholders if placeholder.name == name)


def _may_be_equal(column: pa.DataType, kind: PartitionType) -> bool:
    """Return whether values of a column may be equal to the partition's."""
    return kind in {"date", "string"} if types.is_date(column) else not types.is_timestamp(column)


def _free_name(kind: PartitionType, source: str, taken: set[str]) -> str:
    name = kind if kind in TIME_TYPES else "part"
    return name if name not in taken else f"{source}_{name}"
