"""OLake's `catalog.json` (later called `streams.json`): which streams are selected, and how each is laid out.

Source of the format: OLake's `types/catalog.go`, `types/stream.go` and `types/type_schema.go`. Keys that say nothing of
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
        namespace: the database or schema that it comes from.
        name: the table or collection.
        template: what follows `folder`, with `compat: olake`; None where the stream is not partitioned.
        sync_mode: `full_refresh`, `incremental`, `cdc` or `strict_cdc`; None where the catalog does not say.
        folder: where its files lie below OLake's destination: database and table, `namespace/name` by default.
        types: OLake's type of each column that the catalog describes, such as `integer` or `timestamp_micro`; None for
            a column whose type depends on the row.
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
        """Database and table, as OLake's `GetDestinationDatabase` and `GetDestinationTable` name them."""
        database = self.destination_database
        # One underscore for each character that is no ASCII letter or digit, as OLake's `Reformat` has it.
        first = re.sub("[^a-z0-9]", "_", database.lower()) if database else self.namespace
        return f"{first}/{self.destination_table or self.name}"

    @property
    def types(self) -> dict[str, str | None]:
        """OLake's types by column, under the names of source and destination."""
        found = self.type_schema.properties
        named = {property_.destination_column_name or name: property_.one_type for name, property_ in found.items()}
        return {name: property_.one_type for name, property_ in found.items()} | named


class _Configured(BaseModel):
    stream: _Stream


class _Catalog(BaseModel):
    selected_streams: dict[str, list[_Selected]]
    streams: list[_Configured] = []


def read_catalog(text: str) -> tuple[OlakeStream, ...]:
    """The selected streams of a catalog, in its order.

    Args:
        text: the content of `catalog.json`.

    Raises:
        ConfigError: the text is no JSON, or no catalog; the error names the key.
    """
    # OLake's documentation has lines of comment in its samples.
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    try:
        catalog = _Catalog.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(
            f"the OLake catalog is not valid: {key}: {first['msg']}.", "Take the file that `olake discover` writes."
        ) from error
    known = {(entry.stream.namespace, entry.stream.name): entry.stream for entry in catalog.streams}
    found = []
    for namespace, selected in catalog.selected_streams.items():
        for entry in selected:
            name = entry.stream_name
            stream = known.get((namespace, name), _Stream(name=name, namespace=namespace))
            template = _template(entry.partition_regex)
            found.append(OlakeStream(namespace, name, template, stream.sync_mode, stream.folder, stream.types))
    return tuple(found)


def _template(text: str | None) -> Template | None:
    return Template.parse(text, compat="olake") if text else None
