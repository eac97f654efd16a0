"""The models of `lake.yaml`: lakes, and the streams that fill their tables.

All are frozen, refuse unknown keys, and have no connections. Secrets are `SecretStr`, so that no `repr`, log or error
shows them. The validation context (`fields.below`) makes relative paths absolute.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import platformdirs
from pydantic import Field, PrivateAttr, field_validator, model_validator

from lake_assets.config.attach_options import METADATA_SCHEMA, OptionValue, check_attach_options
from lake_assets.config.audit import Audit
from lake_assets.config.catalogs import Catalog, DuckdbCatalog, MotherDuckCatalog, PostgresCatalog
from lake_assets.config.fields import Identifier, KeyPrefix
from lake_assets.config.maintenance import Maintenance
from lake_assets.config.model import Model
from lake_assets.config.spark_settings import SparkSettings
from lake_assets.config.storages import AnyStorage, GcsStorage, LocalStorage, S3Storage, Storage
from lake_assets.config.streams import Stream


class Lake(Model):
    """A DuckLake: its catalog, its storage, and the names of the two tables that record the runs.

    If there is no storage, MotherDuck manages the files. Rows come into such a lake, and into an encrypted one, only by
    INSERT: files that were written outside of it cannot be registered.
    """

    catalog: Catalog = Field(description="The database of the lake's tables, files and snapshots.")
    storage: Storage | None = Field(
        None, description="Storage of the lake's files; without it, MotherDuck manages them."
    )
    staging: Storage | None = Field(
        None,
        description="Storage of rows that a commit inserts; below `storage` when absent. Only for lakes that are "
        "encrypted or managed by MotherDuck.",
    )
    ledger: Identifier = Field("ingest_runs", description="Table with one row for each run of a partition.")
    manifest: Identifier = Field("ingest_files", description="Table of the objects that each partition was read from.")
    delta_manifest: Identifier = Field(
        "ingest_deltas", description="Table of the files that commits export, if a stream of the lake has `deltas`."
    )
    dead_letter_manifest: Identifier = Field(
        "ingest_dead_letters",
        description="Table of the files of bad rows, if a stream of the lake has `on_bad_row: dead_letter`.",
    )
    ledger_schema: Identifier = Field("main", description="Schema of these tables.")
    commit_retries: int = Field(
        20, ge=0, le=1000, description="Retries of a write to the catalog after a conflict with another writer."
    )
    maintenance: Maintenance | None = Field(
        None, description="Schedule and rules of the job `maintain_LAKE`; not scheduled when absent."
    )
    audit: Audit | None = Field(
        None, description="Schedule of the job `audit_LAKE`, the checks of whole tables; not scheduled when absent."
    )
    attach_options: dict[str, OptionValue] = Field(default_factory=dict, description="Options of DuckLake's `ATTACH`.")
    _indexed: tuple[AnyStorage, ...] = PrivateAttr(())
    _exports_deltas: bool = PrivateAttr(default=False)
    _has_dead_letters: bool = PrivateAttr(default=False)

    @property
    def indexed(self) -> tuple[AnyStorage, ...]:
        """The sources of its streams in mode index, which have files of the lake."""
        return self._indexed

    @property
    def exports_deltas(self) -> bool:
        """Whether one of its streams exports the changes of its commits."""
        return self._exports_deltas

    @property
    def has_dead_letters(self) -> bool:
        """Whether one of its streams writes bad rows beside its landing zone."""
        return self._has_dead_letters

    @field_validator("attach_options", mode="before")
    @classmethod
    def _known_options(cls, options: object) -> object:
        # Before pydantic checks the values: it would report an error for each type of the union.
        return check_attach_options({str(k): v for k, v in options.items()}) if isinstance(options, dict) else options

    @property
    def is_managed(self) -> bool:
        """Whether MotherDuck manages its files, which other clients cannot access."""
        return self.storage is None

    @property
    def is_encrypted(self) -> bool:
        """Whether DuckLake encrypts its files, each with a key of its own in the catalog."""
        return self.attach_options.get("encrypted") is True

    @property
    def inserts_only(self) -> bool:
        """Whether rows are inserted from staged files, because files cannot be registered."""
        return self.is_managed or self.is_encrypted

    @property
    def claim(self) -> str:
        """The table that every commit to a managed lake updates, so that overlapping commits conflict."""
        return f"{self.ledger}_claim"

    @property
    def own_tables(self) -> frozenset[str]:
        """The names of its own tables, in lower case, because DuckLake's names are case-insensitive."""
        return frozenset(self._table_names)

    @property
    def own_tables_clash(self) -> bool:
        """Whether two of its own tables have the same name."""
        return len(set(self._table_names)) < len(self._table_names)

    @property
    def _table_names(self) -> list[str]:
        optional = (
            (self.claim, self.is_managed),
            (self.delta_manifest, self.exports_deltas),
            (self.dead_letter_manifest, self.has_dead_letters),
        )
        names = [self.ledger, self.manifest, *(name for name, is_there in optional if is_there)]
        return [name.lower() for name in names]

    @property
    def own_storage(self) -> AnyStorage:
        """The storage of its files; only a lake that MotherDuck does not manage has one."""
        assert self.storage is not None, "a managed lake has no storage"  # noqa: S101 - the callers checked
        return self.storage

    @property
    def staging_storage(self) -> AnyStorage:
        """The storage of staged files: `staging`, the lake's storage, or this user's cache folder."""
        cache = platformdirs.user_cache_path("lake-assets") / "staging"
        return self.staging or self.storage or LocalStorage(path=str(cache))

    @property
    def storages(self) -> tuple[AnyStorage, ...]:
        """Every storage that DuckDB reads or writes."""
        return (*(storage for storage in (self.storage, self.staging) if storage), *self.indexed)

    @model_validator(mode="after")
    def _storage_fits(self) -> Self:
        if self.storage is None and not isinstance(self.catalog, MotherDuckCatalog):
            raise ValueError("storage is missing: give a folder or a bucket; only MotherDuck can manage a lake's files")
        for key, storage in (("storage", self.storage), ("staging", self.staging)):
            if isinstance(storage, S3Storage) and storage.anonymous:
                raise ValueError(f"the lake's {key} is written to, so it cannot be anonymous: give keys or a role")
            if isinstance(storage, GcsStorage) and not storage.key_id and not storage.provider:
                raise ValueError(
                    f"DuckDB accesses Google Cloud Storage with an HMAC key: give the lake's {key} key_id and secret, "
                    "or provider: credential_chain to find them in the environment (AWS_ACCESS_KEY_ID, "
                    "AWS_SECRET_ACCESS_KEY)"
                )
        if isinstance(self.catalog, MotherDuckCatalog) and isinstance(self.storage, LocalStorage):
            raise ValueError("MotherDuck cannot read a folder of this machine: give the lake's storage a bucket")  # noqa: TRY004 - pydantic takes ValueError
        return self

    @model_validator(mode="after")
    def _inserts_fit(self) -> Self:
        if self.staging is not None and not self.inserts_only:
            raise ValueError(
                "staging is for lakes that are encrypted or managed by MotherDuck: others register the files that "
                "tasks write, so leave it out"
            )
        if isinstance(self.catalog, MotherDuckCatalog):
            if self.is_encrypted:
                raise ValueError("MotherDuck does not document encrypted lakes: leave attach_options: encrypted out")
            if self.is_managed and self.attach_options:
                raise ValueError(
                    "attach_options are for lakes that DuckLake's extension attaches: leave them out, or give storage"
                )
            if self.is_managed and self.catalog.store_secret:
                raise ValueError("store_secret stores the keys of storage, and there is none: leave it out")
        return self

    @model_validator(mode="after")
    def _schema_of_the_catalog(self) -> Self:
        if self.metadata_schema is not None and not isinstance(self.catalog, PostgresCatalog | DuckdbCatalog):
            raise ValueError(
                f"attach_options: {METADATA_SCHEMA} is for catalogs of type postgres and duckdb: a {self.catalog.type} "
                "catalog holds one lake, so leave it out"
            )
        return self

    @property
    def metadata_schema(self) -> str | None:
        """The schema of DuckLake's tables in the catalog's database; None for the default schema."""
        schema = self.attach_options.get(METADATA_SCHEMA)
        return None if schema is None else str(schema)

    @model_validator(mode="after")
    def _two_tables(self) -> Self:
        if len(self.own_tables) < (3 if self.is_managed else 2):
            raise ValueError(
                "ledger and manifest are two tables, and a lake that MotherDuck manages also has <ledger>_claim: give "
                "each another name"
            )
        return self


class OfStreamError(ValueError):
    """A stream contradicts another stream or its lake; `location` is its key in the config."""

    def __init__(self, stream: str, key: str, text: str) -> None:
        super().__init__(text)
        self.location = ("streams", stream, key)


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    lakes: dict[Identifier, Lake] = Field(min_length=1, description="The lakes by name.")
    streams: dict[Identifier, Stream] = Field(min_length=1, description="The streams by name.")
    spark: SparkSettings = Field(
        default_factory=dict, description="Spark settings by name; they override the package's. No secrets."
    )
    key_prefix: KeyPrefix = Field((), description="The first parts of the keys of all assets in Dagster.")

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
            lake._exports_deltas = True  # noqa: SLF001 - a model of this module
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
            lake._has_dead_letters = True  # noqa: SLF001 - a model of this module
            if lake.own_tables_clash:
                text = "dead_letter_manifest is a table of its own: give it another name than the lake's other tables"
                raise OfStreamError(name, "on_bad_row", text)
        return self

    def _roots(self) -> dict[str, str]:
        """What each storage of lakes and landing zones is, for errors, by its root."""
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
            lake._indexed = tuple(indexed[name])  # noqa: SLF001 - a model of this module
        return self

    def lake_name(self, stream: str) -> str:
        """The name of the stream's lake.

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
    """The first of these roots that lies within a root, or has it within."""
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
    """The JSON Schema of a config file, for editors."""
    return model.model_json_schema()
