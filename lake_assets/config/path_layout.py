"""The columns of a stream's layout, and their names in the table."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, Field

from lake_assets.config.fields import Identifier, short_for
from lake_assets.config.model import Model
from lake_assets.config.partition_fields import ColumnType, LayoutColumn, PartitionField
from lake_assets.config.sections import LayoutOptions
from lake_assets.errors import LayoutError
from lake_assets.layout.derived import Derived, placeholders
from lake_assets.layout.grammar import NOW, Placeholder, Static, quoted
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES, zone_of


class PathColumn(Model):
    """A column whose values come from the path of each row's object. The type alone is its short form."""

    type: ColumnType = Field("string", description="Type of the values; `day` is `date`.")
    source: LayoutColumn | None = Field(
        None, alias="from", description="The column's name in the layout, if it is another one."
    )


_PathColumn = Annotated[PathColumn, BeforeValidator(short_for("type"), json_schema_input_type=ColumnType | PathColumn)]
PathColumns = dict[Identifier, _PathColumn]


def stream_template(
    layout: LayoutOptions | None,
    partitions: Mapping[str, PartitionField],
    path_columns: Mapping[str, PathColumn],
    time_zone: str,
    files: str = "",
) -> Template:
    """Return the template of the layout, with the table's column names; Hive's folders without one.

    If `files`, the pattern of file names, has columns, Hive's folders are of the others. `time_zone` is of the dates in
    Hive's folders. Raises LayoutError if `from` names a column that the layout does not have, or two columns get one
    name.
    """
    in_path = {name: field for name, field in partitions.items() if field.where == "path"}
    names_values = has_values(files)
    of_files = Template.root().with_files(files).columns if names_values else ()
    named = {name: f for name, f in in_path.items() if layout is not None or (f.source or name) in of_files}
    others = {name: field for name, field in in_path.items() if name not in named}
    if names_values and not named and in_path:
        raise LayoutError(
            f"files {files!r} names {', '.join(of_files)}, and the partition columns are "
            f"{', '.join(field.source or name for name, field in in_path.items())}:",
            "name one of these, or write * for text that varies.",
        )
    template = _hive(others, time_zone) if layout is None else layout.parsed
    template = template.with_files(files) if names_values else template
    if layout is not None or names_values:
        template = _named(template, named, path_columns)
    values, nulls = ([name for name, field in in_path.items() if field.empty == empty] for empty in ("value", "null"))
    # OLake's paths may always have empty values.
    is_as_it_is = template.compat or not (values or nulls)
    return template if is_as_it_is else template.with_empty(values=values, nulls=nulls)


def has_values(files: str) -> bool:
    """Return whether a pattern of file names has values of columns."""
    return "{" in files


def _named(
    template: Template, in_path: Mapping[str, PartitionField], path_columns: Mapping[str, PathColumn]
) -> Template:
    names: dict[str, str] = {}
    for key, fields in (("partitions", in_path), ("path_columns", path_columns)):
        for name, field in fields.items():
            if field.source is None:
                continue
            if field.source in names:
                raise LayoutError(
                    f"{key}.{name}.from is {field.source!r}, which another column has already:",
                    "each column of the layout is one column of the table, so remove one of them",
                )
            names[field.source] = name
            try:
                template.named(names)
            except LayoutError as error:
                raise LayoutError(f"{key}.{name}.from is {field.source!r}: {error.problem}", error.hint) from error
    return template.named(names)


def _hive(in_path: Mapping[str, PartitionField], time_zone: str) -> Template:
    """Return Hive's folders, with the columns' values or with values derived from another column."""
    if not in_path:
        return Template.root()
    derived = {name: field.source for name, field in in_path.items() if field.source is not None}
    if not derived:
        return Template.hive(in_path)
    folders = [
        f"{name}={placeholders(field.type, field.source) if field.source is not None else f'{{{name}}}'}"
        for name, field in in_path.items()
    ]
    zones = {zone_of(field.type, time_zone) for name in derived if (field := in_path[name]).type in TIME_TYPES}
    zone = "UTC" if zones == {"UTC"} else time_zone
    return Template.parse("/".join(folders), time_zone=zone).named({source: name for name, source in derived.items()})


def derived_columns(template: Template, partitions: Mapping[str, PartitionField], time_zone: str) -> Iterator[Derived]:
    """Yield the partition columns that are derived from another column of the rows.

    A whole value in OLake's paths is not: it may be equal to the text of NULL, and end where another value begins.
    `time_zone` is of the dates of columns with `in: rows`.
    """
    for name, field in partitions.items():
        if field.where == "rows" and field.source is not None:
            zone = zone_of(field.type, time_zone)
            text = placeholders(field.type, field.source)
            yield Derived(name, field.source, Template.parse(text, time_zone=zone).named({field.source: name}))
        elif field.where == "path" and (column := template.source(name)) is not None and column != name:
            derived = Derived(name, column, template)
            if not (template.compat and derived.is_whole):
                yield derived


def missing_column(template: Template, name: str) -> str:
    """Return the error for a partition column that the layout does not have."""
    problem = f"the layout {template.text!r} has no {{{name}}}, which is a partition column"
    for before, part in pairwise(template.parts):
        if isinstance(before, Static) and isinstance(part, Placeholder) and before.text.endswith(f"{name}="):
            return f"{problem}: write {name}: {{from: {_yaml(part.name or NOW)}}} to take it from there"
    known = ", ".join(_yaml(column) for column in template.columns)
    return f"{problem}: name a column of the layout with `from` ({known})" if known else problem


def _yaml(name: str) -> str:
    return name if quoted(name) == name else f"'{name}'"
