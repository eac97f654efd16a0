"""The document of `validate`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.config.models import LakeConfig


@dataclass(frozen=True, slots=True)
class ConfigColumn(Documented):
    """A partition column."""

    name: str
    """Its name."""
    type: str
    """Such as `date`."""


@dataclass(frozen=True, slots=True)
class ConfigStream(Documented):
    """A stream: where its files land, and the table that they become."""

    name: str
    """Its name."""
    source: str
    """Path or URI of the landing zone with the layout, without secrets."""
    lake: str
    """Its lake."""
    table: str
    """With its schema, such as `main.sales`."""
    partitions: list[ConfigColumn]
    """The partition columns in the order of the layout."""


@dataclass(frozen=True, slots=True)
class ConfigLake(Documented):
    """A lake: locations without secrets."""

    name: str
    """Its name."""
    catalog: str
    """The kind of the catalog and its location."""
    storage: str
    """Path or URI of the data files."""


@dataclass(frozen=True, slots=True)
class ValidateDocument(Documented):
    """A valid config. The error of another one is on standard error, and the exit code is 1."""

    streams: list[ConfigStream]
    """In the order of the config."""
    lakes: list[ConfigLake]
    """In the order of the config."""

    @classmethod
    def of(cls, config: "LakeConfig") -> "ValidateDocument":
        """The document of a config."""
        # Imported here, so that `--help` is quick.
        from lake_assets.lake.failures import catalog_location, storage_location  # noqa: PLC0415
        from lake_assets.streams.stream import open_streams  # noqa: PLC0415

        streams = [
            ConfigStream(
                name,
                stream.layout_uri,
                config.lake_name(name),
                str(stream.table),
                [ConfigColumn(column.name, column.type) for column in stream.config.columns],
            )
            for name, stream in open_streams(config).items()
        ]
        lakes = [
            ConfigLake(name, catalog_location(lake), storage_location(lake)) for name, lake in config.lakes.items()
        ]
        return cls(streams, lakes)
