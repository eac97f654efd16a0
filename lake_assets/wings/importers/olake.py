"""OLake's `catalog.json` (later called `streams.json`), and its streams as streams of a `lake.yaml`.

Source of the format: OLake's `types/catalog.go`, `types/stream.go` and `types/type_schema.go`. Keys that are not about
paths, partitions or columns are ignored.
"""

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from lake_assets.base.errors import ConfigError
from lake_assets.config.layout.derived import time_type
from lake_assets.config.layout.grammar import NOW, Placeholder
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import GRANULARITIES, TIME_TYPES
from lake_assets.config.streams import StreamConfig

# More would make small partitions: the rows have the values of the other columns.
MOST_COLUMNS = 2

# OLake writes the files of a stream without partitions into the stream's own folder: an empty value of this layout.
_WHOLE = "olake_folder"


@dataclass(frozen=True, slots=True)
class OlakeStream:
    """A selected stream of an OLake catalog."""

    namespace: str  # its database or schema in the source
    name: str  # the table or collection
    template: Template | None  # the layout below `folder`, with `compat: olake`; None if the stream is not partitioned
    sync_mode: str | None  # `full_refresh`, `incremental`, `cdc` or `strict_cdc`; None if the catalog has none
    folder: str = ""  # the folder below OLake's destination: database and table, `namespace/name` by default
    # OLake's type of each described column, such as `integer` or `timestamp_micro`; None for a column whose type
    # depends on the row
    types: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


class _Selected(BaseModel):
    stream_name: str = Field(min_length=1)
    partition_regex: str | None = None


class _Property(BaseModel):
    type: str | list[str] = []
    destination_column_name: str | None = None

    @property
    def one_type(self) -> str | None:
        names = {self.type} if isinstance(self.type, str) else set(self.type)
        names.discard("null")
        return names.pop() if len(names) == 1 else None


class _TypeSchema(BaseModel):
    properties: dict[str, _Property] = {}


class _Stream(BaseModel):
    name: str
    namespace: str = ""
    sync_mode: str | None = None
    destination_database: str | None = None
    destination_table: str | None = None
    type_schema: _TypeSchema = _TypeSchema()

    @property
    def folder(self) -> str:
        """Database and table, as OLake's `GetDestinationDatabase` and `GetDestinationTable` return them."""
        database = self.destination_database
        # As OLake's `Reformat`: an underscore for each character that is not an ASCII letter or digit.
        first = re.sub("[^a-z0-9]", "_", database.lower()) if database else self.namespace
        return f"{first}/{self.destination_table or self.name}"

    @property
    def types(self) -> dict[str, str | None]:
        """OLake's types by column, by the names in source and destination."""
        properties = self.type_schema.properties
        return {name: p.one_type for name, p in properties.items()} | {
            p.destination_column_name or name: p.one_type for name, p in properties.items()
        }


class _Configured(BaseModel):
    stream: _Stream


class _Catalog(BaseModel):
    selected_streams: dict[str, list[_Selected]]
    streams: list[_Configured] = []


def read_catalog(text: str) -> tuple[OlakeStream, ...]:
    """Return the selected streams of a catalog, in its order. A ConfigError names the key."""
    # The samples in OLake's documentation have comment lines.
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    try:
        catalog = _Catalog.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(
            f"the OLake catalog is not valid: {key}: {first['msg']}.", "Use the file that `olake discover` writes."
        ) from error
    known = {(entry.stream.namespace, entry.stream.name): entry.stream for entry in catalog.streams}
    streams = []
    for namespace, selected in catalog.selected_streams.items():
        for entry in selected:
            name, regex = entry.stream_name, entry.partition_regex
            stream = known.get((namespace, name), _Stream(name=name, namespace=namespace))
            template = Template.parse(regex, compat="olake") if regex else None
            streams.append(OlakeStream(namespace, name, template, stream.sync_mode, stream.folder, stream.types))
    return tuple(streams)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a layout in a stream's config."""

    name: str  # in the table
    type: str
    source: str  # its name in the layout
    is_now: bool  # it is the time of the sync, which only the path has
    is_whole: bool  # it is a whole value, and not parts of a time

    @property
    def field(self) -> dict[str, object]:
        field: dict[str, object] = {"type": self.type}
        return field | ({"from": self.source} if self.name != self.source else {})

    def partition(self, start: dt.date) -> dict[str, object]:
        may_be_empty = self.type == "string" and self.is_whole and not self.is_now
        more = {"start": start} if self.type in TIME_TYPES else {"empty": "value"} if may_be_empty else {}
        return self.field | more


def stream_config(stream: OlakeStream, source: str, start: dt.date) -> dict[str, object]:
    """Return the stream's mapping in `streams:` of a `lake.yaml`, with a partition for every path that OLake writes.

    A folder of a column's values becomes a partition column beside the rows' own column, because a folder may have NULL
    and the value that is equal to the default. A folder of the parts of a timestamp becomes a date (year, month, hour)
    that is derived from the timestamp, and a folder of `now()` becomes the time of the sync. Of three or more columns,
    two become partition columns, a time first; another time of the sync becomes one of `path_columns`. A stream without
    a template has one partition.

    Partition columns that are times begin at `start`. A stream that cannot be imported is a ConfigError with the
    reason.
    """
    config: dict[str, object] = {"source": f"{source.rstrip('/')}/{stream.folder}"}
    if stream.template is None:
        name = free(_WHOLE, [*stream.types])
        config["layout"] = {"template": f"{{{name},,}}", "compat": "olake"}
        config["partitions"] = {name: {"values": [""], "empty": "value"}}
    else:
        columns = _columns(stream, stream.template)
        partitions = _partition_columns(columns)
        # The rows have the values of the other columns, but not the time of the sync.
        others = [column for column in columns if column not in partitions and column.is_now]
        config["layout"] = {"template": stream.template.text, "compat": "olake"}
        config["partitions"] = {column.name: column.partition(start) for column in partitions}
        if not all(column.is_now for column in partitions):
            config["checks"] = {"skip": ["no_null_partition"]}  # OLake has a folder of NULL
        if others:
            config["path_columns"] = {column.name: column.field for column in others}
    config["destination"] = {"schema": as_identifier(stream.namespace), "table": as_identifier(stream.name)}
    _check(stream, config)
    return config


def null_times(stream: OlakeStream, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The partition columns with a folder of times that are NULL, which no config has, and their rows' columns."""
    placeholders = stream.template.placeholders if stream.template else ()
    for name, column in config["partitions"].items():
        of_column = [p for p in placeholders if not p.is_now and p.column == column.get("from")]
        # A default of digits is a time like any other.
        if column.get("type") in TIME_TYPES and not all(p.null.isdecimal() for p in of_column):
            yield name, column["from"]


def as_identifier(text: str) -> str:
    """Return the text as an identifier: other characters become underscores."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "main"
    return f"_{name}" if name[0].isdigit() else name


def free(name: str, taken: Collection[str]) -> str:
    """Return the name, extended until it is none of those that are taken."""
    known = {other.lower() for other in taken}
    while name.lower() in known:
        name = f"{name}_of_path"
    return name


def _columns(stream: OlakeStream, template: Template) -> list[_Column]:
    """Return the columns of the layout in the order of the path."""
    _refuse_mistakes(stream, template)
    sources = list(dict.fromkeys(_source(placeholder) for placeholder in template.placeholders))
    template = template.named({NOW: NOW}) if NOW in sources else template
    taken = {placeholder.column for placeholder in template.placeholders if not placeholder.is_now}
    columns: list[_Column] = []
    for source in sources:
        columns.append(_column(stream, template, source, taken))
        taken.add(columns[-1].name)
    return columns


def _refuse_mistakes(stream: OlakeStream, template: Template) -> None:
    """Refuse templates that OLake accepts, but for which it writes other folders than intended."""
    known = [(placeholder.start, placeholder.end) for placeholder in template.placeholders]
    dropped = [match for match in re.finditer(r"\{[^}]+\}", template.text) if match.span() not in known]
    static = re.sub(r"\{[^}]+\}", "", template.text)
    if dropped:
        mistake = f"{dropped[0][0]} has fewer than three fields, so that OLake leaves it out of the path"
    elif "{" in static or "}" in static or any("{" in template.text[start + 1 : end] for start, end in known):
        mistake = "a bracket has no counterpart, so that OLake does not read it as a placeholder"
    elif not known:
        mistake = "it names no column"
    else:
        return
    raise ConfigError(
        f"partition_regex {template.text!r} of {stream}: {mistake}:",
        "write each placeholder as {column,default,granularity}.",
    )


def _column(stream: OlakeStream, template: Template, source: str, taken: Collection[str]) -> _Column:
    placeholders = [placeholder for placeholder in template.placeholders if _source(placeholder) == source]
    is_now = all(placeholder.is_now for placeholder in placeholders)
    kind = stream.types.get(source)
    if all(placeholder.granularity for placeholder in placeholders):
        time = time_type(template, source)
        name = free(_name_of_parts(template, placeholders, time), [*stream.types, *taken])
        return _Column(name, time or "string", source, is_now, is_whole=False)
    name = free(as_identifier("olake_time" if is_now else source), [*stream.types, *taken])
    is_integer = not is_now and kind in {"integer", "integer_small"}
    return _Column(name, "integer" if is_integer else "string", source, is_now, is_whole=True)


def _name_of_parts(template: Template, placeholders: Sequence[Placeholder], time: str | None) -> str:
    """Return the folder's name, as `dt` in `dt={ts,,YY}`; otherwise the column's name and its finest part."""
    first = placeholders[0]
    folder = re.search(r"(?:^|/)([A-Za-z_]\w*)=$", template.text[: first.start], re.ASCII)
    if folder:
        return folder[1]
    granularities = {placeholder.granularity for placeholder in placeholders}
    finest = [word for part, word in GRANULARITIES.items() if part in granularities][-1]
    return f"{'olake' if first.is_now else as_identifier(first.column)}_{time or finest.rpartition(' ')[2]}"


def _source(placeholder: Placeholder) -> str:
    return placeholder.name or NOW


def _partition_columns(columns: Sequence[_Column]) -> list[_Column]:
    """Return the first column that is a time, and the first others, up to two; in the order of the path."""
    times = [column for column in columns if column.type in TIME_TYPES]
    selected = list(dict.fromkeys([*times[:1], *columns]))[:MOST_COLUMNS]
    return [column for column in columns if column in selected]


def _check(stream: OlakeStream, config: Mapping[str, object]) -> None:
    try:
        StreamConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(f"{stream} cannot be imported: {first['msg'].removeprefix('Value error, ')}.") from error
