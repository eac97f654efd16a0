"""The models of `lake.yaml`: lakes (a DuckLake catalog with its storage) and the streams that feed them.

All are frozen, refuse unknown keys, and hold no connection. Secrets are `SecretStr`, so that no `repr`, log or
error shows them. Paths are as written; `load.py` makes relative ones relative to the file.
"""

from collections.abc import Mapping
from typing import Any, Self

import platformdirs
from pydantic import Field, PrivateAttr, field_validator, model_validator

from lake_assets.config.attach_options import METADATA_SCHEMA, OptionValue, check_attach_options
from lake_assets.config.catalogs import Catalog, DuckdbCatalog, MotherDuckCatalog, PostgresCatalog
from lake_assets.config.fields import Identifier, KeyPrefix
from lake_assets.config.maintenance import Maintenance
from lake_assets.config.model import Model
from lake_assets.config.spark_settings import SparkSettings
from lake_assets.config.storages import AnyStorage, GcsStorage, LocalStorage, S3Storage, Storage
from lake_assets.config.streams import Stream


class Lake(Model):
    """A DuckLake: its catalog, its storage, and the names of the two tables that record the runs.

    A lake without a storage is one whose files MotherDuck manages. Such a lake, and one that encrypts its files, takes
    rows by INSERT only: no file that was written outside of it can be registered there.
    """

    catalog: Catalog = Field(description="The database that says which file belongs to which table.")
    storage: Storage | None = Field(
        None, description="Where the lake's files are; without it, MotherDuck manages them."
    )
    staging: Storage | None = Field(
        None,
        description="Where tasks stage rows for the commit to insert; below `storage` when absent. Only for lakes "
        "that are encrypted or managed by MotherDuck.",
    )
    ledger: Identifier = Field("ingest_runs", description="Table with one row for each run of a partition.")
    manifest: Identifier = Field("ingest_files", description="Table of the objects that were read into each partition.")
    ledger_schema: Identifier = Field("main", description="Schema of these two tables.")
    commit_retries: int = Field(
        20, ge=0, le=1000, description="Retries of a write to the catalog after a conflict with another writer."
    )
    maintenance: Maintenance | None = Field(
        None, description="Schedule and rules of the job `maintain_LAKE`; not scheduled when absent."
    )
    attach_options: dict[str, OptionValue] = Field(default_factory=dict, description="Options of DuckLake's `ATTACH`.")
    _indexed: tuple[AnyStorage, ...] = PrivateAttr(())

    @property
    def indexed(self) -> tuple[AnyStorage, ...]:
        """The sources of its streams in mode index: the lake's files lie there too, so its readers read there too."""
        return self._indexed

    @field_validator("attach_options", mode="before")
    @classmethod
    def _known_options(cls, options: object) -> object:
        # Before pydantic looks at the values, of which it would report a fault once for each kind that they may be.
        return check_attach_options({str(k): v for k, v in options.items()}) if isinstance(options, dict) else options

    @property
    def is_managed(self) -> bool:
        """Whether MotherDuck keeps its files, where no other client reaches them."""
        return self.storage is None

    @property
    def is_encrypted(self) -> bool:
        """Whether DuckLake encrypts its files, each under a key of its own that the catalog holds."""
        return self.attach_options.get("encrypted") is True

    @property
    def inserts_only(self) -> bool:
        """Whether rows come into it by INSERT only, from staged files: no written file can be registered there."""
        return self.is_managed or self.is_encrypted

    @property
    def claim(self) -> str:
        """The table that lets overlapping commits to a managed lake meet."""
        return f"{self.ledger}_claim"

    @property
    def own_tables(self) -> frozenset[str]:
        """The names of the tables that are its own, in small letters: DuckLake does not tell names by case."""
        names = (self.ledger, self.manifest, *((self.claim,) if self.is_managed else ()))
        return frozenset(name.lower() for name in names)

    @property
    def own_storage(self) -> AnyStorage:
        """The storage of its files; only a lake that MotherDuck does not manage has one."""
        assert self.storage is not None, "a managed lake has no storage"  # noqa: S101 - the callers looked
        return self.storage

    @property
    def staging_storage(self) -> AnyStorage:
        """Where files are staged: as the config says, in the lake's storage, or in this user's cache folder."""
        if (found := self.staging or self.storage) is not None:
            return found
        return LocalStorage(path=str(platformdirs.user_cache_path("lake-assets") / "staging"))

    @property
    def storages(self) -> tuple[AnyStorage, ...]:
        """Every storage in which DuckDB reads or writes for it."""
        staging = (self.staging,) if self.staging else ()
        return (*((self.storage,) if self.storage else ()), *staging, *self.indexed)

    @model_validator(mode="after")
    def _storage_fits(self) -> Self:
        if self.storage is None and not isinstance(self.catalog, MotherDuckCatalog):
            raise ValueError("storage is missing: give a folder or a bucket; only MotherDuck can manage a lake's files")
        for what, storage in (("storage", self.storage), ("staging", self.staging)):
            if isinstance(storage, S3Storage) and storage.anonymous:
                raise ValueError(f"the lake's {what} is written to, so it cannot be anonymous: give keys or a role")
            if isinstance(storage, GcsStorage) and not storage.key_id and not storage.provider:
                raise ValueError(
                    f"DuckDB reaches Google Cloud Storage by an HMAC key: give the lake's {what} key_id and secret, or "
                    "provider: credential_chain to find them in the environment (AWS_ACCESS_KEY_ID, "
                    "AWS_SECRET_ACCESS_KEY)"
                )
        if isinstance(self.catalog, MotherDuckCatalog) and isinstance(self.storage, LocalStorage):
            raise ValueError("MotherDuck cannot read a folder of this machine: give the lake's storage a bucket")  # noqa: TRY004 - pydantic takes ValueError
        return self

    @model_validator(mode="after")
    def _inserts_fit(self) -> Self:
        if self.staging is not None and not self.inserts_only:
            raise ValueError(
                "staging is for lakes that are encrypted or managed by MotherDuck: others take the files that tasks "
                "write as they are, so leave it out"
            )
        if self.is_encrypted and isinstance(self.catalog, MotherDuckCatalog):
            raise ValueError("MotherDuck's manual knows no encrypted lake: leave attach_options: encrypted out")
        if isinstance(self.catalog, MotherDuckCatalog) and self.is_managed:
            if self.attach_options:
                raise ValueError(
                    "attach_options are for lakes that DuckLake's extension attaches: leave them out, or give storage"
                )
            if self.catalog.store_secret:
                raise ValueError("store_secret gives MotherDuck the keys of storage, and there is none: leave it out")
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
        """The schema of the catalog's database that holds DuckLake's tables; None for the database's default one."""
        schema = self.attach_options.get(METADATA_SCHEMA)
        return None if schema is None else str(schema)

    @model_validator(mode="after")
    def _two_tables(self) -> Self:
        if len(self.own_tables) < (3 if self.is_managed else 2):
            raise ValueError(
                "ledger and manifest are two tables, and a lake that MotherDuck manages has <ledger>_claim too: give "
                "them names of their own"
            )
        return self


class OfStreamError(ValueError):
    """What is wrong with one stream beside the others and the lakes; `location` is that of its key."""

    def __init__(self, stream: str, key: str, text: str) -> None:
        super().__init__(text)
        self.location = ("streams", stream, key)


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    lakes: dict[Identifier, Lake] = Field(min_length=1, description="The lakes by their names, which streams refer to.")
    streams: dict[Identifier, Stream] = Field(min_length=1, description="The streams by their names.")
    spark: SparkSettings = Field(
        default_factory=dict, description="Spark settings by name, over the package's own; no secrets."
    )
    key_prefix: KeyPrefix = Field((), description="The first parts of the keys of all assets in Dagster.")

    @model_validator(mode="after")
    def _streams_have_lakes_of_their_own(self) -> Self:
        targets: dict[tuple[str, str, str], str] = {}
        for name, stream in self.streams.items():
            lake = self.lake_name(name)
            destination = stream.destination
            target = (lake, destination.schema_name.lower(), destination.table.lower())
            if target in targets:
                raise OfStreamError(
                    name,
                    "destination",
                    f"streams {targets[target]} and {name} both fill {destination.schema_name}."
                    f"{destination.table} of lake {lake}: give each its own table",
                )
            own = self.lakes[lake]
            if destination.table.lower() in own.own_tables:
                raise OfStreamError(
                    name,
                    "destination",
                    f"stream {name} would fill the lake's own table {destination.table}: give it another table, or the "
                    "lake another ledger and manifest",
                )
            targets[target] = name
            if own.is_managed and (idle := {"ledger", "data_files"}.intersection(stream.checks.blocking)):
                raise OfStreamError(
                    name,
                    "checks",
                    f"stream {name}: checks.blocking names {min(idle)}, which looks into DuckLake's own tables, and "
                    f"those of lake {lake} are MotherDuck's: remove it",
                )
        return self

    @model_validator(mode="after")
    def _lakes_read_what_they_index(self) -> Self:
        indexed: dict[str, list[str]] = {name: [] for name in self.lakes}
        for stream, config in self.streams.items():
            if config.mode == "index":
                indexed[self.lake_name(stream)].append(stream)
        for name, lake in self.lakes.items():
            streams = indexed[name]
            for stream in streams:
                if lake.inserts_only:
                    kind = "managed by MotherDuck" if lake.is_managed else "encrypted"
                    raise OfStreamError(
                        stream,
                        "mode",
                        f"stream {stream} has mode: index, and lake {name} is {kind}: landed files cannot become files "
                        "of such a lake, so use mode: replace",
                    )
                check_readable(stream, self.streams[stream].source, lake.catalog)
            lake._indexed = tuple(self.streams[stream].source for stream in streams)  # noqa: SLF001 - the model's own room
        return self

    def lake_name(self, stream: str) -> str:
        """The name of the stream's lake.

        Raises:
            ValueError: it names none and there are several, or one that does not exist.
        """
        lake = self.streams[stream].lake
        if lake is None and len(self.lakes) > 1:
            raise OfStreamError(
                stream,
                "lake",
                f"stream {stream} names no lake and there are several: write lake, one of {', '.join(self.lakes)}",
            )
        lake = lake or next(iter(self.lakes))
        if lake not in self.lakes:
            raise OfStreamError(
                stream,
                "lake",
                f"stream {stream} names the lake {lake!r}, which is none of lakes: write {', '.join(self.lakes)}",
            )
        return lake


def check_readable(stream: str, source: AnyStorage, catalog: Catalog) -> None:
    """Refuse a source of mode index that a reader of the lake could not read.

    Raises:
        ValueError: it is such a source.
    """
    if isinstance(source, GcsStorage) and not source.key_id and not source.provider:
        raise OfStreamError(
            stream,
            "source",
            f"stream {stream} has mode: index, so DuckDB reads its source, and reaches Google Cloud Storage by an HMAC "
            "key: give the source key_id and secret, or provider: credential_chain",
        )
    if isinstance(catalog, MotherDuckCatalog) and isinstance(source, LocalStorage):
        raise OfStreamError(
            stream,
            "source",
            f"stream {stream} has mode: index, and MotherDuck cannot read a folder of this machine: give a bucket",
        )


def schema_of(model: type[Model] = LakeConfig) -> Mapping[str, Any]:
    """The JSON Schema of a config file, for editors."""
    return model.model_json_schema()
