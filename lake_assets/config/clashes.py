"""Columns of the records where the layout puts something else: what lands so, no ingest could take."""

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types

from lake_assets.config.partition_fields import PartitionField
from lake_assets.layout.partition import PartitionType
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES


def clash(template: Template, partitions: Mapping[str, PartitionField], schema: pa.Schema) -> tuple[str, str] | None:
    """What is wrong with records of these columns, and how to fix it; None if nothing is, as far as types tell.

    Args:
        template: the layout of the stream that they land in.
        partitions: its partition columns.
        schema: the records' columns.
    """
    fields = {field.name.lower(): field for field in schema}
    for name, partition in partitions.items():
        own = fields.get(name.lower())
        if own is None or partition.where == "rows":
            continue
        source = template.source(name)
        if source is None:
            line = renamed(partitions, name, f"arrival_{name}")
            return (
                f"the records have a column {own.name!r}, and the layout's {name} is the time of the run:",
                f"give the partition column another name, as in partitions: {{{line}}}.",
            )
        if source == name and _in_parts(template, name) and not _is_its_text(own.type, partition.type):
            line = renamed(partitions, name, _free(partition.type, source, fields.keys() | partitions.keys()))
            held = partition.type if partition.type in TIME_TYPES else "part"
            of = f"the paths of the layout {template.text!r} hold its {held} alone:"
            return (
                f"the records' column {own.name!r} is {own.type}, and {of}",
                f"give the partition column another name, as in partitions: {{{line}}}.",
            )
    return None


def renamed(partitions: Mapping[str, PartitionField], name: str, new: str) -> str:
    """A partition column's line of the config, under another name."""
    field = partitions[name]
    parts = {"type": field.type, "from": field.source or name, "start": field.start, "end": field.end}
    written = ", ".join(f"{key}: {value}" for key, value in parts.items() if value is not None and value != "string")
    return f"{new}: {{{written}}}"


def _in_parts(template: Template, name: str) -> bool:
    return all(place.granularity is not None for place in template.placeholders if place.name == name)


def _is_its_text(given: pa.DataType, kind: PartitionType) -> bool:
    """Whether values of this type may be equal to the partition's: texts, and dates where it is a date."""
    if types.is_date(given):
        return kind in {"date", "string"}
    return not types.is_timestamp(given)


def _free(kind: PartitionType, source: str, taken: set[str]) -> str:
    """A name that no column has."""
    name = kind if kind in TIME_TYPES else "part"
    return name if name not in taken else f"{source}_{name}"
