"""What a launcher asks of a driver. It has no secret: the driver reads the config and its own environment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, SecretStr, TypeAdapter

from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import CONFIG_MISSING, AnyRuns, EmrServerless
from lake_assets.config.storages import AnyStorage
from lake_assets.errors import LauncherError
from lake_assets.ingest.options import IngestOptions
from lake_assets.layout.partition import Partition
from lake_assets.version import VERSION

_LENGTH = 200  # of a value in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a driver is to do: partitions of a stream, and the options of `ingest_all`."""

    config: str  # path or URI of the config for the driver
    launcher_config: str  # path or URI of the launcher's config, for messages
    launcher: str
    stream: str
    facts: dict[str, str]  # those of the stream in the launcher's config
    partitions: Sequence[str]
    options: IngestOptions
    version: str = VERSION  # of the package that made the request

    @classmethod
    def of(
        cls,
        config: LakeConfig,
        runs: AnyRuns,
        stream: str,
        partitions: Sequence[Partition],
        options: IngestOptions,
    ) -> Self:
        """Return the request for these partitions of a stream.

        Raises LauncherError if the config is not that of a file, or the driver's place of it is not known.
        """
        return cls(
            config=_for_driver(config, runs),
            launcher_config=str(config.file or config.uri or "of Python"),
            launcher=runs.launcher,
            stream=stream,
            facts=facts_of(config, stream),
            partitions=[partition.path for partition in partitions],
            options=options,
        )

    @classmethod
    def of_extras(cls, extras: Mapping[str, Any]) -> Self:
        """Return the request that a launcher sent. One of another version of this package is refused."""
        if (theirs := extras.get("version")) != VERSION:
            raise LauncherError(
                f"the driver has lake-assets {VERSION}, and the run's launcher has {theirs}:",
                "install the same version for both.",
            )
        return TypeAdapter(cls).validate_python(extras)

    def check_same(self, config: LakeConfig) -> None:
        """Refuse the driver's config if its stream is another one than the launcher's.

        Credentials, and the address of a catalog, may differ: the driver can have others for the same places.
        """
        if self.stream not in config.streams:
            raise LauncherError(
                f"the launcher's config {self.launcher_config} has the stream {self.stream}, and the driver's "
                f"{self.config} has not:",
                "copy the launcher's config to the driver's place.",
            )
        own = facts_of(config, self.stream)
        for key in sorted(self.facts.keys() | own.keys()):
            if self.facts.get(key) != own.get(key):
                raise LauncherError(
                    f"{key} is {_shown(self.facts.get(key))} in the launcher's config {self.launcher_config}, and "
                    f"{_shown(own.get(key))} in the driver's {self.config}:",
                    "copy the launcher's config to the driver's place, and reload the code location if that is newer.",
                )

    @property
    def extras(self) -> dict[str, Any]:
        """The request as Pipes sends it, of JSON's types."""
        extras: dict[str, Any] = TypeAdapter(type(self)).dump_python(self, mode="json")
        return extras


def _for_driver(config: LakeConfig, runs: AnyRuns) -> str:
    if isinstance(runs, EmrServerless):
        if place := runs.config or config.uri:
            return place
        raise LauncherError(f"{CONFIG_MISSING[0]}:", f"{CONFIG_MISSING[1]}.")
    if own := config.file or config.uri:
        return str(own)
    raise LauncherError(
        "the launcher starts a driver that reads the config's file, and this config is not of a file:",
        "write the config to a file such as lake.yaml, and load that.",
    )


def facts_of(config: LakeConfig, stream: str) -> dict[str, str]:
    """Return the facts of a stream and its lake by their keys, without secrets."""
    lake = config.lake_name(stream)
    of_lake = config.lakes[lake]
    found = dict(_facts(config.streams[stream], f"streams.{stream}"))
    found |= _facts(of_lake, f"lakes.{lake}")
    found |= {f"lakes.{lake}.catalog.type": of_lake.catalog.type, f"streams.{stream}.lake": lake}
    if (database := getattr(of_lake.catalog, "database", None)) is not None:
        found[f"lakes.{lake}.catalog.database"] = str(database)
    return found


def _facts(value: object, key: str) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, SecretStr):
        return
    if isinstance(value, AnyStorage):
        yield key, value.root
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if not (isinstance(value, Lake) and name == "catalog"):
                yield from _facts(getattr(value, name), f"{key}.{name}")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _facts(item, f"{key}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _facts(item, f"{key}[{index}]")
    else:
        yield key, str(value)


def _shown(value: str | None) -> str:
    if value is None:
        return "absent"
    return repr(value) if len(value) <= _LENGTH else f"{value[:_LENGTH]!r}…"
