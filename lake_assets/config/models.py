"""The model of a whole `lake.yaml`, and what its lakes, streams and settings must agree on.

All are frozen, refuse unknown keys, and have no connections. Secrets are `SecretStr`, so that no `repr`, log or error
shows them. The validation context (`fields.below`) makes relative paths absolute.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from lake_assets.config.alerts import Alerts
from lake_assets.config.catalogs import Catalog, MotherDuckCatalog
from lake_assets.config.defaults import Defaults, schema_with_defaults, with_defaults
from lake_assets.config.fields import Identifier, KeyPrefix, folder_of
from lake_assets.config.lake import Lake
from lake_assets.config.model import LocatedError, Model
from lake_assets.config.runs import CONFIG_MISSING, InProcess, Runs, is_elsewhere, refusal
from lake_assets.config.secrets import secret_in
from lake_assets.config.spark import Spark
from lake_assets.config.storages import AnyStorage, GcsStorage, LocalStorage
from lake_assets.config.streams import Stream


class OfStreamError(LocatedError):
    """A stream contradicts another stream or its lake."""

    def __init__(self, stream: str, key: str, text: str) -> None:
        super().__init__(text, "streams", stream, key)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a config comes from. Equal configs of two places are equal."""

    file: Path | None = field(default=None, compare=False)
    uri: str | None = field(default=None, compare=False)


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    lakes: dict[Identifier, Lake] = Field(min_length=1, description="The lakes by name.")
    streams: dict[Identifier, Stream] = Field(min_length=1, description="The streams by name.")
    defaults: Defaults | None = Field(
        None,
        exclude=True,
        description="Keys of a stream that all streams share; a stream's own keys override them. `{stream}` in a text "
        "is the stream's name.",
    )
    spark: Spark = Field(default_factory=Spark, description="Where Spark runs, and its settings.")
    runs: Runs = Field(InProcess(launcher="in_process"), description="Where the driver of a run executes.")
    alerts: Alerts | None = Field(None, description="Receivers of failed runs and stale streams.")
    key_prefix: KeyPrefix = Field((), description="The first parts of the keys of all assets in Dagster.")
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
        return schema_with_defaults(super().model_json_schema(*args, **kwargs))

    @model_validator(mode="before")
    @classmethod
    def _streams_have_the_defaults(cls, data: object) -> object:
        return with_defaults(data)

    @model_validator(mode="after")
    def _launcher_fits(self, info: ValidationInfo) -> Self:
        runs = self.runs
        if (reason := refusal(runs, self.spark.shown_settings)) is not None:
            raise LocatedError(": ".join(reason), "runs")
        if is_elsewhere(runs):
            if runs.config is None and folder_of(info) is not None:
                raise LocatedError(": ".join(CONFIG_MISSING), "runs")
            if secret_in(runs.model_dump_json(), self):
                raise LocatedError(
                    "runs has a secret of this config, and the launcher would show it: remove it, and give the driver "
                    "the variable by a secret of the cluster, which docs/how-to/run-by-a-driver.md describes",
                    "runs",
                )
        return self

    @model_validator(mode="after")
    def _exports_have_storages_of_their_own(self) -> Self:
        roots = self._roots()
        exports: dict[str, str] = {}
        for name, stream in self.streams.items():
            if stream.deltas is None:
                continue
            lake, root = self.lakes[self.lake_name(name)], stream.deltas.to.root
            if (other := _overlapping(root, roots)) is not None:
                raise OfStreamError(
                    name,
                    "deltas",
                    f"stream {name} exports to {root}, which is within {roots[other]}, or the reverse: "
                    "give deltas.to a folder of its own",
                )
            if (first := exports.setdefault(root, name)) != name:
                raise OfStreamError(
                    name, "deltas", f"streams {first} and {name} both export to {root}: give each deltas.to of its own"
                )
            if lake.is_encrypted and not stream.deltas.plaintext:
                raise OfStreamError(
                    name,
                    "deltas",
                    f"stream {name} would export plain files from the encrypted lake "
                    f"{self.lake_name(name)}: write plaintext: true below deltas to permit it, or remove deltas",
                )
            lake.note_deltas()
            if lake.own_tables_clash:
                raise OfStreamError(
                    name,
                    "deltas",
                    "delta_manifest is a table of its own: give it another name than the ledger",
                )
        return self

    @model_validator(mode="after")
    def _dead_letters_have_places(self) -> Self:
        exports = {n: stream.deltas.to for n, stream in self.streams.items() if stream.deltas is not None}
        roots = self._roots() | {to.root: f"the deltas of stream {name}" for name, to in exports.items()}
        for name, stream in self.streams.items():
            if stream.on_bad_row == "fail":
                continue
            lake, letters = self.lakes[self.lake_name(name)], stream.dead_letters
            if letters is not None and (other := _overlapping(letters.to.root, roots)) is not None:
                text = f"stream {name} has its dead letters in {letters.to.root}, which is within {roots[other]}, or"
                raise OfStreamError(
                    name, "dead_letters", f"{text} the reverse: give dead_letters.to a folder of its own"
                )
            if lake.is_encrypted and letters is not None and not letters.plaintext:
                text = f"stream {name} would write plain rows for the encrypted lake {self.lake_name(name)}: write"
                raise OfStreamError(
                    name,
                    "dead_letters",
                    f"{text} plaintext: true below dead_letters to permit it, or remove dead_letters, so that they "
                    "are in the landing zone, which has these rows in plain files already",
                )
            lake.note_dead_letters()
            if lake.own_tables_clash:
                text = "dead_letter_manifest is a table of its own: give it another name than the lake's other tables"
                raise OfStreamError(name, "on_bad_row", text)
        return self

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

    @model_validator(mode="after")
    def _streams_have_lakes_of_their_own(self) -> Self:
        targets: dict[tuple[str, str, str], str] = {}
        for name, stream in self.streams.items():
            lake_name = self.lake_name(name)
            lake, schema, table = self.lakes[lake_name], stream.destination.schema_name, stream.destination.table
            other = targets.setdefault((lake_name, schema.lower(), table.lower()), name)
            if other != name:
                text = f"streams {other} and {name} both fill {schema}.{table} of lake {lake_name}: give each its own"
                raise OfStreamError(name, "destination", f"{text} table")
            if table.lower() in lake.own_tables:
                text = f"stream {name} would fill the lake's own table {table}: give it another table, or the lake"
                raise OfStreamError(name, "destination", f"{text} another ledger and manifest")
            if lake.is_managed and (unavailable := {"ledger", "data_files"}.intersection(stream.checks.blocking)):
                text = f"stream {name}: checks.blocking names {min(unavailable)}, which reads DuckLake's own tables,"
                raise OfStreamError(name, "checks", f"{text} and MotherDuck has those of lake {lake_name}: remove it")
        return self

    @model_validator(mode="after")
    def _batches_have_files(self) -> Self:
        for name, stream in self.streams.items():
            lake_name = self.lake_name(name)
            lake = self.lakes[lake_name]
            if stream.commit_batch > 1 and lake.inserts_only:
                kind = "managed by MotherDuck" if lake.is_managed else "encrypted"
                text = (
                    f"stream {name} has commit_batch: {stream.commit_batch}, and lake {lake_name} is {kind}: its rows "
                    "are written by INSERT while the commit holds the lock"
                )
                raise OfStreamError(name, "commit_batch", f"{text}, so each partition is a commit: remove commit_batch")
        return self

    @model_validator(mode="after")
    def _lakes_read_what_they_index(self) -> Self:
        indexed: dict[str, list[AnyStorage]] = {name: [] for name in self.lakes}
        for name, stream in self.streams.items():
            if stream.mode != "index":
                continue
            lake_name = self.lake_name(name)
            lake = self.lakes[lake_name]
            if lake.inserts_only:
                kind = "managed by MotherDuck" if lake.is_managed else "encrypted"
                text = (
                    f"stream {name} has mode: index, and lake {lake_name} is {kind}: files cannot be registered in such"
                )
                raise OfStreamError(name, "mode", f"{text} a lake, so use mode: replace")
            check_readable(name, stream.source, lake.catalog)
            indexed[lake_name].append(stream.source)
        for name, lake in self.lakes.items():
            lake.note_indexed(indexed[name])
        return self

    def lake_name(self, stream: str) -> str:
        """Return the name of the stream's lake.

        Raises:
            ValueError: the stream names no lake and there are several, or its lake does not exist.
        """
        lake, known = self.streams[stream].lake, ", ".join(self.lakes)
        if lake is None and len(self.lakes) > 1:
            text = f"stream {stream} names no lake and there are several: write lake, one of {known}"
            raise OfStreamError(stream, "lake", text)
        lake = lake or next(iter(self.lakes))
        if lake not in self.lakes:
            raise OfStreamError(stream, "lake", f"stream {stream} has the unknown lake {lake!r}: write {known}")
        return lake


def _overlapping(root: str, roots: Iterable[str]) -> str | None:
    """Return the first of these roots that lies within a root, or has it within."""
    return next((r for r in roots if f"{root}/".startswith(f"{r}/") or f"{r}/".startswith(f"{root}/")), None)


def check_readable(stream: str, source: AnyStorage, catalog: Catalog) -> None:
    """Refuse a source of mode index that readers of the lake cannot read.

    Raises:
        OfStreamError: readers cannot read it.
    """
    if isinstance(source, GcsStorage) and not source.key_id and not source.provider:
        text = (
            f"stream {stream} has mode: index, so DuckDB reads its source, and accesses Google Cloud Storage with an "
            "HMAC key: give the source key_id and secret, or provider: credential_chain"
        )
        raise OfStreamError(stream, "source", text)
    if isinstance(catalog, MotherDuckCatalog) and isinstance(source, LocalStorage):
        text = f"stream {stream} has mode: index, and MotherDuck cannot read a folder of this machine: give a bucket"
        raise OfStreamError(stream, "source", text)


def schema_of(model: type[Model] = LakeConfig) -> Mapping[str, Any]:
    """Return the JSON Schema of a config file, for editors."""
    return model.model_json_schema()
