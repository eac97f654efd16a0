"""A stream made ready to be worked on: its config with the lake, the store and the layout that belong to it."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

from lake_assets.config.load import ConfigSource, loaded
from lake_assets.config.models import Lake, LakeConfig
from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError, StorageError
from lake_assets.lake.attach import alias
from lake_assets.lake.session import DuckLake, TableName
from lake_assets.layout.partition import Partition
from lake_assets.layout.template import Template
from lake_assets.layout.texts import is_unicode
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.locator import folder_prefixes


@dataclass(frozen=True)
class OpenStream:
    """A stream with what it takes to ingest one of its partitions."""

    name: str
    config: Stream
    lake: DuckLake
    source: Store
    spark_settings: Mapping[str, str] = field(default_factory=dict)  # of the config, over the package's own
    key_prefix: tuple[str, ...] = ()  # of its assets' keys in Dagster

    @cached_property
    def layout(self) -> Template:
        """How partitions are written as paths in the landing zone."""
        return self.config.template

    @property
    def table(self) -> TableName:
        """The destination."""
        return TableName(self.config.destination.schema_name, self.config.destination.table, alias(self.lake_config))

    @property
    def lake_config(self) -> Lake:
        """The lake's part of the config."""
        return self.lake.config

    def prefix(self, partition: Partition) -> str:
        """The folder below the landing zone's root that holds the partition's objects and no others."""
        return self.layout.prefix(partition.path_part.texts())

    def source_glob(self, partition: Partition) -> str:
        """What is read for the partition, as a glob."""
        return self.source.uri(self.prefix(partition) + self.config.files.lstrip("/"))

    @property
    def layout_uri(self) -> str:
        """The landing zone with the placeholders of its layout."""
        return self.source.uri(self.layout.text).rstrip("/")

    @property
    def files_uri(self) -> str:
        """The same with the pattern of the files."""
        return f"{self.layout_uri}/{self.config.files.lstrip('/')}"

    def destination_folder(self, partition: Partition) -> str:
        """The folder below the lake's root for the partition's data files, in Hive's form, ending in a slash."""
        folders = "/".join(f"{name}={_not_null(text)}" for name, text in partition.texts().items())
        return f"{self.table.schema}/{self.table.table}/{folders}/"

    @property
    def table_uri(self) -> str:
        """The table's folder in the lake's storage, ending in a slash; in a lake that MotherDuck manages, its name."""
        if self.lake_config.is_managed:
            return f"md:{self.table.lake}.{self.table}"
        return f"{self.lake_config.own_storage.root}/{self.table.schema}/{self.table.table}/"

    def destination_uri(self, partition: Partition) -> str:
        """Where the partition's new data files go, as a URI: a folder of its own, or the table's."""
        if self.lake_config.inserts_only:
            return self.table_uri
        return f"{self.lake_config.own_storage.root}/{self.destination_folder(partition)}"

    def manifest(self, partition: Partition) -> Manifest:
        """The partition's objects now, by a listing of its prefix alone.

        Raises:
            StorageError: the landing zone cannot be listed.
        """
        prefixes = folder_prefixes(self.layout, partition.path_part)
        # In the order of the keys, as one listing of all gives them.
        listed = sorted((o for p in prefixes for o in self.source.list(p, self.config.files)), key=lambda o: o.key)
        wanted = partition.path_part
        for landed in listed:
            if not is_unicode(landed.key):
                name = quote(os.fsencode(landed.uri), safe="/:=")
                raise StorageError(
                    f"the name of {name} is not UTF-8 (%XX is a byte of it):", "rename it, or move it away."
                )
        # A layout may say more than the partition does, and then its prefix holds other partitions too.
        matched = ((o, self.layout.match(o.key, file=True)) for o in listed)
        return Manifest(tuple(o for o, found in matched if found is not None and _is_of(wanted, found)))

    def fingerprint(self, manifest: Manifest) -> str:
        """The fingerprint of these objects under this stream's job; see `Manifest.fingerprint`."""
        transform = self.config.transform
        job = [json.dumps(transform.model_dump() if transform else None, sort_keys=True)]
        if self.config.path_columns:
            columns = self.config.path_columns.items()
            job.append(json.dumps({n: [c.type, c.source] if c.source else c.type for n, c in columns}))
        return manifest.fingerprint("\n".join(job))


def _is_of(path_part: Partition, found: Mapping[str, str]) -> bool:
    """Whether the values of a path are those of a place; an empty text may mean NULL."""
    return all(
        found[column.name] == text or (not found[column.name] and value is None and column.empty == "null")
        for column, value, text in zip(path_part.columns, path_part.values, path_part.texts().values(), strict=True)
    )


def _not_null(text: str) -> str:
    """A value as a folder's name has it: DuckDB takes a folder `region=null` for NULL, in letters of any case."""
    return f"%{ord(text[0]):02X}{text[1:]}" if text.lower() == "null" else text


def open_streams(config: LakeConfig) -> Mapping[str, OpenStream]:
    """All streams of a config; streams of one lake share its engine. Nothing is connected yet."""
    lakes = {name: DuckLake(lake) for name, lake in config.lakes.items()}
    return {
        name: OpenStream(
            name,
            stream,
            lakes[config.lake_name(name)],
            Store(stream.source),
            config.spark,
            config.key_prefix if stream.key_prefix is None else stream.key_prefix,
        )
        for name, stream in config.streams.items()
    }


def open_stream(config: ConfigSource = None, name: str | None = None) -> OpenStream:
    """Open one stream of a config. Nothing is connected yet.

    Args:
        config: a loaded config, or the path of its file; when None, the config in use (see `load_config`).
        name: the stream's name; may be None where the config has one stream.

    Returns:
        The stream with its lake and its source. Keep the object: it loads its DuckDB engine once.

    Raises:
        ConfigError: the config cannot be read or is not valid, or it has no such stream.
    """
    config = loaded(config)
    if name is None:
        if len(config.streams) > 1:
            raise ConfigError("the config has several streams:", f"name one of {', '.join(config.streams)}.")
        name = next(iter(config.streams))
    if name not in config.streams:
        raise ConfigError(f"there is no stream {name!r}:", f"the config has {', '.join(config.streams)}.")
    return open_streams(config)[name]
