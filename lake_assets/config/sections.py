"""Sections of a stream's config: its layout, sensors, checks, exported changes, dead letters, report."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, field_validator, model_validator

from lake_assets.base.errors import LayoutError
from lake_assets.config import editor_schema
from lake_assets.config.automation import Cron, FirstStatus
from lake_assets.config.column_types import ColumnType
from lake_assets.config.connections import NetworkSettings, PartSize
from lake_assets.config.fields import FolderPath, Identifier, Model, TableReference, short_for
from lake_assets.config.layout.hive import fits
from lake_assets.config.layout.template import Compat, Template
from lake_assets.config.modes import Compression
from lake_assets.config.storages import Endpoint, Storage, TemporaryKeys


class Destination(Model):
    """The table that the stream fills."""

    schema_name: Identifier = Field("main", alias="schema", description="Schema of the table.")
    table: Identifier = Field(description="Name of the table; the first run creates it.")


class Transform(Model):
    """A transformation of the rows between landing zone and lake: Spark SQL, or a function."""

    sql: str | None = Field(None, min_length=1, description="Spark SQL over the view `source`.")
    function: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="`package.module:name` of a function from DataFrame to DataFrame.",
    )

    tables: tuple[TableReference, ...] = Field(
        (),
        description="Other tables of the lake, `stores` or `schema.stores`: views, or arguments of the function.",
    )
    refresh_on: tuple[TableReference, ...] = Field(
        (), description="Those of `tables` of which a change makes all partitions be refreshed."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.sql is None) == (self.function is None):
            raise ValueError("give either sql or function")
        if unknown := [name for name in self.refresh_on if name not in self.tables]:
            raise ValueError(f"refresh_on has {unknown[0]}, which is not among tables: add it there")
        names = [name.rpartition(".")[2].lower() for name in self.tables]
        if twice := next((name for name in names if name == "source" or names.count(name) > 1), None):
            raise ValueError(f"two of the transform's views would be called {twice}: leave one out")
        return self

    @property
    def job(self) -> Mapping[str, object]:
        """What decides, besides rows and tables, which rows it makes of them."""
        return self.model_dump(exclude=None if self.tables else {"tables", "refresh_on"})


class LayoutOptions(Model):
    """A path template and how it is read; docs/layout.md has its grammar."""

    template: str = Field(min_length=1, max_length=1000, description="The path template.")
    time_zone: str = Field(
        "UTC", description="Time zone of the dates and hours in paths.", json_schema_extra=editor_schema.TIME_ZONE
    )
    nested: bool = Field(default=False, description="A `/` in a value makes folders.")
    compat: Compat | None = Field(None, description="Read and write paths as this other system does.")

    @model_validator(mode="after")
    def _parses(self) -> Self:
        try:
            _ = self.parsed
        except LayoutError as error:
            raise ValueError(str(error)) from error
        return self

    @cached_property
    def parsed(self) -> Template:
        """The parsed template."""
        return Template.parse(self.template, time_zone=self.time_zone, nested=self.nested, compat=self.compat)


_Text = Annotated[str, Field(json_schema_extra=editor_schema.LAYOUT)]
Layout = Annotated[LayoutOptions, BeforeValidator(short_for("template"), json_schema_input_type=_Text | LayoutOptions)]


class SensorBase(Model):
    """The keys of both sensors."""

    interval: int | None = Field(
        None,
        ge=5,
        le=86400,
        description="Seconds between two ticks; Dagster's daemon looks every 5. By default 5 for a folder, an S3 "
        "server in a private network, and a queue; else 30.",
    )
    max_runs: int = Field(
        25,
        ge=1,
        le=1000,
        description="Runs requested by one tick; partitions that need more runs are requested as ranges.",
    )
    group_runs: int = Field(
        250,
        ge=1,
        le=1000,
        description="Changed partitions that may share a run, if they are neighbours and have up to a gigabyte of "
        "objects; 1: each has its own.",
    )
    lookback: int = Field(2, ge=0, le=366, description="Days before today whose partitions every tick lists.")
    budget: float = Field(20, ge=1, le=25, description="Seconds that a tick may take; Dagster ends it at 60.")
    status: FirstStatus = Field(
        "running", description="State when Dagster first loads the sensor; the UI can change it."
    )


class ObjectSensor(SensorBase):
    """A sensor that lists the landing zone."""

    type: Literal["objects"] = "objects"
    scan: int = Field(5000, ge=1000, le=1_000_000, description="Objects of older partitions that a tick lists.")


class SqsSensor(SensorBase, TemporaryKeys, NetworkSettings):
    """A sensor that reads the notifications of an S3 bucket from a queue."""

    type: Literal["sqs"] = "sqs"
    queue_url: str = Field(pattern=r"^https?://[^/@]+/.+$", description="The queue's URL.")
    region: str = Field("us-east-1", description="The queue's region.")
    endpoint: Endpoint = Field(None, description="URL of a server that is not AWS.")
    wait: int = Field(1, ge=0, le=5, description="Seconds that a request waits for a message.")
    messages: int = Field(100, ge=1, le=500, description="Number of messages that one tick reads.")

    @classmethod
    def _server(cls, data: Mapping[str, object]) -> str:
        return str(data.get("endpoint") or data.get("queue_url"))


def _objects_by_default(value: object) -> object:
    return {"type": "objects", **value} if isinstance(value, dict) else value


Sensor = Annotated[
    ObjectSensor | SqsSensor,
    Field(discriminator="type"),
    BeforeValidator(_objects_by_default, json_schema_input_type=ObjectSensor | SqsSensor),
]


BuiltIn = Literal[
    "last_run",
    "row_counts",
    "landing_zone",
    "no_null_partition",
    "schema",
    "ledger",
    "data_files",
    "indexed_objects",
    "quarantine",
    "dead_letters",
    "appended_objects",
    "freshness",
]
OF_DUCKLAKES_TABLES: tuple[BuiltIn, ...] = ("data_files", "ledger")  # checks; MotherDuck shows no client these


class Checks(Model):
    """The checks that run after a refresh, or on their own."""

    skip: tuple[BuiltIn, ...] = Field((), description="Built-in checks that do not run.")
    blocking: tuple[str, ...] = Field((), description="Checks whose failure blocks the assets downstream.")
    sql: dict[Identifier, str] = Field(
        default_factory=dict, description="Your own checks by name: each is a query that returns wrong rows."
    )

    @field_validator("sql")
    @classmethod
    def _one_query_each(cls, sql: dict[str, str]) -> dict[str, str]:
        import duckdb  # noqa: PLC0415 - takes a while to load, and few configs have SQL

        for name, text in sql.items():
            if name in BuiltIn.__args__:  # type: ignore[attr-defined]
                raise ValueError(f"{name} is a check of the package: give yours another name")
            try:
                kinds = [statement.type for statement in duckdb.extract_statements(text)]
            except duckdb.Error as error:
                raise ValueError(f"{name} is not SQL: {str(error).splitlines()[0]}") from error
            if kinds != [duckdb.StatementType.SELECT]:
                raise ValueError(f"{name} must be one SELECT, which returns wrong rows")
        return sql

    @model_validator(mode="after")
    def _blocking_exists(self) -> Self:
        known = [name for name in BuiltIn.__args__ if name not in self.skip] + list(self.sql)  # type: ignore[attr-defined]
        for name in self.blocking:
            if name not in known:
                raise ValueError(f"blocking names {name!r}, which is not a check: use {', '.join(known)}")
        return self


class _Written(Model):
    """A section whose files go to a storage of their own."""

    key: ClassVar[str]
    to: Storage

    @model_validator(mode="after")
    def _is_written(self) -> Self:
        if self.to.read_only:
            raise ValueError(f"{self.key}.to is written to: remove anonymous, and use keys or a role")
        return self


class Deltas(_Written):
    """Where a stream's commits export the rows that they insert and remove, and how."""

    key = "deltas"
    to: Storage = Field(description="Storage of the exported files, outside of the lake and of every landing zone.")
    compression: Compression = Field("zstd", description="Codec of the exported files.")
    format: Literal["parquet"] = Field("parquet", description="Format of the exported files.")
    latest: bool = Field(
        default=False, description="Whether `_latest.json` beside the files lists those of the newest commits."
    )
    plaintext: bool = Field(
        default=False, description="Permission to export plain files from an encrypted lake, which needs it."
    )


LETTER_COLUMNS = ("_reason", "_object", "_row", "_run_id")  # of dead letters, beside those of their object


class DeadLetters(_Written):
    """Where the bad rows of a stream go, if not beside its landing zone."""

    key = "dead_letters"
    to: Storage = Field(description="Storage of the rows, outside of the lake and of every landing zone.")
    plaintext: bool = Field(
        default=False, description="Permission to write plain files for an encrypted lake, which needs it."
    )


class Move(Model):
    """Where objects go whose rows are in the lake."""

    move: Storage = Field(description="Storage of the objects, outside of the lake and of every landing zone.")


AfterLoad = Literal["keep", "tag", "delete"] | Move


class ReportPage(_Written):
    """Where the page of a stream's report is, and whether runs refresh it. The storage alone is its short form."""

    key = "report"
    to: Storage = Field(description="Storage of the page `<stream>.html`.")
    status: FirstStatus = Field(
        "running", description="State of the automation when Dagster first loads it; the UI can change it."
    )


ReportOrStorage = Annotated[ReportPage, BeforeValidator(short_for("to"), json_schema_input_type=str | ReportPage)]


READABLE = "write files: '*.parquet', or another pattern that matches them"  # how to correct what `unread` says

_ENDING = re.compile(r"\.[A-Za-z0-9._-]+")


def _positive(size: ByteSize) -> ByteSize:
    if size < 1:
        raise ValueError("must be at least 1 byte")
    return size


Bytes = Annotated[ByteSize, AfterValidator(_positive)]


def ending_of(files: str) -> str | None:
    """Return how landed files end, so that a stream with this pattern reads them: `.parquet` if possible.

    None if the pattern matches no name of a batch, such as `part-*.parquet`.
    """
    endings = (".parquet", files.rpartition("*")[2])
    return next((end for end in endings if _ENDING.fullmatch(end) and fits([f"batch_0_0_node-0{end}"], files)), None)


def unread(files: str) -> str:
    """Return the problem of a stream whose pattern no landed file matches."""
    return (
        f"files {files!r} matches no file that land writes (batch_….parquet), so the stream would not read its records"
    )


class Batch(Model):
    """When the records of a partition are written as a file: at the first limit that is reached."""

    records: int = Field(1000, ge=1, le=10_000_000, description="Records in a file.")
    bytes: Bytes = Field(default="64MiB", validate_default=True, description="Arrow memory, before compression.")
    age: float = Field(10, gt=0, le=86_400, description="Seconds since the first record of the batch.")


class BufferOptions(Model):
    """A folder of this machine that keeps each batch until all outputs have it."""

    path: FolderPath = Field(description="Folder; relative to the config file.")
    retention_days: float = Field(7, ge=0, le=36500, description="Days that a batch is kept after all outputs have it.")


class Landing(Model):
    """How `lake-assets land` and `LandingWriter` write a stream's records."""

    columns: dict[Identifier, ColumnType] | None = Field(
        None, min_length=1, description="The records' columns; inferred from the first records when absent."
    )
    keep_path_columns: bool = Field(
        default=False, description="Write the columns of the path into the files too, with their types."
    )
    batch: Batch = Field(Batch(), description="When the records of a partition are written as a file.")
    memory: Bytes = Field(default="256MiB", validate_default=True, description="Arrow memory of all open batches.")
    outputs: tuple[Storage, ...] = Field(
        (), max_length=100, description="Storages that get every batch; the stream's source when empty."
    )
    max_in_flight: int = Field(4, ge=1, le=256, description="Concurrent uploads to an output.")
    multipart_threshold: PartSize | None = Field(
        None,
        description="Larger files are uploaded in parts; when absent, that of each output's `requests`, else 5 MiB.",
    )
    retries: int = Field(
        4, ge=0, le=100, description="Retries of a whole upload, each with the retries of the output's `requests`."
    )
    buffer: BufferOptions | None = Field(None, description="Folder that keeps each batch until all outputs have it.")
    node: str | None = Field(
        None, pattern=r"^[A-Za-z0-9][A-Za-z0-9.\-]{0,62}$", description="In file names; the host's name when absent."
    )
    drain: Cron = Field("*/5 * * * *", description="Cron schedule (UTC) of the Dagster job that empties the buffer.")

    @field_validator("outputs")
    @classmethod
    def _each_once(cls, outputs: tuple[Storage, ...]) -> tuple[Storage, ...]:
        roots = [output.root for output in outputs]
        if repeated := [root for root in roots if roots.count(root) > 1]:
            raise ValueError(f"{repeated[0]} is named twice: remove one of them")
        return outputs
