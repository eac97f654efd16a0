"""What a Python program imports: a stream and its partitions, a connection to a lake, and rows as Arrow."""

# ruff: noqa: PLC0415 - imports inside functions keep PySpark away from programs that only plan and read

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import CatalogError, LakeAssetsError, PartitionError
from lake_assets.base.texts import count, first_lines, shown
from lake_assets.config.layout.partition import Partition, PartitionValue, any_of
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.ingest.plan import PartitionPlan, Plan
from lake_assets.lake.connecting import connected
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.load import ConfigSource, chosen, loaded
from lake_assets.streams.select import Wanted, select
from lake_assets.streams.selection_grammar import parse_selector
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.history.diff import SAMPLE, Difference, DiffOptions, diff
from lake_assets.upkeep.history.history_entries import HistoryEntry, history
from lake_assets.upkeep.history.restore import Restoration, Restored, release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lake_assets.spark.spark_session import Sessions


@dataclass(frozen=True, slots=True)
class RowsClass:
    """A class that rows are read as."""

    read: Callable[[duckdb.DuckDBPyRelation], Any] | None  # makes an instance of a relation; None: Spark reads
    is_lazy: bool = False  # the instance reads while it is used, so the connection remains open until it is dropped


# By package and class. A package is imported only by who names its class.
ROWS_CLASSES: Mapping[str, RowsClass] = MappingProxyType(
    {
        "pyarrow.Table": RowsClass(lambda relation: relation.to_arrow_table()),
        "pandas.DataFrame": RowsClass(lambda relation: relation.df()),
        "polars.DataFrame": RowsClass(lambda relation: relation.pl()),
        "duckdb.DuckDBPyRelation": RowsClass(lambda relation: relation, is_lazy=True),
        "pyarrow.RecordBatchReader": RowsClass(lambda relation: relation.to_arrow_reader(), is_lazy=True),
        "polars.LazyFrame": RowsClass(lambda relation: relation.pl(lazy=True), is_lazy=True),
        "pyspark.sql.DataFrame": RowsClass(None, is_lazy=True),
    }
)


def rows_class(kind: object) -> RowsClass | None:
    """Return how rows are read as a class, such as `pyarrow.lib.Table`; None if they are not."""
    module = getattr(kind, "__module__", "")
    package = "pyspark.sql" if module.startswith("pyspark.sql.") else module.split(".")[0].removeprefix("_")
    return ROWS_CLASSES.get(f"{package}.{getattr(kind, '__name__', '')}")


def rows_of(
    connection: duckdb.DuckDBPyConnection,
    stream: OpenStream,
    partitions: Collection[Partition],
    columns: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return the rows of partitions, read when the relation is; the stream's lake is attached to the connection.

    `columns` are read in this order; all of the table when None. Raises CatalogError if the lake has no such table or
    column.
    """
    with translated(stream.lake_config):
        try:
            table = connection.table(stream.table.sql)
        except duckdb.CatalogException as error:
            raise CatalogError(f"the lake has no table {stream.table} yet:", "ingest a partition first.") from error
        names = [column.name for column in stream.config.partition_columns]
        values = {partition.values for partition in partitions}
        wanted = table.filter(any_of(names, values, _equals_any, lambda value: duckdb.ConstantExpression(value=value)))
        return wanted if columns is None else wanted.project(", ".join(map(identifier, columns)))


def _equals_any(name: str, values: Sequence[PartitionValue]) -> duckdb.Expression:
    column, constants = duckdb.ColumnExpression(name), [duckdb.ConstantExpression(v) for v in values if v is not None]
    terms = [column == constants[0]] if len(constants) == 1 else [column.isin(*constants)] if constants else []
    if None in values:
        terms.append(column.isnull())
    return reduce(or_, terms)


def connect(
    config: ConfigSource = None, lake: str | None = None, *, read_only: bool = True
) -> duckdb.DuckDBPyConnection:
    """Connect to a lake: DuckDB in memory, with the lake attached as the current database and its secrets made.

    The connection sees each commit that is there when a statement begins. It has all cores, and the time zone UTC.
    Close it, or use it in a `with` block: until the last connection to a catalog in a DuckDB file is closed, nobody can
    write there, also not in this process.

    Args:
        config: a loaded config, or the path of its file; when None, the config in use (see `load_config`).
        lake: the lake's name; may be None where the config has one lake.
        read_only: refuse every statement that changes the lake or its files.

    Returns:
        The connection. The lake is attached as `lake`, so a table is `lake.main.sales`, or `sales`. A lake that
        MotherDuck manages has the name of its database.

    Raises:
        ConfigError: the config cannot be read or is not valid, it has no such lake or several, or the lake cannot be
            attached read-only.
        NoLakeError: there is no lake yet.
        CatalogLockedError: another process, or a connection of this one, keeps the catalog's file for too long.
        CatalogUnreachableError: the catalog's server does not answer.
        CatalogError: the lake cannot be attached.
    """
    config = loaded(config)
    return connected(config.lakes[chosen("lake", config.lakes, lake)], read_only=read_only)


def read(
    spark: "SparkSession",
    config: ConfigSource = None,
    table: str | None = None,
    *,
    lake: str | None = None,
    columns: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: dt.datetime | None = None,
    changes_between: tuple[int, int] | None = None,
) -> "DataFrame":
    """Return a table of a lake as a DataFrame, of one snapshot. Its files are read when an action needs them.

    Args:
        spark: a classic session, or one of Spark Connect, whose server's Python has this package. This process and
            that server's driver read the catalog.
        config: a loaded config, or the path of its file; when None, the config in use (see `load_config`).
        table: a stream's name, or a table's with its schema, `main.stores`. May be None where the config has one
            stream.
        lake: the lake of such a table, where the config has several.
        columns: to read, in this order; all of the table when None.
        version: a snapshot's number; the newest one when None.
        timestamp: read the newest snapshot up to this time, which is one of UTC if it has no time zone.
        changes_between: read the rows that these snapshots and those between them have added or deleted, as DuckLake's
            `table_changes`: after `snapshot_id`, `rowid` and `change_type`.

    Raises:
        ConfigError: the config cannot be read or is not valid, or it has no such stream or lake.
        CatalogError: there is no such table, column or snapshot, or the catalog cannot be read.
        SchemaError: a column has a type that Spark lacks.
    """
    from lake_assets.spark_reader import TablePart, frame, named_table

    lake_config, name = named_table(loaded(config), table, lake)
    return frame(spark, lake_config, name, TablePart.of(columns, version, timestamp, changes_between))


__all__ = [
    "Difference",
    "HistoryEntry",
    "LedgerRow",
    "Outcome",
    "Partition",
    "PartitionLike",
    "PartitionPlan",
    "PartitionsFailedError",
    "Plan",
    "Restored",
    "Selection",
    "Stream",
    "StreamPartition",
    "open_stream",
]

NAMED_FAILURES = 20  # in the text of one error; `outcomes` has them all


class PartitionsFailedError(LakeAssetsError):
    """Some partitions of a run failed; the others are committed.

    Args:
        problem: as of `LakeAssetsError`.
        hint: as of `LakeAssetsError`.
        outcomes: the outcome of each partition of the run, the committed ones too.
    """

    def __init__(self, problem: str, hint: str = "", outcomes: Sequence[Outcome] = ()) -> None:
        super().__init__(problem, hint)
        self.outcomes = list(outcomes)


def open_stream(config: ConfigSource = None, name: str | None = None) -> "Stream":
    """Open one stream of a config. Nothing is connected yet.

    Args:
        config: a loaded config, or the path of its file; when None, the config in use (see `load_config`).
        name: the stream's name; may be None where the config has one stream.

    Returns:
        The stream with its lake and its source. Keep the object: it loads its DuckDB engine once.

    Raises:
        ConfigError: the config cannot be read or is not valid, or it has no such stream.
    """
    config = loaded(config)
    name = chosen("stream", config.streams, name)
    return Stream.of(config, name, DuckLake(config.lakes[config.lake_name(name)]))


class Stream(OpenStream):
    """A stream of a config, from `open_stream`: its partitions, and what is done with several of them.

    Every verb that reads or writes the lake can raise a `NoLakeError`, if there is no lake yet, or another
    `CatalogError`, if the catalog cannot be reached or refuses.
    """

    def partition(self, named: "PartitionLike | None" = None, /, **values: object) -> "StreamPartition":
        """Name one partition, which need not exist: `partition("region=NW,date=2026-02-11")`. Nothing is read.

        Args:
            named: a text of the selection grammar with one value for each partition column, or the values by column.
            values: the values by column instead: `partition(region="NW", date="2026-02-11")`; None is NULL.

        Raises:
            PartitionError: the partition does not fit the stream's partition columns, or a text selects several.
        """
        if named is not None and values:
            raise PartitionError("the partition is named twice:", "give a text or mapping, or its values by column.")
        if isinstance(named, StreamPartition):
            named = named.partition
        if isinstance(named, str):
            return StreamPartition(self, self._named(named))
        if not isinstance(named, Partition):
            return StreamPartition(
                self, Partition.from_values(self.config.partition_columns, values if named is None else named)
            )
        if named.columns != self.config.partition_columns:
            names = ", ".join(column.name for column in self.config.partition_columns)
            raise PartitionError(
                f"partition {named} is of another stream: the partition columns of {self.name} are {names}:",
                f"name a partition of {self.name}.",
            )
        return StreamPartition(self, named)

    def ingest(
        self,
        selection: "Selection",
        *,
        spark: "SparkSession | None" = None,
        force: bool = False,
        landed_only: bool = False,
        outside: bool = False,
        check: bool = True,
    ) -> list[Outcome]:
        """Refresh the selected partitions from the landing zone, each in a transaction of its own.

        They are listed together and share Spark jobs. A partition that fails does not stop the others.

        Args:
            selection: a text of the selection grammar (`region=NW|NE,date=2026-02`), a partition, or several of
                these. A partition that is named by all its values is selected in any case; of others, those that have
                landed or were committed.
            spark: as of `StreamPartition.ingest`.
            force: read the partitions even if their objects have not changed since the last commit.
            landed_only: leave out named partitions that have no objects and were never committed.
            outside: also take partitions that the stream's config does not have.
            check: raise an error at the end if any partition failed. When False, look at the outcomes' `error`.

        Returns:
            One outcome for each partition, in the order in which they ended, with its `partition`, its `status`, its
            ledger `row`, and its `error` if it failed.

        Raises:
            PartitionError: a partition does not fit the stream's partition columns, or the config does not have it.
                Nothing was done.
            PartitionsFailedError: some partitions failed, and `check` is set. The others are committed.
        """
        from lake_assets.ingest.ingest_all import ingest_all
        from lake_assets.ingest.run import passing_on_interrupts

        options = IngestOptions(force=force, landed_only=landed_only, outside=outside)
        partitions = self._selected(selection, outside=outside)
        with _sessions(self, spark) as sessions:
            running = ingest_all(self, partitions, sessions, options)
            with passing_on_interrupts(running):
                outcomes = list(running)
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        if failed and check:
            lines = [f"{outcome.partition}: {outcome.error}" for outcome in failed]
            lines = first_lines(lines, NAMED_FAILURES, "and {more:,} more: see the ledger.")
            summary = f"{len(failed):,} of {count(len(outcomes), 'partition')} failed:"
            raise PartitionsFailedError("\n".join([summary, *lines]), outcomes=outcomes) from failed[0].error
        return outcomes

    def plan(
        self, selection: "Selection", *, force: bool = False, landed_only: bool = False, outside: bool = False
    ) -> Plan:
        """Say what `ingest` with these arguments would do now. Nothing is written, and no Spark session is started.

        Returns:
            The plan of each partition, with its objects, job and columns: what `lake-assets plan` prints.

        Raises:
            PartitionError: a partition does not fit the stream's partition columns, or the config does not have it.
            TransformError: SQL that joins tables names a column that is not there.
            LakeAssetsError: the landing zone or the lake cannot be read.
        """
        partitions = self._selected(selection, outside=outside)
        return plan_stream(self, partitions, IngestOptions(force=force, landed_only=landed_only, outside=outside))

    def read(
        self,
        *,
        spark: "SparkSession",
        columns: Sequence[str] | None = None,
        version: int | None = None,
        timestamp: dt.datetime | None = None,
        changes_between: tuple[int, int] | None = None,
    ) -> "DataFrame":
        """Return the table as a Spark DataFrame, as `lake_assets.read` does; `StreamPartition.read` needs no Spark."""
        from lake_assets.spark_reader import TablePart, frame

        return frame(spark, self.lake_config, self.table, TablePart.of(columns, version, timestamp, changes_between))

    def history(self, *, limit: int = 20) -> list[HistoryEntry]:
        """List the newest snapshots that changed the table, at most `limit`; as `StreamPartition.history`."""
        return history(self, None, limit)

    def _named(self, text: str) -> Partition:
        """Return the one partition that a text of the selection grammar names."""
        named = parse_selector(self.config, text, Calendar(self.config)).named or ()
        if len(named) != 1:
            form = ",".join(f"{column.name}=…" for column in self.config.partition_columns)
            raise PartitionError(
                f"{shown(text)} can select several partitions:",
                f"write one value for each column, {form}; `ingest` and `plan` of the stream take several.",
            )
        return named[0]

    def _selected(self, selection: "Selection", *, outside: bool) -> Sequence[Partition]:
        """Return the selected partitions, each once."""
        if isinstance(selection, str | Mapping | Partition | StreamPartition):
            selection = [selection]
        # A partition as a text names the same one. `select` without texts would select all.
        texts = tuple(
            named if isinstance(named, str) else self.partition(named).partition.option for named in selection
        )
        return select(self, Wanted(texts), outside=outside).partitions if texts else ()


@dataclass(frozen=True)
class StreamPartition:
    """One partition of a stream, from `Stream.partition`; it need not exist.

    Attributes:
        stream: the stream.
        partition: its values by column; as text in the path's form, `region=NW/date=2026-02-11`.
    """

    stream: Stream
    partition: Partition

    def __str__(self) -> str:
        return str(self.partition)

    def ingest(self, *, spark: "SparkSession | None" = None, force: bool = False, outside: bool = False) -> Outcome:
        """Refresh the partition from the landing zone, in one transaction.

        Args:
            spark: the Spark session. When None, one is started if there is work for it, and stopped at the end. A
                session that already runs in this process is used and left running.
            force: read the partition even if its objects have not changed since the last commit.
            outside: also take a partition that the stream's config does not have.

        Returns:
            What was done: `row` is the ledger row. Its `status` is `committed`, or `skipped` if nothing has changed.

        Raises:
            OutsidePartitionError: the config does not have the partition.
            LakeAssetsError: the ingest failed. The lake's rows are unchanged, and the ledger has a `failed` row if the
                catalog could be reached.
        """
        from lake_assets.ingest.ingest_all import ingest

        with _sessions(self.stream, spark) as sessions:
            return ingest(self.stream, self.partition, sessions, IngestOptions(force=force, outside=outside))

    def plan(self, *, force: bool = False, outside: bool = False) -> PartitionPlan:
        """Say what `ingest` with these arguments would do now. Nothing is written, and no Spark session is started.

        Returns:
            The plan: `action` in one sentence, the objects that would be read, and the statements of the commit.

        Raises:
            OutsidePartitionError: the config does not have the partition.
            LakeAssetsError: the landing zone or the lake cannot be read.
        """
        (planned,) = self.stream.plan(self, force=force, outside=outside).partitions
        return planned

    def read(self, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the partition as it is now, from one snapshot.

        Args:
            columns: the columns to read, in this order; all columns of the table when None.

        Returns:
            The rows in memory, partition columns included, in no particular order. A partition without rows has the
            table's columns and no rows.

        Raises:
            CatalogError: the lake has no such table or column, or a storage fails or refuses.
        """
        with self.stream.lake.open(read_only=True) as lake, translated(lake.config):
            return rows_of(lake.connection, self.stream, [self.partition], columns).to_arrow_table()

    def history(self, *, limit: int = 20) -> list[HistoryEntry]:
        """List the newest snapshots that changed the partition.

        Args:
            limit: this many at most.

        Returns:
            The snapshots, the newest first, with their rows before and after. `kept` is the number to restore.

        Raises:
            CatalogError: the lake has no such table.
        """
        return history(self.stream, self.partition, limit)

    def diff(
        self, first: int, second: int | None = None, *, keys: Sequence[str] = (), sample: int = SAMPLE
    ) -> Difference:
        """Compare the partition's rows in two snapshots. The order of rows does not matter, and NULL equals NULL.

        Args:
            first: the earlier snapshot.
            second: the later one; the newest when None.
            keys: columns that name a row, to find the rows with other values; without them such a row is one that was
                deleted and one that was inserted.
            sample: rows of each kind that are returned, at most.

        Raises:
            PartitionError: neither snapshot has rows of the partition.
            CatalogError: a snapshot is unknown or has expired, or a key is not a column or not unique in the partition.
        """
        return diff(self.stream, self.partition, DiffOptions(first, second, keys, sample))

    def restore(self, snapshot: int, *, hold: bool = False, dry_run: bool = False) -> Restored:
        """Put the rows of an earlier snapshot back, as a new snapshot. Readers see the old rows or the new ones.

        Args:
            snapshot: that has the rows.
            hold: hold the partition: refreshes skip it until `release`, and only a forced ingest replaces it.
            dry_run: check everything, and change nothing.

        Returns:
            What was done: `row` is the ledger row, and `next` says what the next refresh of the partition does.

        Raises:
            PartitionError: the partition was not there in that snapshot.
            CatalogError: the snapshot is unknown or has expired, today's columns cannot hold its rows, or the catalog
                refuses; nothing has changed.
            StorageError: a file of the snapshot cannot be copied; nothing has changed.
        """
        restoration = Restoration(self.stream, self.partition, snapshot, hold)
        return restoration.dry_run() if dry_run else restoration.run()

    def release(self) -> LedgerRow:
        """End the hold of the partition: refreshes read it again. Its rows stay as they are.

        Returns:
            The ledger row.

        Raises:
            PartitionError: the partition is not held.
            CatalogError: the catalog refuses; nothing has changed.
        """
        return release(self.stream, self.partition)


PartitionLike = Partition | StreamPartition | Mapping[str, object] | str
"""A partition; its values by column, `{"region": "NW", "date": date(2026, 2, 11)}`; or `region=NW,date=2026-02-11`.

Values of a mapping are plain texts, whole numbers and dates, and None is NULL. In the text they are percent-encoded, as
in a path.
"""

Selection = PartitionLike | Iterable[PartitionLike]
"""One or several partitions, or texts of the selection grammar such as `region=NW|NE,date=2026-02`."""


def _sessions(stream: OpenStream, spark: "SparkSession | None") -> "AbstractContextManager[Sessions]":
    """Yield a function that returns the caller's session, or one that it starts, which is stopped."""
    from lake_assets.spark.spark_session import own_session

    if spark is not None:
        return nullcontext(lambda: spark)
    return own_session(stream.spark.settings, transforms=stream.config.transform is not None)
