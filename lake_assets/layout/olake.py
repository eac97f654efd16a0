"""OLake's `catalog.json` (later called `streams.json`): the selected streams and their layouts.

Source of the format: OLake's `types/catalog.go`, `types/stream.go` and `types/type_schema.go`. Keys that are not about
paths, partitions or columns are ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, Field, ValidationError

from lake_assets.errors import ConfigError
from lake_assets.layout.template import Template


@dataclass(frozen=True, slots=True)
class OlakeStream:
    """A selected stream of an OLake catalog.

    Attributes:
        namespace: its database or schema in the source.
        name: the table or collection.
        template: the layout below `folder`, with `compat: olake`; None if the stream is not partitioned.
        sync_mode: `full_refresh`, `incremental`, `cdc` or `strict_cdc`; None if the catalog has none.
        folder: the folder below OLake's destination: database and table, `namespace/name` by default.
        types: OLake's type of each described column, such as `integer` or `timestamp_micro`; None for a column whose
            type depends on the row.
    """

    namespace: str
    name: str
    template: Template | None
    sync_mode: str | None
    folder: str = ""
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
    """Return the selected streams of a catalog, in its order.

    Args:
        text: the content of `catalog.json`.

    Raises:
        ConfigError: the text is no JSON, or no catalog; the error names the key.
    """
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
