"""The model of a whole `lake.yaml`, and what its lakes, streams and settings must agree on.

All are frozen, refuse unknown keys, and have no connections. Secrets are `SecretStr`, so that no `repr`, log or error
shows them. The validation context (`fields.below`) makes relative paths absolute.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from lake_assets.config.automation import Alerts
from lake_assets.config.connections import way_of
from lake_assets.config.defaults import OF_DEFAULTS, Defaults, schema_with_defaults, with_defaults
from lake_assets.config.fields import Identifier, KeyPrefix, LocatedError, Model, folder_of
from lake_assets.config.lake import Lake
from lake_assets.config.secrets import secret_in
from lake_assets.config.sections import Move
from lake_assets.config.spark import CONFIG_MISSING, EmrServerless, InProcess, Runs, Spark, launcher_refusal
from lake_assets.config.streams import StreamConfig

_Contradiction = tuple[str, str, str]  # of a stream: its name, the key, and what is wrong with it


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
                way_of(self.lakes[name].storages)
            except ValueError as error:
                raise LocatedError(str(error), "lakes", name) from error
        for at, text in self._of_release():
            raise LocatedError(text, "release", at)
        for problems in (
            self._of_earlier_names,
            self._of_exports,
            self._of_dead_letters,
            self._of_archives,
            self._of_tables,
            self._of_inserts,
            self._of_index,
        ):
            for name, key, text in problems():
                raise LocatedError(text, "streams", name, key)
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
                mine, theirs = (self.streams[stream].columns for stream in (member, first))
                if [(c.name, c.type) for c in mine] != [(c.name, c.type) for c in theirs]:
                    yield name, f"streams {first} and {member} have different partition columns, so no common keys"
                if self.streams[member].mode.registers:
                    yield name, f"stream {member} has mode: index, which registers objects as they are: use replace"
                if self.streams[member].deltas is not None:
                    yield name, f"stream {member} exports deltas, and an export is of one table: remove one of both"
            if self.lakes[self.lake_name(first)].inserts_only:
                yield name, "the lake takes rows only by INSERT, a partition at a time: its streams cannot have a group"

    def released_with(self, stream: str) -> list[str]:
        """Return the other streams of a stream's release group."""
        group = next((members for members in self.release.values() if stream in members), ())
        return [member for member in group if member != stream]

    def _of_earlier_names(self) -> Iterator[_Contradiction]:
        owners: dict[str, str] = {}
        for name, stream in self.streams.items():
            for earlier in stream.previously:
                if earlier in self.streams:
                    text = (
                        f"stream {name} has {earlier} in previously, and {earlier} is a stream of the config: remove it"
                    )
                    yield name, "previously", text
                if (owner := owners.setdefault(earlier, name)) != name:
                    text = f"streams {owner} and {name} both have {earlier} in previously: remove it from one of them"
                    yield name, "previously", text

    def _of_exports(self) -> Iterator[_Contradiction]:
        roots = self._roots()
        exports: dict[str, str] = {}
        for name, stream, lake_name, lake in self._placed():
            if stream.deltas is None:
                continue
            root = stream.deltas.to.root
            if (other := _overlapping(root, roots)) is not None:
                text = f"stream {name} exports to {root}, which is within {roots[other]}, or the reverse: give"
                yield name, "deltas", f"{text} deltas.to a folder of its own"
            if (first := exports.setdefault(root, name)) != name:
                text = f"streams {first} and {name} both export to {root}: give each deltas.to of its own"
                yield name, "deltas", text
            if lake.is_encrypted and not stream.deltas.plaintext:
                text = f"stream {name} would export plain files from the encrypted lake {lake_name}: write"
                yield name, "deltas", f"{text} plaintext: true below deltas to permit it, or remove deltas"
            if lake.shares_table(lake.delta_manifest):
                yield (
                    name,
                    "deltas",
                    "delta_manifest is a table of its own: give it another name than the lake's other tables",
                )

    def _of_archives(self) -> Iterator[_Contradiction]:
        roots = self._roots()
        for name, stream in self.streams.items():
            if isinstance(stream.after_load, Move):
                root = stream.after_load.move.root
                if (other := _overlapping(root, roots)) is not None:
                    text = f"stream {name} moves loaded objects to {root}, which is within {roots[other]}, or"
                    yield name, "after_load", f"{text} the reverse: give after_load.move a folder of its own"
            others = {other.source.root: n for n, other in self.streams.items() if n != name}
            if (
                stream.after_load not in ("keep", "tag")
                and (shared := _overlapping(stream.source.root, others)) is not None
            ):
                text = (
                    f"stream {name} takes loaded objects out of a landing zone that stream {others[shared]} reads too"
                )
                yield name, "after_load", f"{text}: give each a folder of its own, or use keep or tag"

    def _of_dead_letters(self) -> Iterator[_Contradiction]:
        exports = {n: stream.deltas.to for n, stream in self.streams.items() if stream.deltas is not None}
        roots = self._roots() | {to.root: f"the deltas of stream {name}" for name, to in exports.items()}
        for name, stream, lake_name, lake in self._placed():
            if stream.on_bad_row == "fail":
                continue
            letters = stream.dead_letters
            if letters is not None and (other := _overlapping(letters.to.root, roots)) is not None:
                text = f"stream {name} has its dead letters in {letters.to.root}, which is within {roots[other]}, or"
                yield name, "dead_letters", f"{text} the reverse: give dead_letters.to a folder of its own"
            if lake.is_encrypted and letters is not None and not letters.plaintext:
                text = f"stream {name} would write plain rows for the encrypted lake {lake_name}: write"
                text += " plaintext: true below dead_letters to permit it, or remove dead_letters"
                if stream.source.read_only is None:
                    text += ", so that they are in the landing zone, which has these rows in plain files already"
                else:
                    text += " and on_bad_row"
                yield name, "dead_letters", text
            if lake.shares_table(lake.dead_letter_manifest):
                text = "dead_letter_manifest is a table of its own: give it another name than the lake's other tables"
                yield name, "on_bad_row", text

    def _roots(self) -> dict[str, str]:
        """Return what each storage of lakes and landing zones is, for errors, by its root."""
        roots: dict[str, str] = {}
        for name, lake in self.lakes.items():
            for storage in (lake.storage, lake.staging):
                if storage is not None:
                    roots[storage.root] = f"the storage of lake {name}"
        for name, stream in self.streams.items():
            landings = [stream.source, *(stream.landing.outputs if stream.landing else ())]
            roots |= {landing.root: f"the landing zone of stream {name}" for landing in landings}
        return roots

    def _of_tables(self) -> Iterator[_Contradiction]:
        targets: dict[tuple[str, str, str], str] = {}
        for name, stream, lake_name, lake in self._placed():
            schema, table = stream.destination.schema_name, stream.destination.table
            other = targets.setdefault((lake_name, schema.lower(), table.lower()), name)
            if other != name:
                text = f"streams {other} and {name} both fill {schema}.{table} of lake {lake_name}: give each its own"
                yield name, "destination", f"{text} table"
            if table.lower() in lake.own_tables:
                text = f"stream {name} would fill the lake's own table {table}: give it another table, or the lake"
                yield name, "destination", f"{text} another ledger and manifest"
            if lake.is_managed and (unavailable := {"ledger", "data_files"}.intersection(stream.checks.blocking)):
                text = f"stream {name}: checks.blocking names {min(unavailable)}, which reads DuckLake's own tables,"
                yield name, "checks", f"{text} and MotherDuck has those of lake {lake_name}: remove it"

    def _of_inserts(self) -> Iterator[_Contradiction]:
        for name, stream, lake_name, lake in self._placed():
            kind = "managed by MotherDuck" if lake.is_managed else "encrypted"
            if lake.inserts_only and stream.commit_batch not in ("auto", 1):
                text = f"stream {name} has commit_batch: {stream.commit_batch}, and lake {lake_name} is {kind}: its"
                text += " rows are written with INSERT while the commit holds the lock, so each partition is a commit:"
                yield name, "commit_batch", f"{text} remove commit_batch"
            if lake.inserts_only and stream.mode.registers:
                text = f"stream {name} has mode: index, and lake {lake_name} is {kind}: files cannot be registered in"
                yield name, "mode", f"{text} such a lake, so use mode: replace"

    def _of_index(self) -> Iterator[_Contradiction]:
        for name, stream, _, lake in self._placed():
            if not stream.mode.registers:
                continue
            if stream.source.lacks_hmac_key:
                text = f"stream {name} has mode: index, so DuckDB reads its source, and accesses Google Cloud Storage"
                text += " with an HMAC key: give the source key_id and secret, or provider: credential_chain"
                yield name, "source", text
            if lake.catalog.is_service and stream.source.is_local:
                text = f"stream {name} has mode: index, and MotherDuck cannot read a folder of this machine: give a"
                yield name, "source", f"{text} bucket"

    def _placed(self) -> Iterator[tuple[str, StreamConfig, str, Lake]]:
        """Yield each stream with its lake, and the names of both."""
        for name, stream in self.streams.items():
            lake_name = self.lake_name(name)
            yield name, stream, lake_name, self.lakes[lake_name]

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


def _overlapping(root: str, roots: Iterable[str]) -> str | None:
    """Return the first of these roots that lies within a root, or has it within."""
    return next((r for r in roots if f"{root}/".startswith(f"{r}/") or f"{r}/".startswith(f"{root}/")), None)
