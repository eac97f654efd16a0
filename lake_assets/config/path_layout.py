"""Where a stream's columns are in its layout, and under which name the table has each."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, Field

from lake_assets.config.fields import Identifier
from lake_assets.config.layouts import LayoutOptions
from lake_assets.config.model import Model
from lake_assets.config.partition_fields import ColumnType, LayoutColumn, PartitionField
from lake_assets.errors import LayoutError
from lake_assets.layout.derived import Derived, folder, places
from lake_assets.layout.grammar import NOW, Placeholder, Static, quoted
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES, zone_of


class PathColumn(Model):
    """A column of the layout that the rows get from their object's path."""

    type: ColumnType = Field("string", description="What the values are; `day` is `date`.")
    source: LayoutColumn | None = Field(
        None, alias="from", description="The layout's name of it; the column's own when absent."
    )


def _from_type(value: object) -> object:
    """The type alone is short for the mapping."""
    return {"type": value} if isinstance(value, str) else value


PathColumns = dict[
    Identifier, Annotated[PathColumn, BeforeValidator(_from_type, json_schema_input_type=ColumnType | PathColumn)]
]


def stream_template(
    layout: LayoutOptions | None,
    partitions: Mapping[str, PartitionField],
    path_columns: Mapping[str, PathColumn],
    time_zone: str,
) -> Template:
    """The layout, whose columns have the names that the table gives them.

    Args:
        layout: as it is in the config; Hive's folders when None.
        partitions: the stream's.
        path_columns: the stream's.
        time_zone: whose clock gives the dates of Hive's folders.

    Raises:
        LayoutError: `from` names a column that the layout lacks, or two columns get one name.
    """
    in_path = {name: field for name, field in partitions.items() if field.where == "path"}
    template = _hive(in_path, time_zone) if layout is None else _named(layout.parsed, in_path, path_columns)
    kept, read = ([name for name, field in in_path.items() if field.empty == empty] for empty in ("value", "null"))
    if (kept or read) and template.compat:
        raise LayoutError(
            f"{(kept + read)[0]} has empty, and the layout is in compat: {template.compat}:", "remove it."
        )
    return template.with_empty(kept=kept, read=read) if kept or read else template


def _named(
    template: Template, in_path: Mapping[str, PartitionField], path_columns: Mapping[str, PathColumn]
) -> Template:
    names: dict[str, str] = {}
    for place, fields in (("partitions", in_path), ("path_columns", path_columns)):
        for name, field in fields.items():
            if field.source is None:
                continue
            if field.source in names:
                raise LayoutError(
                    f"{place}.{name}.from is {field.source!r}, which another column has already:",
                    "each column of the layout is one column of the table, so remove one of them",
                )
            names[field.source] = name
            try:
                template.named(names)
            except LayoutError as error:
                raise LayoutError(f"{place}.{name}.from is {field.source!r}: {error.problem}", error.hint) from error
    return template.named(names)


def _hive(in_path: Mapping[str, PartitionField], time_zone: str) -> Template:
    """Hive's folders: the columns' values as they are, or those that are made of another column."""
    if not in_path:
        return Template.root()
    derived = {name: field.source for name, field in in_path.items() if field.source is not None}
    if not derived:
        return Template.hive(in_path)
    folders = [
        folder(name, field.type, field.source) if field.source is not None else f"{name}={{{name}}}"
        for name, field in in_path.items()
    ]
    zones = {zone_of(field.type, time_zone) for name in derived if (field := in_path[name]).type in TIME_TYPES}
    zone = "UTC" if zones == {"UTC"} else time_zone
    return Template.parse("/".join(folders), time_zone=zone).named({source: name for name, source in derived.items()})


def derived_columns(template: Template, partitions: Mapping[str, PartitionField], time_zone: str) -> Iterator[Derived]:
    """The partition columns whose values come from another column of the rows.

    Args:
        template: as `stream_template` gives it.
        partitions: the stream's.
        time_zone: whose clock gives the dates of those that are in the rows.
    """
    for name, field in partitions.items():
        if field.where == "rows" and field.source is not None:
            zone = zone_of(field.type, time_zone)
            text = places(field.type, field.source)
            yield Derived(name, field.source, Template.parse(text, time_zone=zone).named({field.source: name}))
        elif field.where == "path" and (column := template.source(name)) is not None and column != name:
            yield Derived(name, column, template)


def missing_column(template: Template, name: str) -> str:
    """The error of a partition column that the layout lacks."""
    problem = f"the layout {template.text!r} has no {{{name}}}, which is a partition column"
    for before, place in pairwise(template.parts):
        if isinstance(before, Static) and isinstance(place, Placeholder) and before.text.endswith(f"{name}="):
            return f"{problem}: write {name}: {{from: {_yaml(place.name or NOW)}}} to take it from there"
    known = ", ".join(_yaml(column) for column in template.columns)
    return f"{problem}: name a column of the layout by from ({known})" if known else problem


def _yaml(name: str) -> str:
    return name if quoted(name) == name else f"'{name}'"
