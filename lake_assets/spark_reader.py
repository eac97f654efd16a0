"""Spark reads tables of a lake: `spark.read.format("lake_assets").option("config", "lake.yaml").load("sales")`.

The driver reads the catalog: files, their deletes and bounds, inlined rows. Tasks read files by Arrow, and need neither
the catalog nor its password. Spark's Python data sources push conditions down, and no projection: the option `columns`
names the columns to read.
"""

import datetime as dt
import hashlib
import logging
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, SupportsIndex

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lake_assets.base.errors import ConfigError
from lake_assets.base.texts import count, meant
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition, PartitionValue, any_of
from lake_assets.config.models import LakeConfig
from lake_assets.config.uris import is_uri
from lake_assets.lake.catalog.table_scan import Scan, scanned_columns, with_changes, with_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.spark.cluster import is_client
from lake_assets.spark.spark_jobs import spark_cores
from lake_assets.spark.task.conditions import Condition, is_decidable
from lake_assets.spark.task.scanned_files import CHANGE, ChangedFile, ScanFile
from lake_assets.spark.task.scanned_rows import RowReader, changes_as
from lake_assets.spark.task.table_reader import SourceName, TableReader, TableWork
from lake_assets.spark.transform_job import types_for_spark
from lake_assets.streams.load import chosen, loaded
from lake_assets.streams.stream import OpenStream, open_streams

FORMAT = "lake_assets"
_OPTIONS = ("config", "lake", "path", "columns", "version", "timestamp", "changes_between")

# Of a task's files, as far as a file is no larger; with fewer, starting the tasks takes as long as reading.
_LEAST_BYTES, _MOST_BYTES = 4 * 2**20, 64 * 2**20
_OPERATORS: Mapping[type[Filter], str] = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
# Spark's integers have a sign, and it takes neither UUIDs nor times of day from a data source.
_GIVEN = {pa.uint64(): pa.decimal128(20, 0), pa.uuid(): pa.string(), pa.time64("us"): pa.string()}
_LOG = logging.getLogger(__name__)


def register(spark: SparkSession) -> None:
    """Let a session know `spark.read.format("lake_assets")`, and push conditions down to Python data sources.

    A relative path of the option `config` is relative to the current folder; with Spark Connect, to that of the server.
    Workers without this package get it; raises WorkerError for workers with another version or too few packages.
    """

    class Source(LakeSource):
        folder = None if is_client(spark) else str(Path.cwd())

    _register(spark, Source)


At = int | dt.datetime | tuple[int, int] | None
"""A snapshot, the newest one up to a time, the changes of a range of snapshots, or the newest snapshot."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """What of a table is read."""

    columns: Sequence[str] | None = None  # in this order; all when None
    at: At = None

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | None,
        version: int | None,
        timestamp: dt.datetime | None,
        changes: tuple[int, int] | None,
    ) -> "TablePart":
        """Return what is named of a table's history, and refuse two."""
        named: list[Any] = [at for at in (version, timestamp, changes) if at is not None]
        if len(named) > 1:
            raise ConfigError("the snapshot is named twice:", "give one of version, timestamp and changes_between.")
        return cls(columns, named[0] if named else None)


def frame(spark: SparkSession, lake: Lake, table: TableName, wanted: TablePart = TablePart()) -> DataFrame:
    """Return a table of a lake as a DataFrame; see `lake_assets.read`."""
    found = _Found.of(lake, table, wanted)
    digest = hashlib.sha256(repr(found).encode()).hexdigest()[:8]

    class Source(LakeSource):
        given = found

        @classmethod
        def name(cls) -> str:
            return f"{FORMAT}:{found.scan.table}@{found.scan.snapshot}:{digest}"

    _register(spark, Source)
    return spark.read.format(Source.name()).load()


def partitions_frame(
    spark: SparkSession, stream: OpenStream, partitions: Collection[Partition], wanted: TablePart
) -> DataFrame:
    """Return the rows of partitions of a stream as a DataFrame; files of others are not opened."""
    names = [column.name for column in stream.config.partition_columns]
    values = {partition.values for partition in partitions}
    rows = frame(spark, stream.lake_config, stream.table, replace(wanted, columns=None))
    for number, name in enumerate(names):
        # Spark pushes no OR down.
        if values and None not in (each := {of_partition[number] for of_partition in values}):
            rows = rows.where(_equals_any(name, list(each)))
    rows = rows.where(any_of(names, values, _equals_any, f.lit))
    return rows if wanted.columns is None else rows.select(*map(_column, wanted.columns))


def _equals_any(name: str, values: Sequence[PartitionValue]) -> Column:
    column, others = _column(name), [value for value in values if value is not None]
    return column.isin(*others) if len(others) == len(values) else column.isin(*others) | column.isNull()


def _column(name: str) -> Column:
    return f.col(f"`{name.replace('`', '``')}`")


def named_table(config: LakeConfig, name: str | None, lake: str | None) -> tuple[Lake, TableName]:
    """Return the lake and the table that a stream's name means, or a table's with its schema or lake; ConfigError."""
    if name is not None and ("." in name or lake is not None):
        schema, _, table = name.rpartition(".")
        return config.lakes[chosen("lake", config.lakes, lake)], TableName(schema or "main", table)
    stream = open_streams(config)[chosen("stream", config.streams, name)]
    return stream.lake_config, stream.table


def _register(spark: SparkSession, source: type["LakeSource"]) -> None:
    source.cores = spark_cores(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    with _active(spark), warnings.catch_warnings():  # that the session has one of this name: it reads the same
        warnings.simplefilter("ignore")
        spark.dataSource.register(source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Let the session be the active one, in which Spark looks whether another source has the name."""
    if is_client(spark):
        yield
        return
    jvm: Any = spark._jvm  # noqa: SLF001 - Python has no other way
    sessions = jvm.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last)


_FORMS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "version": (int, "the number of a snapshot"),
    "timestamp": (dt.datetime.fromisoformat, "2026-02-11T10:00:00+00:00"),
    "changes_between": (_range, "the numbers of two snapshots, 5..9"),
}


@dataclass(frozen=True, slots=True)
class _Found:
    """What is read: a table in a snapshot."""

    lake: Lake
    scan: Scan
    schema: StructType
    first: int | None  # its changes since this snapshot are read

    @classmethod
    def of(cls, lake: Lake, table: TableName, wanted: TablePart) -> "_Found":
        first, last = wanted.at if isinstance(wanted.at, tuple) else (None, wanted.at)
        with DuckLake(lake).open(read_only=True) as session:
            scan = scanned_columns(session, table, last, wanted.columns)
            if first is not None:
                if first > scan.snapshot:
                    raise ConfigError(f"snapshot {first} is later than {last}:", "write the earlier one first.")
                scanned_columns(session, table, first, ())
        return cls(lake, scan, from_arrow_schema(types_of_spark(scan, first), prefer_timestamp_ntz=True), first)

    @classmethod
    def of_options(cls, options: Mapping[str, str], folder: str | None) -> "_Found":
        """Return what Spark's options name; their own names are in lower case."""
        for option in sorted(options.keys() - set(_OPTIONS)):
            raise ConfigError(f"unknown option {option}:", meant(option, _OPTIONS))
        columns = options.get("columns")
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        at: list[Any] = []
        for name, (read_text, form) in _FORMS.items():
            try:
                at.append(read_text(options[name]) if name in options else None)
            except ValueError as error:
                raise ConfigError(f"the {name} {options[name]} cannot be read:", f"pass {form}.") from error
        config = options.get("config")
        if config is not None and folder is not None and not is_uri(config):
            config = str(Path(folder, config))
        lake, table = named_table(loaded(config), options.get("path"), options.get("lake"))
        return cls.of(lake, table, TablePart.of(names, *at))


class LakeSource(DataSource):
    """A table of a lake, in the snapshot in which Spark has asked for its columns."""

    given: _Found | None = None  # that of the options when None
    cores = 1  # of the session
    folder: str | None = None  # which the path of the config is relative to; the process's when None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Spark sends the class with its instances, which are not to have the catalog's password in it.
        self._found, type(self).given = self.given, None
        self._has_reader = False

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Let tasks, to which Spark sends a source that has its reader, get the name only, for Spark's own errors."""
        return (SourceName, (self.name(),)) if self._has_reader else super().__reduce_ex__(protocol)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the table's columns in Spark's types."""
        self._found = self._found or _Found.of_options(self.options, self.folder)
        return self._found.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the snapshot."""
        own = self.schema()  # not asked for if the user has given the columns
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in own]:
            raise ConfigError(
                f"the table has the columns {own.simpleString()}, and not {schema.simpleString()}:",
                "give no schema. The option columns names those to read, and a query casts them.",
            )
        assert self._found is not None  # noqa: S101 - see `schema`
        self._has_reader = True
        return LakeReader(self._found.lake, self._found.scan, self._found.first, self.cores)


def columns_of(session: LakeSession, table: TableName) -> StructType:
    """Return the columns of a table as Spark has them."""
    return from_arrow_schema(types_of_spark(scanned_columns(session, table), None), prefer_timestamp_ntz=True)


def types_of_spark(scan: Scan, first: int | None) -> pa.Schema:
    """Return the columns in types that Spark takes from a data source."""
    return types_for_spark(scan.schema if first is None else pa.schema([*CHANGE, *scan.schema]), _GIVEN)


class LakeReader(DataSourceReader):
    """Reads a table in a snapshot, or its changes from a first snapshot to this one."""

    def __init__(self, lake: Lake, scan: Scan, first: int | None = None, cores: int = 1) -> None:
        self._lake = lake
        self._cores = cores
        self._scan = scan
        self._first = first
        self._conditions: list[Condition] = []
        self._reader = TableReader(str(scan.table), scan.snapshot, first, types_of_spark(scan, first))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let tasks get what reads files, without the catalog and the packages that only the driver needs."""
        return copy, (self._reader,)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the conditions by which files, row groups and rows are left out; Spark gets the others back."""
        for one in filters:
            condition = _condition(one) if self._first is None else None  # of an update both rows are read, to know it
            if condition is not None:
                is_exact = is_decidable(condition, self._scan.columns)
                self._conditions.append(replace(condition, is_exact=is_exact))
                if is_exact:
                    continue
            yield one

    def partitions(self) -> Sequence[InputPartition]:
        """Return the work of each task, by the catalog: a `TableWork` each."""
        with DuckLake(self._lake).open(read_only=True) as session:
            works = self._works(session) if self._first is None else self._works_of_changes(session, self._first)
        return [InputPartition(work) for work in works]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        return self._reader.read(partition)

    def _works(self, session: LakeSession) -> Sequence[TableWork]:
        scan = with_files(session, self._scan, self._conditions)
        # Spark plans in a process of its own, from which `python_worker_logs` has this if the session asks for it.
        _LOG.setLevel(logging.INFO)
        left = f"{len(scan.files):,} of {count(scan.all_files, 'file')}"
        _LOG.info("%s in snapshot %d: %s", scan.table, scan.snapshot, left)
        reader = RowReader(scan.columns, scan.mappings, self._lake.storages, tuple(self._conditions))
        works = [TableWork(reader, files) for files in _shares(scan.files, self._cores)]
        if scan.inlined is not None:
            works.append(TableWork(reader, rows=scan.inlined))
        return works or [TableWork(reader)]

    def _works_of_changes(self, session: LakeSession, first: int) -> Sequence[TableWork]:
        scan, inlined = with_changes(session, self._scan, first)
        reader = RowReader(scan.columns, scan.mappings, self._lake.storages)
        rows = [changes_as(scan.columns, *changes) for changes in inlined]
        return [*_works_of_changes(reader, scan, first, rows)] or [TableWork(reader)]


def _works_of_changes(reader: RowReader, scan: Scan, first: int, inlined: Sequence[pa.Table]) -> Iterator[TableWork]:
    """Yield the work of each task: all changes of a snapshot are in one, unless none of them deletes a row."""
    last = scan.snapshot
    spans: list[tuple[int, int, ChangedFile | None]] = [(*file.span(first, last), file) for file in scan.changes]
    rows = pa.concat_tables(inlined) if inlined else None
    if rows is not None:
        moments = rows.column("snapshot_id")
        spans.append((pc.min(moments).as_py(), pc.max(moments).as_py(), None))
    group: list[ChangedFile | None] = []
    end = -1
    groups = [group]
    for begin, until, file in sorted(spans, key=lambda span: span[:2]):
        if begin > end:
            groups.append(group := [])
        group.append(file)
        end = max(end, until)
    for group in groups[1:]:
        files = [file for file in group if file is not None]
        if len(files) == len(group) and not any(file.has_deletes(first, last) for file in files):
            yield from (TableWork(reader, changes=[file]) for file in files)
        else:
            yield TableWork(reader, changes=files, rows=rows if len(files) < len(group) else None)


def _condition(one: Any) -> Condition | None:  # noqa: ANN401 - filters have no common class with an attribute
    """Return a filter of Spark as a condition; None if files do not tell whether they have rows for it."""
    if not hasattr(one, "attribute") or len(one.attribute) != 1:
        return None
    name = one.attribute[0]
    if isinstance(one, IsNull | IsNotNull):
        return Condition(name, "null" if isinstance(one, IsNull) else "not null")
    if isinstance(one, In):
        return Condition(name, "=", tuple(one.value))
    operator = _OPERATORS.get(type(one))
    return None if operator is None else Condition(name, operator, (one.value,))


def _shares(files: Sequence[ScanFile], cores: int) -> list[list[ScanFile]]:
    """Return the files of each task: all have about as much, because the largest one decides when a query ends."""
    total = sum(file.size for file in files)
    number = max(-(-total // _MOST_BYTES), min(cores, -(-total // _LEAST_BYTES)))
    shares: dict[int, list[ScanFile]] = {}
    before = 0
    for file in files:
        shares.setdefault(before * number // max(total, 1), []).append(file)
        before += file.size
    return list(shares.values())
