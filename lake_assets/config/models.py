"""The models of `lake.yaml`: lakes (a DuckLake catalog with its storage) and the streams that feed them.

All are frozen, refuse unknown keys, and hold no connection. Secrets are `SecretStr`, so that no `repr`, log or
error shows them. Paths are as written; `load.py` makes relative ones relative to the file.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from lake_assets.config.attach_options import METADATA_SCHEMA, OptionValue, check_attach_options
from lake_assets.config.catalogs import Catalog, DuckdbCatalog, MotherDuckCatalog, PostgresCatalog
from lake_assets.config.fields import Identifier
from lake_assets.config.maintenance import Maintenance
from lake_assets.config.model import Model
from lake_assets.config.storages import AnyStorage, GcsStorage, LocalStorage, S3Storage, Storage
from lake_assets.config.streams import Stream


class Lake(Model):
    """A DuckLake: its catalog, its storage, and the names of the two tables that record the runs."""

    catalog: Catalog
    storage: Storage
    ledger: Identifier = Field("ingest_runs", description="Table with one row a run and partition.")
    manifest: Identifier = Field("ingest_files", description="Table of which object went into which partition.")
    commit_retries: int = Field(20, ge=0, le=1000, description="Tries again after a conflict with a writer.")
    maintenance: Maintenance | None = Field(None, description="Its schedule and rules; not scheduled when absent.")
    attach_options: dict[str, OptionValue] = Field(default_factory=dict, description="Of DuckLake's ATTACH.")
    _indexed: tuple[AnyStorage, ...] = PrivateAttr(())

    @property
    def indexed(self) -> tuple[AnyStorage, ...]:
        """The sources of its streams in mode index: the lake's files lie there too, so its readers read there too."""
        return self._indexed

    @field_validator("attach_options")
    @classmethod
    def _known_options(cls, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
        return check_attach_options(options)

    @model_validator(mode="before")
    @classmethod
    def _storage_of_ones_own(cls, data: object) -> object:
        if not isinstance(data, dict) or "storage" in data or not isinstance(data.get("catalog"), dict):
            return data
        if data["catalog"].get("type") == "motherduck":
            raise ValueError(
                "a lake whose files MotherDuck manages cannot be filled: Spark's tasks and one's own DuckDB have no "
                "access to them, so give `storage`, a bucket of your own (Bring Your Own Bucket)"
            )
        return data

    @model_validator(mode="after")
    def _storage_fits(self) -> Self:
        storage = self.storage
        if isinstance(storage, S3Storage) and storage.anonymous:
            raise ValueError("the lake's storage is written to, so it cannot be anonymous: give keys or a role")
        if isinstance(storage, GcsStorage) and not storage.key_id and not storage.provider:
            raise ValueError(
                "DuckDB reaches Google Cloud Storage by an HMAC key: give the lake's storage key_id and secret, or "
                "provider: credential_chain to find them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
            )
        if isinstance(self.catalog, MotherDuckCatalog) and isinstance(storage, LocalStorage):
            raise ValueError("MotherDuck cannot read a folder of this machine: give the lake's storage a bucket")  # noqa: TRY004 - pydantic takes ValueError
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
        if self.ledger.lower() == self.manifest.lower():
            raise ValueError("ledger and manifest are two tables: give them two names")
        return self


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    lakes: dict[Identifier, Lake] = Field(min_length=1)
    streams: dict[Identifier, Stream] = Field(min_length=1)
    spark: dict[str, str] = Field(default_factory=dict, description="Spark settings over ours.")

    @model_validator(mode="after")
    def _streams_have_lakes_of_their_own(self) -> Self:
        targets: dict[tuple[str, str, str], str] = {}
        for name, stream in self.streams.items():
            lake = self.lake_name(name)
            destination = stream.destination
            target = (lake, destination.schema_name.lower(), destination.table.lower())
            if target in targets:
                raise ValueError(
                    f"streams {targets[target]} and {name} both fill {destination.schema_name}."
                    f"{destination.table} of lake {lake}: give each its own table"
                )
            if destination.table.lower() in {self.lakes[lake].ledger, self.lakes[lake].manifest}:
                raise ValueError(f"stream {name} would fill the lake's own table {destination.table}")
            targets[target] = name
        return self

    @model_validator(mode="after")
    def _lakes_read_what_they_index(self) -> Self:
        for name, lake in self.lakes.items():
            streams = [n for n, stream in self.streams.items() if stream.mode == "index" and self.lake_name(n) == name]
            for stream in streams:
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
            raise ValueError(f"stream {stream} names no lake and there are several: {', '.join(self.lakes)}")
        lake = lake or next(iter(self.lakes))
        if lake not in self.lakes:
            raise ValueError(f"stream {stream} names the lake {lake!r}, and there is only {', '.join(self.lakes)}")
        return lake


def check_readable(stream: str, source: AnyStorage, catalog: Catalog) -> None:
    """Refuse a source of mode index that a reader of the lake could not read.

    Raises:
        ValueError: it is such a source.
    """
    if isinstance(source, GcsStorage) and not source.key_id and not source.provider:
        raise ValueError(
            f"stream {stream} has mode: index, so DuckDB reads its source, and reaches Google Cloud Storage by an HMAC "
            "key: give the source key_id and secret, or provider: credential_chain"
        )
    if isinstance(catalog, MotherDuckCatalog) and isinstance(source, LocalStorage):
        raise ValueError(f"stream {stream} has mode: index, and MotherDuck cannot read a folder of this machine")  # noqa: TRY004 - pydantic takes ValueError


def schema_of(model: type[Model] = LakeConfig) -> Mapping[str, Any]:
    """The JSON Schema of a config file, for editors."""
    return model.model_json_schema()
