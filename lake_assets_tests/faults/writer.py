"""Commits of partitions without an ingest: each replaces a partition by three rows, or adds them to it.

The rows carry a number of this commit alone, so that a reader can tell a whole partition from a mixture.
"""

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.commit import strategy as strategies
from lake_assets.lake.commit.change import Change, ExpectedManifest, New, Requirements, Staged, Written
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, create_ledger, manifest_values
from lake_assets.lake.session import LakeSession
from lake_assets.lake.table_setup import create_table, prepare_table
from lake_assets.spark.task.job import DataFile, Job, StagingKey
from lake_assets.spark.task.write import Staging, stage_files
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.store import Store
from lake_assets_tests.world import World

Watcher = Callable[[str], None]

ROWS = 3
SCHEMA = pa.schema([("id", pa.int64()), ("total", pa.float64())])


STRATEGIES = {"direct": replace_directly, "extension": replace_by_extension}


class Watched:
    """A connection of DuckDB or SQLite that calls something before and after each statement."""

    def __init__(self, connection: Any, before: Watcher, after: Watcher) -> None:
        self._connection = connection
        self._before = before
        self._after = after

    def execute(self, sql: str, *parameters: Any) -> Any:
        return self._watch(self._connection.execute, sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> Any:
        return self._watch(self._connection.executemany, sql, *parameters)

    def _watch(self, method: Callable[..., Any], sql: str, *parameters: Any) -> Any:
        self._before(sql)
        result = method(sql, *parameters)
        self._after(sql)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextmanager
def overtaken(connection: Any, happening: Callable[[], object]) -> Iterator[Any]:
    """The connection; what happens, happens once, once either strategy has read the last snapshot, before it writes."""
    happenings = [happening]

    def happen(sql: str = "COMMIT") -> None:
        if sql == "COMMIT" and happenings:
            happenings.pop()()

    def begin(self: Transaction, *arguments: Any) -> None:
        original(self, *arguments)
        happen()

    original = Transaction.__init__
    with mock.patch.object(Transaction, "__init__", begin):
        yield Watched(connection, happen, lambda _: None)


class Unlocked(LakeSession):
    """A writer that knows nothing of the locks."""

    takes_locks = False


def make_table(world: World) -> None:
    """The destination as the first run makes it."""
    with world.stream.lake.open(create=True) as lake:
        create_ledger(lake)
        create_table(lake, world.stream.partitioned_table, SCHEMA)
        prepare_table(lake, world.stream.table)


def write(world: World, text: str, *, appends: str | None = None, **options: Any) -> LedgerRow:
    """One commit of three new rows; the options are those of `committed`.

    They replace the partition, or are those of the object that `appends` names.
    """
    (row,) = committed(world, [prepared(world, text, new_number(), appends=appends)], **options)
    return row


def write_together(world: World, *texts: str, **options: Any) -> list[LedgerRow]:
    """One commit that replaces several partitions by the same three rows; the options are those of `committed`."""
    number, run_id = new_number(), uuid.uuid4().hex
    return committed(world, [prepared(world, text, number, run_id) for text in texts], **options)


def new_number() -> float:
    return float(uuid.uuid4().int % 2**50)


def committed(
    world: World,
    changes: Sequence[Change],
    *,
    strategy: str | None = None,
    overtaken_by: Callable[[], object] | None = None,
    lock: bool = True,
    retries: int = 200,
) -> list[LedgerRow]:
    """Commit changes together; `overtaken_by` happens once, after the last snapshot has been read."""
    chosen = (STRATEGIES[strategy], replace_by_extension) if strategy else strategies.STRATEGIES
    with world.stream.lake.open() as lake, mock.patch.object(strategies, "STRATEGIES", chosen):
        config = lake.config.model_copy(update={"commit_retries": retries})
        manager = overtaken(lake.connection, overtaken_by) if overtaken_by else nullcontext(lake.connection)
        with manager as connection:
            session = (LakeSession if lock else Unlocked)(config, lambda: connection)
            with closing(session.backend):
                return [done.row for done in commit(session, changes)]


def prepared(
    world: World,
    text: str,
    number: float,
    run_id: str | None = None,
    *,
    appends: str | None = None,
) -> Change:
    """The commit of three rows with this number, which are written."""
    stream, partition = world.stream, world.partition(text)
    rows = pa.table([[1, 2, 3], [number] * ROWS], schema=SCHEMA)
    now = dt.datetime.now(dt.UTC)
    row = LedgerRow(
        run_id=run_id or uuid.uuid4().hex,
        run_at=now,
        stream="sales",
        source_glob="none",
        destination_table=str(stream.table),
        partition_columns="region,date",
        load_partition=partition.path,
        mode="append" if appends else "replace",
        status="committed",
        row_count=ROWS,
        started_at=now,
    )
    if stream.lake_config.inserts_only:
        new: New = stage(world, rows)
    else:
        new = Written([DataFile(put(world, text, rows), ROWS, 0)])
    change = Change(stream.table, partition, row, new, export=stream.export)
    if appends:
        landed = LandedObject(appends, appends, "etag", ROWS, now)
        noted = {MANIFEST: manifest_values(Manifest((landed,)))}
        requires = Requirements(objects=ExpectedManifest({}, ("sales",), (appends,)))
        change = dataclasses.replace(change, appends=noted, adds=True, requires=requires)
    return change


def put(world: World, text: str, rows: pa.Table) -> str:
    """A new data file of the partition; returns its URI."""
    store = Store(world.config.lakes["test"].own_storage)
    key = f"{world.stream.destination_folder(world.partition(text))}{uuid.uuid4().hex}.parquet"
    with store.create(key) as file:
        pq.write_table(rows, file)
    return store.uri(key)


def stage(world: World, rows: pa.Table) -> Staged:
    """The rows as a task stages them."""
    staging, source = Staging(world.stream.lake_config.staging_storage), world.config.streams["sales"].source
    job = Job("run", LandingZone(source), staging.storage, SCHEMA, "zstd", 2**28, (), key=StagingKey(staging.key))
    return Staged.of(list(stage_files(rows.to_batches(), job, staging.folder)), staging.key, SCHEMA.names, 2**28)
