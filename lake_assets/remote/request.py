"""What a launcher asks of a driver. It has no secret: the driver reads the config and its own environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter

from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import CONFIG_MISSING, AnyRuns, is_elsewhere
from lake_assets.errors import LauncherError
from lake_assets.ingest.options import IngestOptions
from lake_assets.layout.partition import Partition
from lake_assets.remote.same_stream import Facts, facts_of
from lake_assets.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a driver is to do: partitions of a stream, and the options of `ingest_all`.

    Attributes:
        config: path or URI of the config for the driver.
        launcher_config: path or URI of the launcher's config, for messages.
        launcher: its name.
        stream: its name.
        facts: those of the stream in the launcher's config.
        partitions: their paths.
        options: of the run.
        version: of the package that made the request.
    """

    config: str
    launcher_config: str
    launcher: str
    stream: str
    facts: Facts
    partitions: Sequence[str]
    options: IngestOptions
    version: str = VERSION

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

        Raises:
            LauncherError: the config is not that of a file, or the driver's place of it is not known.
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
        """Return the request that a launcher sent.

        Raises:
            LauncherError: a launcher of another version of this package sent it.
        """
        if (theirs := extras.get("version")) != VERSION:
            raise LauncherError(
                f"the driver has lake-assets {VERSION}, and the run's launcher has {theirs}:",
                "install the same version for both.",
            )
        return TypeAdapter(cls).validate_python(extras)

    @property
    def extras(self) -> dict[str, Any]:
        """The request as Pipes sends it, of JSON's types."""
        extras: dict[str, Any] = TypeAdapter(type(self)).dump_python(self, mode="json")
        return extras


def _for_driver(config: LakeConfig, runs: AnyRuns) -> str:
    if is_elsewhere(runs):
        if place := runs.config or config.uri:
            return place
        raise LauncherError(f"{CONFIG_MISSING[0]}:", f"{CONFIG_MISSING[1]}.")
    if own := config.file or config.uri:
        return str(own)
    raise LauncherError(
        "the launcher starts a driver that reads the config's file, and this config is not of a file:",
        "write the config to a file such as lake.yaml, and load that.",
    )
