"""A partition column in the config: its type, its values and their source."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Literal, Self

import pyarrow as pa
from pyarrow import types
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from lake_assets.base.errors import LayoutError, PartitionError
from lake_assets.config.fields import Date, Identifier, Model, short_for
from lake_assets.config.layout.derived import Derived, placeholders_for
from lake_assets.config.layout.grammar import NOW, Placeholder, Static, quoted
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import Empty, PartitionColumn, PartitionType
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import TIME_TYPES, zone_of
from lake_assets.config.sections import LayoutOptions

DIMENSIONS = 2  # of Dagster's keys, at most


def _day_is_date(value: object) -> object:
    return "date" if value == "day" else value


_PartitionType = Annotated[
    PartitionType, BeforeValidator(_day_is_date, json_schema_input_type=PartitionType | Literal["day"])
]
KeyTime = Annotated[
    Literal["year", "month", "week", "date"],
    BeforeValidator(_day_is_date, json_schema_input_type=Literal["year", "month", "week", "date", "day"]),
]
LayoutColumn = Annotated[str, Field(min_length=1)]


class PartitionField(Model):
    """A partition column of a stream and its values."""

    type: _PartitionType = Field("string", description="Type of the values; `day` is `date`.")
    values: tuple[str, ...] | None = Field(None, description="All values; discovered when absent.")
    start: Date | None = Field(None, description="First date, for types that are times.")
    end: Date | None = Field(None, description="Last date, for types that are times; today when absent.")
    keys: KeyTime | None = Field(
        None,
        description="Dagster's keys of a time: each `year`, `month`, `week` or `day` is one, and its run takes all "
        "partitions in it. Each partition is one when absent.",
    )
    source: LayoutColumn | None = Field(
        None,
        alias="from",
        description="Column that the values come from: of the layout, or with `in: rows` of the files.",
    )
    empty: Empty = Field("refuse", description="Meaning of an empty value in a path: an error, NULL, or a value.")
    exact: bool = Field(
        False,
        description="Whether a letter such as é and its decomposed form, as macOS writes names, are two values; else "
        "the composed one is the value of both. With `in: rows` and in mode index they are two.",
    )
    where: Literal["path", "rows"] = Field(
        "path", alias="in", description="Where a row's value is: in its object's path, or in this column of the rows."
    )

    @field_validator("values", mode="before", json_schema_input_type=list[str | int | float] | None)
    @classmethod
    def _values_as_text(cls, values: object) -> object:
        if not isinstance(values, list):
            return values
        for value in values:
            # YAML reads `NO` as false; a region with that name must not become "False".
            if isinstance(value, bool):
                raise ValueError(f"{value} is a boolean in YAML: put the value in quotes, such as 'NO'")  # noqa: TRY004 - pydantic takes ValueError
            if isinstance(value, dt.datetime):
                raise ValueError(f"{value} is a time in YAML: put the value in quotes")  # noqa: TRY004 - as above
            if not isinstance(value, str | int | float | dt.date):
                raise ValueError(f"values must be texts or numbers: write each in quotes, and NULL as '{HIVE_NULL}'")  # noqa: TRY004 - as above
        return [str(value) for value in values]

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        is_time = self.type in TIME_TYPES
        if is_time and self.values is not None:
            raise ValueError(f"a {self.type} column takes start and end, not values: remove values")
        if is_time and self.start is None:
            raise ValueError(f"a {self.type} column needs start, the first date, such as 2026-01-01")
        if self.keys is not None and not (is_time and _parts(self.keys) < _parts(self.type)):
            coarser = ", ".join(name for name in TIME_TYPES if is_time and _parts(name) < _parts(self.type))
            raise ValueError(
                f"keys: {self.keys} joins times that are shorter than a {self.keys}, and the type is {self.type}: "
                + (f"write {coarser}, or remove it" if coarser else "remove it")
            )
        if self.empty != "refuse" and self.type != "string":
            raise ValueError(f"empty is for the type string, and a {self.type} has no empty value: remove it")
        if self.empty == "null" and self.where == "rows":
            raise ValueError("empty: null is for paths, and rows distinguish '' from NULL: write empty: value")
        if not is_time and (self.start or self.end):
            raise ValueError(f"start and end are for the types {', '.join(TIME_TYPES)}: write one, or remove them")
        if self.start and self.end and self.end < self.start:
            raise ValueError(f"end {self.end} is before start {self.start}: correct one of them")
        if self.values is not None and (not self.values or len(set(self.values)) < len(self.values)):
            raise ValueError("values must be at least one: write each once, or remove values")
        return self


def _parts(kind: str) -> int:
    """Return the number of parts of a time: 1 of a year, 4 of an hour."""
    return len(TIME_TYPES[kind].parts)


class PathColumn(Model):
    """A column whose values come from the path of each row's object. The type alone is its short form."""

    type: _PartitionType = Field("string", description="Type of the values; `day` is `date`.")
    source: LayoutColumn | None = Field(
        None, alias="from", description="The column's name in the layout, if it is another one."
    )


_PathColumn = Annotated[
    PathColumn, BeforeValidator(short_for("type"), json_schema_input_type=_PartitionType | PathColumn)
]
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


def _check_files(files: str) -> str:
    try:
        if has_values(files):
            Template.root().with_files(files)
    except LayoutError as error:
        raise ValueError(str(error)) from error
    return files


FilePattern = Annotated[str, Field(min_length=1), AfterValidator(_check_files)]
"""A pattern of file names, which may have values of columns as the layout has."""


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
        f"{name}={placeholders_for(field.type, field.source) if field.source is not None else f'{{{name}}}'}"
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
            text = placeholders_for(field.type, field.source)
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


_TIME = dt.datetime(2026, 2, 11, 13, 45, tzinfo=dt.UTC)


def name_clash(
    template: Template, partitions: Mapping[str, PartitionField], schema: pa.Schema
) -> tuple[str, str] | None:
    """Return why columns of records contradict the partition columns, and how to fix it; None if they do not."""
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
            part = partition.type if partition.type in TIME_TYPES else "part"
            new_name = f"{source}_{part}" if part in fields.keys() | partitions.keys() else part
            paths = f"the paths of the layout {template.text!r} hold only its {part}:"
            problem = f"the records' column {field.name!r} is {field.type}, and {paths}"
        else:
            continue
        line = renamed_line(partitions, name, new_name)
        return problem, f"give the partition column another name, as in partitions: {{{line}}}."
    return None


def path_misfit(template: Template, columns: Iterable[PartitionColumn], schema: pa.Schema) -> tuple[str, str] | None:
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
                right = placeholders_for(column.type, source)
                hint = f"write {right} there, or correct the type of the partition column."
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


def renamed_line(partitions: Mapping[str, PartitionField], name: str, new: str) -> str:
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
