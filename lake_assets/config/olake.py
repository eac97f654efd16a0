"""Streams of OLake's catalog as streams of a `lake.yaml`."""

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError
from lake_assets.layout.grammar import NOW, Placeholder
from lake_assets.layout.olake import OlakeStream
from lake_assets.layout.template import Template
from lake_assets.layout.time_types import time_type
from lake_assets.layout.times import TIME_TYPES
from lake_assets.layout.timestamps import GRANULARITIES

# Dagster's partitions have two dimensions; what else the path says becomes `path_columns`.
MOST_COLUMNS = 2

# OLake writes it into every record: the time at which the record was read.
SYNC_TIME = "_olake_timestamp"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a layout as a stream's config has it.

    Attributes:
        name: the column's name in the table.
        type: one of the types of partition columns.
        source: the layout's name of it, where that is another.
    """

    name: str
    type: str
    source: str | None

    @property
    def field(self) -> Mapping[str, object]:
        return {"type": self.type, "from": self.source} if self.source else {"type": self.type}


def stream_config(stream: OlakeStream, source: str, start: dt.date) -> dict[str, object]:
    """The stream as a mapping of `streams:` in a `lake.yaml`, with a partition for every path that OLake writes.

    A folder of a column's values is a partition column of its name. A folder of the parts of a timestamp becomes a
    date (year, month, hour) derived from that timestamp, and a folder of `now()` one of the time of the sync. Of three
    and more columns two become partition columns, a time first, and the others `path_columns`. A stream without a
    template is partitioned by the date of the sync in its rows.

    Args:
        stream: of OLake's catalog.
        source: where OLake writes: a folder, or a URI such as `s3://bucket/prefix`.
        start: the first date of partition columns that are times.

    Raises:
        ConfigError: the stream cannot be carried over; the error says why.
    """
    config: dict[str, object] = {"source": f"{source.rstrip('/')}/{stream.folder}"}
    if stream.template is None:
        by_sync = {"type": "date", "in": "rows", "from": SYNC_TIME, "start": start}
        config["partitions"] = {_free(stream, (), "olake_date"): by_sync}
    else:
        columns = _columns(stream, stream.template)
        partitions = _partition_columns(columns)
        others = [column for column in columns if column not in partitions]
        config["layout"] = {"template": stream.template.text, "compat": "olake"}
        config["partitions"] = {
            c.name: {**c.field, **({"start": start} if c.type in TIME_TYPES else {})} for c in partitions
        }
        if others:
            config["path_columns"] = {column.name: column.field for column in others}
    config["destination"] = {"schema": identifier(stream.namespace), "table": identifier(stream.name)}
    _check(stream, config)
    return config


def identifier(text: str) -> str:
    """The text with an underscore for each character that no identifier of SQL has."""
    found = re.sub(r"\W", "_", text, flags=re.ASCII) or "main"
    return f"_{found}" if found[0].isdigit() else found


def _columns(stream: OlakeStream, template: Template) -> list[_Column]:
    """The columns of the layout in the order of the path."""
    _refuse_faults(stream, template)
    template = template.named({NOW: NOW}) if any(_name(place) == NOW for place in template.placeholders) else template
    columns: list[_Column] = []
    for source in dict.fromkeys(_name(place) for place in template.placeholders):
        taken = {column.name for column in columns}
        columns.append(_column(stream, template, source, taken))
    return columns


def _refuse_faults(stream: OlakeStream, template: Template) -> None:
    """Refuse what OLake itself takes, and writes in other folders than anybody means."""
    known = [(place.start, place.end) for place in template.placeholders]
    dropped = [match for match in re.finditer(r"\{[^}]+\}", template.text) if match.span() not in known]
    static = re.sub(r"\{[^}]+\}", "", template.text)
    if dropped:
        fault = f"{dropped[0][0]} has fewer than three fields, so that OLake leaves it out of the path"
    elif "{" in static or "}" in static or any("{" in template.text[start + 1 : end] for start, end in known):
        fault = "a bracket has no counterpart, so that OLake does not read it as a placeholder"
    elif not known:
        fault = "it names no column"
    else:
        return
    raise ConfigError(
        f"partition_regex {template.text!r} of {stream}: {fault}:",
        "write each placeholder as {column,default,granularity}.",
    )


def _column(stream: OlakeStream, template: Template, source: str, taken: Collection[str]) -> _Column:
    places = [place for place in template.placeholders if _name(place) == source]
    is_now = all(place.is_now for place in places)
    in_parts = all(place.granularity for place in places)
    kind = stream.types.get(source)
    if in_parts:
        time = time_type(template, source)
        name = _free(stream, taken, _name_of_parts(template, places, time))
        return _Column(name, time or "string", None if name == source else source)
    if not is_now and identifier(source) == source and kind in {None, "string", "integer", "integer_small"}:
        return _Column(source, "integer" if kind and kind.startswith("integer") else "string", None)
    # A timestamp, number or boolean is another text in the path than in the rows.
    return _Column(_free(stream, taken, identifier("olake_time" if is_now else f"{source}_text")), "string", source)


def _name_of_parts(template: Template, places: Sequence[Placeholder], time: str | None) -> str:
    """The folder's own name, as `dt` in `dt={ts,,YY}`, or one of the column and what the parts are."""
    folder = re.search(r"(?:^|/)([A-Za-z_]\w*)=$", template.text[: places[0].start], re.ASCII)
    if folder:
        return folder[1]
    finest = [word for part, word in GRANULARITIES.items() if part in {place.granularity for place in places}][-1]
    first = "olake" if places[0].is_now else identifier(places[0].column)
    return f"{first}_{time or finest.rpartition(' ')[2]}"


def _name(place: Placeholder) -> str:
    return place.name or NOW


def _free(stream: OlakeStream, taken: Collection[str], name: str) -> str:
    """The name, or one like it that no column of the rows and no other column of the path has."""
    used = {column.lower() for column in (*stream.types, *taken)}
    while name.lower() in used:
        name = f"{name}_of_path"
    return name


def _partition_columns(columns: Sequence[_Column]) -> list[_Column]:
    """The two to partition by: the first that is a time, and the first others; in the order of the path."""
    times = [column for column in columns if column.type in TIME_TYPES]
    chosen = list(dict.fromkeys([*times[:1], *columns]))[:MOST_COLUMNS]
    return [column for column in columns if column in chosen]


def _check(stream: OlakeStream, config: Mapping[str, object]) -> None:
    try:
        Stream.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(f"{stream} cannot be carried over: {first['msg'].removeprefix('Value error, ')}.") from error
