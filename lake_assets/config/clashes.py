"""Columns of landed records that contradict the layout, so that no ingest could read the landed files."""

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types

from lake_assets.config.partition_fields import PartitionField
from lake_assets.layout.partition import PartitionType
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES


def clash(template: Template, partitions: Mapping[str, PartitionField], schema: pa.Schema) -> tuple[str, str] | None:
    """The problem of records with these columns and how to fix it; None if their types show no problem.

    Args:
        template: the layout of the stream.
        partitions: the stream's partition columns.
        schema: the records' columns.
    """
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


def renamed(partitions: Mapping[str, PartitionField], name: str, new: str) -> str:
    """The config's line of a partition column with another name."""
    field = partitions[name]
    parts = {"type": field.type, "from": field.source or name, "start": field.start, "end": field.end}
    written = ", ".join(f"{key}: {value}" for key, value in parts.items() if value is not None and value != "string")
    return f"{new}: {{{written}}}"


def _in_parts(template: Template, name: str) -> bool:
    return all(placeholder.granularity is not None for placeholder in template.placeholders if placeholder.name == name)


def _may_be_equal(column: pa.DataType, kind: PartitionType) -> bool:
    """Whether values of a column may be equal to the partition's."""
    return kind in {"date", "string"} if types.is_date(column) else not types.is_timestamp(column)


def _free_name(kind: PartitionType, source: str, taken: set[str]) -> str:
    name = kind if kind in TIME_TYPES else "part"
    return name if name not in taken else f"{source}_{name}"
