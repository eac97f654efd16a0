"""The model of a whole `lake.yaml`; what its streams cannot be together is in `config/contradictions.py`.

All models are frozen, refuse unknown keys, and have no connections. Secrets are `SecretStr`, so that no `repr`, log or
error shows them. The validation context (`fields.below`) makes relative paths absolute.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from lake_assets.config.automation import Alerts
from lake_assets.config.connections import shared_network
from lake_assets.config.contradictions import contradictions_in
from lake_assets.config.defaults import OF_DEFAULTS, Defaults, schema_with_defaults, with_defaults
from lake_assets.config.fields import Identifier, KeyPrefix, LocatedError, Model, folder_of
from lake_assets.config.lake import Lake
from lake_assets.config.secrets import secret_in
from lake_assets.config.spark import CONFIG_MISSING, EmrServerless, InProcess, Runs, Spark, launcher_refusal
from lake_assets.config.streams import StreamConfig


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a config comes from. Equal configs of two places are equal."""

    file: Path | None = field(default=None, compare=False)
    uri: str | None = field(default=None, compare=False)


class Orchestration(Model):
    """The assets in Dagster beside the tables and their landing zones."""

    report_asset: bool = Field(
        default=False,
        description="Each stream has the asset `<stream>_report`. A stream with `report` has it in any case.",
    )
    ledger_asset: bool = Field(default=False, description="Each lake has the asset `<lake>_ledger`.")


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    lakes: dict[Identifier, Lake] = Field(min_length=1, description="The lakes by name.")
    streams: dict[Identifier, StreamConfig] = Field(min_length=1, description="The streams by name.")
    defaults: Defaults | None = Field(
        None,
        exclude=True,
        description="Keys of a stream that all streams share; a stream's own keys override them. `{stream}` in a text "
        "is the stream's name.",
    )
    release: dict[Identifier, tuple[Identifier, ...]] = Field(
        default_factory=dict,
        description="Groups of streams that are released together: a partition of all of them becomes visible in one "
        "snapshot, or of none.",
    )
    spark: Spark = Field(default_factory=Spark, description="Where Spark runs, and its settings.")
    runs: Runs = Field(InProcess(launcher="in_process"), description="Where the driver of a run executes.")
    alerts: Alerts | None = Field(None, description="Receivers of failed runs and stale streams.")
    key_prefix: KeyPrefix = Field((), description="The first parts of the keys of all assets in Dagster.")
    orchestration: Orchestration = Field(
        Orchestration(), description="The assets in Dagster beside the tables and their landing zones."
    )
    _origin: Origin = PrivateAttr(Origin())

    @property
    def file(self) -> Path | None:
        """The file that the config was read from, an absolute path; None if it was made otherwise."""
        return self._origin.file

    @property
    def uri(self) -> str | None:
        """The URI that the config was read from; None if it is not of an object."""
        return self._origin.uri

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's signature
        """Return the JSON Schema of a config file, for editors."""
        stream = StreamConfig.model_json_schema(*args, **kwargs | {"ref_template": OF_DEFAULTS})
        return schema_with_defaults(super().model_json_schema(*args, **kwargs), stream)

    @model_validator(mode="before")
    @classmethod
    def _streams_have_the_defaults(cls, data: object) -> object:
        return with_defaults(data)

    @model_validator(mode="after")
    def _launcher_fits(self, info: ValidationInfo) -> Self:
        runs = self.runs
        if (reason := launcher_refusal(runs, self.spark.shown_settings)) is not None:
            raise LocatedError(": ".join(reason), "runs")
        if isinstance(runs, EmrServerless):
            if runs.config is None and folder_of(info) is not None:
                raise LocatedError(": ".join(CONFIG_MISSING), "runs")
            if secret_in(runs.model_dump_json(), self):
                raise LocatedError(
                    "runs has a secret of this config, and the launcher would show it: remove it, and give the driver "
                    "its own variable, which docs/how-to/run-by-a-driver.md describes",
                    "runs",
                )
        return self

    @model_validator(mode="after")
    def _streams_fit(self) -> Self:
        of_lakes: dict[str, list[StreamConfig]] = {name: [] for name in self.lakes}
        for name, stream in self.streams.items():
            of_lakes[self.lake_name(name)].append(stream)
        for name, streams in of_lakes.items():
            self.lakes[name].note_streams(
                indexed=[stream.source for stream in streams if stream.mode.registers],
                exports_deltas=any(stream.deltas is not None for stream in streams),
                has_dead_letters=any(stream.on_bad_row == "dead_letter" for stream in streams),
            )
            try:
                shared_network(self.lakes[name].storages)
            except ValueError as error:
                raise LocatedError(str(error), "lakes", name) from error
        for at, text in self._of_release():
            raise LocatedError(text, "release", at)
        for name in self.streams:
            if (cycle := self._cycle([name])) is not None:
                text = f"the transform reads the stream's own rows, by {' <- '.join(cycle)}: remove one of these tables"
                raise LocatedError(text, "streams", name, "transform", "tables")
        for problem in contradictions_in(self.lakes, self.streams, self.release):
            raise problem
        return self

    def _of_release(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each group that cannot be, and what is wrong with it."""
        grouped: dict[str, str] = {}
        for name, members in self.release.items():
            if unknown := [member for member in members if member not in self.streams]:
                yield name, f"{unknown[0]} is not a stream: write {', '.join(self.streams)}"
                continue
            if len(set(members)) < 2 or len(set(members)) < len(members):
                yield name, "a release group has at least two streams, each once"
                continue
            first = members[0]
            for member in members:
                if (other := grouped.setdefault(member, name)) != name:
                    yield name, f"stream {member} is in the group {other} already: a stream has one"
                if self.lake_name(member) != self.lake_name(first):
                    yield name, f"streams {first} and {member} have different lakes, and a snapshot is of one lake"
                mine, theirs = (self.streams[stream].partition_columns for stream in (member, first))
                if [(c.name, c.type) for c in mine] != [(c.name, c.type) for c in theirs]:
                    yield name, f"streams {first} and {member} have different partition columns, so no common keys"

    def _cycle(self, path: list[str]) -> list[str] | None:
        """Return the streams of a path that ends where it began, by the tables that transforms read."""
        transform = self.streams[path[-1]].transform
        wanted = (
            [(table if "." in table else f"main.{table}").lower() for table in transform.tables] if transform else []
        )
        for other, stream in self.streams.items():
            to = stream.destination
            if f"{to.schema_name}.{to.table}".lower() in wanted and self.lake_name(other) == self.lake_name(path[0]):
                if other == path[0]:
                    return [*path, other]
                if other not in path and (cycle := self._cycle([*path, other])) is not None:
                    return cycle
        return None

    def released_with(self, stream: str) -> list[str]:
        """Return the other streams of a stream's release group."""
        group = next((members for members in self.release.values() if stream in members), ())
        return [member for member in group if member != stream]

    def lake_name(self, stream: str) -> str:
        """Return the name of the stream's lake.

        Raises:
            ValueError: the stream names no lake and there are several, or its lake does not exist.
        """
        lake, known = self.streams[stream].lake, ", ".join(self.lakes)
        if lake is None and len(self.lakes) > 1:
            text = f"stream {stream} names no lake and there are several: write lake, one of {known}"
            raise LocatedError(text, "streams", stream, "lake")
        lake = lake or next(iter(self.lakes))
        if lake not in self.lakes:
            text = f"stream {stream} has the unknown lake {lake!r}: write {known}"
            raise LocatedError(text, "streams", stream, "lake")
        return lake
