"""The models of `lake.yaml`: lakes (a DuckLake catalog with its storage) and the streams that feed them.

All are frozen, refuse unknown keys, and hold no connection. Secrets are `SecretStr`, so that no `repr`, log or
error shows them. Paths are as written; `load.py` makes relative ones relative to the file.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

from lake_assets.config.fields import FileSize, Identifier
from lake_assets.errors import LayoutError, PartitionError
from lake_assets.layout.template import Template
from lake_assets.partition import Partition, PartitionColumn, PartitionType

OnEmpty = Literal["fail", "keep", "clear"]
Compression = Literal["zstd", "snappy", "gzip", "none"]
Mode = Literal["replace"]


class Model(BaseModel):
    """Base of all models: frozen, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class LocalStorage(Model):
    """A folder of this machine, or one that every Spark worker mounts at the same path."""

    type: Literal["local"] = "local"
    path: str = Field(min_length=1, description="Folder; relative to the config file.")


class S3Storage(Model):
    """A bucket of S3 or of any server that speaks its protocol, with a prefix below which all keys lie."""

    type: Literal["s3"] = "s3"
    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]$")
    prefix: str = ""
    region: str = "us-east-1"
    endpoint: str | None = Field(None, description="URL of an S3-compatible server; AWS when absent.")
    key_id: str | None = None
    secret: SecretStr | None = None
    session_token: SecretStr | None = None

    @field_validator("prefix")
    @classmethod
    def _plain_prefix(cls, prefix: str) -> str:
        prefix = prefix.strip("/")
        if ".." in prefix.split("/"):
            raise ValueError("a prefix may not climb with '..'")
        return prefix

    @field_validator("endpoint")
    @classmethod
    def _http_endpoint(cls, endpoint: str | None) -> str | None:
        if endpoint is None:
            return None
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise ValueError(f"{endpoint!r} is not of the form http://host:port or https://host")
        return endpoint.rstrip("/")

    @model_validator(mode="after")
    def _whole_key(self) -> Self:
        if (self.key_id is None) != (self.secret is None):
            raise ValueError("key_id and secret go together: give both, or neither to use the credential chain")
        return self


def _storage_from_text(value: object) -> object:
    """`s3://bucket/prefix` and plain paths are short for the mapping."""
    if not isinstance(value, str):
        return value
    if value.startswith("s3://"):
        bucket, _, prefix = value.removeprefix("s3://").partition("/")
        return {"type": "s3", "bucket": bucket, "prefix": prefix}
    if "://" in value and not value.startswith("file://"):
        scheme = value.split("://", 1)[0]
        raise ValueError(f"{scheme}:// is not a storage that is known here: use a path or s3://bucket/prefix")
    return {"type": "local", "path": value.removeprefix("file://")}


Storage = Annotated[
    LocalStorage | S3Storage,
    Field(discriminator="type"),
    BeforeValidator(_storage_from_text, json_schema_input_type=str | LocalStorage | S3Storage),
]


class SqliteCatalog(Model):
    """A SQLite file: several processes of one machine."""

    type: Literal["sqlite"]
    path: str = Field(min_length=1)


class DuckdbCatalog(Model):
    """A DuckDB file: one process at a time, others wait."""

    type: Literal["duckdb"]
    path: str = Field(min_length=1)


class PostgresCatalog(Model):
    """A PostgreSQL database: any number of writers on any machine."""

    type: Literal["postgres"]
    database: str = Field(min_length=1)
    host: str = "localhost"
    port: int = Field(5432, ge=1, le=65535)
    user: str
    password: SecretStr | None = None
    connect_timeout: int = Field(10, ge=1, le=300, description="Seconds.")


Catalog = Annotated[SqliteCatalog | DuckdbCatalog | PostgresCatalog, Field(discriminator="type")]


class Lake(Model):
    """A DuckLake: its catalog, its storage, and the names of the two tables that record the runs."""

    catalog: Catalog
    storage: Storage
    ledger: Identifier = Field("ingest_runs", description="Table with one row a run and partition.")
    manifest: Identifier = Field("ingest_files", description="Table of which object went into which partition.")
    commit_retries: int = Field(20, ge=0, le=1000, description="Tries again after a conflict with a writer.")

    @model_validator(mode="after")
    def _two_tables(self) -> Self:
        if self.ledger.lower() == self.manifest.lower():
            raise ValueError("ledger and manifest are two tables: give them two names")
        return self


class PartitionField(Model):
    """A partition column of a stream and the values it may take."""

    type: PartitionType = "string"
    values: tuple[str, ...] | None = Field(None, description="All values; discovered when absent.")
    start: dt.date | None = Field(None, description="First date, for type date.")
    end: dt.date | None = Field(None, description="Last date, for type date; today when absent.")

    @field_validator("values", mode="before")
    @classmethod
    def _values_as_text(cls, values: object) -> object:
        if not isinstance(values, list):
            return values
        for value in values:
            # YAML reads `NO` as false; a region of that name must not become "False".
            if isinstance(value, bool):
                raise ValueError(f"{value} is a boolean in YAML: put the value in quotes, such as 'NO'")  # noqa: TRY004 - pydantic takes ValueError
        return [str(value) for value in values]

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        if self.type == "date" and self.values is not None:
            raise ValueError("a date column takes start and end, not values")
        if self.type == "date" and self.start is None:
            raise ValueError("a date column needs start, the first date there is, such as 2026-01-01")
        if self.type != "date" and (self.start or self.end):
            raise ValueError("start and end are for type date")
        if self.start and self.end and self.end < self.start:
            raise ValueError(f"end {self.end} lies before start {self.start}")
        if self.values is not None and (not self.values or len(set(self.values)) < len(self.values)):
            raise ValueError("values must be at least one, each once")
        return self


class Destination(Model):
    """The table that the stream fills."""

    schema_name: Identifier = Field("main", alias="schema")
    table: Identifier


class Transform(Model):
    """What happens to the rows between landing zone and lake: Spark SQL text, or a function."""

    sql: str | None = Field(None, min_length=1, description="Spark SQL over the view `source`.")
    function: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="`package.module:name` of a function from DataFrame to DataFrame.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.sql is None) == (self.function is None):
            raise ValueError("give either sql or function")
        return self


class Stream(Model):
    """One table's worth of landed files and how it reaches the lake."""

    lake: str | None = Field(None, description="Name of the lake; may be left out where there is one.")
    source: Storage
    layout: str | None = Field(None, description="Path template; Hive's name=value folders when absent.")
    files: str = Field("*.parquet", min_length=1, description="Pattern of the file names that count.")
    partitions: dict[Identifier, PartitionField] = Field(min_length=1, max_length=2)
    destination: Destination
    mode: Mode = "replace"
    transform: Transform | None = None
    on_empty: OnEmpty = "fail"
    compression: Compression = "zstd"
    target_file_size: FileSize = Field(default="256MiB", validate_default=True)
    description: str | None = None
    owners: tuple[str, ...] = ()
    kinds: tuple[str, ...] = Field(("ducklake", "spark", "parquet"), max_length=3)
    group: Identifier | None = None

    @field_validator("layout")
    @classmethod
    def _layout_parses(cls, layout: str | None) -> str | None:
        try:
            return layout and Template.parse(layout).text
        except LayoutError as error:
            raise ValueError(str(error)) from error

    @field_validator("owners")
    @classmethod
    def _owner_form(cls, owners: tuple[str, ...]) -> tuple[str, ...]:
        for owner in owners:
            if not owner.startswith("team:") and "@" not in owner:
                raise ValueError(f"owner {owner!r} is neither an e-mail address nor of the form team:name")
        return owners

    @model_validator(mode="after")
    def _partition_columns(self) -> Self:
        if len({name.lower() for name in self.partitions}) < len(self.partitions):
            raise ValueError("two partition columns differ only in the case of their letters")
        in_layout = set(self.partitions) if self.layout is None else set(Template.parse(self.layout).columns)
        if missing := [name for name in self.partitions if name not in in_layout]:
            raise ValueError(f"the layout {self.layout!r} has no {{{missing[0]}}}, which is a partition column")
        for column in self.columns:
            for value in self.partitions[column.name].values or ():
                try:
                    column.parse(column.text(value))
                except PartitionError as error:
                    raise ValueError(str(error)) from error
        return self

    @property
    def columns(self) -> tuple[PartitionColumn, ...]:
        """The partition columns in the order of the config, which is their order in the path."""
        return tuple(PartitionColumn(name, field.type) for name, field in self.partitions.items())

    def partition(self, text: str) -> Partition:
        """The partition that `region=NW,date=2026-02-11` names.

        Raises:
            PartitionError: the text does not fit the stream's partition columns.
        """
        return Partition.parse(self.columns, text)


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


def schema_of(model: type[Model] = LakeConfig) -> Mapping[str, Any]:
    """The JSON Schema of a config file, for editors."""
    return model.model_json_schema()
