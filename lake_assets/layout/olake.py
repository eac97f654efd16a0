"""OLake's `catalog.json` (later called `streams.json`): which streams are selected, and how each is laid out.

Source of the format: OLake's `types/catalog.go`. Keys that say nothing about partitions are passed over.
"""

from dataclasses import dataclass

from pydantic import BaseModel, Field, ValidationError

from lake_assets.errors import ConfigError
from lake_assets.layout.template import Template


@dataclass(frozen=True, slots=True)
class OlakeStream:
    """A selected stream of an OLake catalog.

    Attributes:
        namespace: the database or schema that it comes from; the first folder of its files.
        name: the table or collection; the second folder.
        template: what follows these two folders, with `compat: olake`; None where the stream is not partitioned.
        sync_mode: `full_refresh`, `incremental`, `cdc` or `strict_cdc`; None where the catalog does not say.
    """

    namespace: str
    name: str
    template: Template | None
    sync_mode: str | None


class _Selected(BaseModel):
    stream_name: str = Field(min_length=1)
    partition_regex: str | None = None


class _Stream(BaseModel):
    name: str
    namespace: str = ""
    sync_mode: str | None = None


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
    try:
        catalog = _Catalog.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(
            f"the OLake catalog is not valid: {key}: {first['msg']}.", "Take the file that `olake discover` writes."
        ) from error
    modes = {(entry.stream.namespace, entry.stream.name): entry.stream.sync_mode for entry in catalog.streams}
    return tuple(
        OlakeStream(
            namespace, entry.stream_name, _template(entry.partition_regex), modes.get((namespace, entry.stream_name))
        )
        for namespace, selected in catalog.selected_streams.items()
        for entry in selected
    )


def _template(text: str | None) -> Template | None:
    return Template.parse(text, compat="olake") if text else None
