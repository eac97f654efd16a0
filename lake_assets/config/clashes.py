"""Columns of the records where the layout puts something else: what lands so, no ingest could take."""

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from lake_assets.layout.template import Template
from lake_assets.partition import TIME_FORMATS, PartitionType

if TYPE_CHECKING:
    from lake_assets.config.streams import Stream


def clash(stream: "Stream", schema: pa.Schema) -> tuple[str, str] | None:
    """What is wrong with records of these columns, and how to fix it; None if nothing is, as far as types tell.

    Args:
        stream: where they are to land.
        schema: the records' columns.
    """
    template = stream.template
    fields = {field.name.lower(): field for field in schema}
    for name, partition in stream.partitions.items():
        own = fields.get(name.lower())
        if own is None or partition.where == "rows":
            continue
        source = template.source(name)
        if source is None:
            line = renamed(stream, name, f"arrival_{name}")
            return (
                f"the records have a column {own.name!r}, and the layout's {name} is the time of the run:",
                f"give the partition column another name, as in partitions: {{{line}}}.",
            )
        if source == name and _in_parts(template, name) and not _is_its_text(own.type, partition.type):
            line = renamed(stream, name, _free(partition.type, source, fields.keys() | stream.partitions.keys()))
            held = partition.type if partition.type in TIME_FORMATS else "part"
            of = f"the paths of the layout {template.text!r} hold its {held} alone:"
            return (
                f"the records' column {own.name!r} is {own.type}, and {of}",
                f"give the partition column another name, as in partitions: {{{line}}}.",
            )
    return None


def renamed(stream: "Stream", name: str, new: str) -> str:
    """A partition column's line of the config, under another name."""
    field = stream.partitions[name]
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
    name = kind if kind in TIME_FORMATS else "part"
    return name if name not in taken else f"{source}_{name}"
