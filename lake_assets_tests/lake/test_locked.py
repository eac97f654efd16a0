"""A catalog that another process has locked: every write is retried until the catalog is free."""

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pytest

from lake_assets.errors import CatalogLockedError, CommitConflictError, LakeAssetsError, SchemaError
from lake_assets.ingest.index.run import index_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import blank_row
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.run import record_failures
from lake_assets.lake.catalog.files import forget_scheduled
from lake_assets.lake.commit import strategy as commit
from lake_assets.lake.commit.direct import open_table
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.flush import flush_ledger
from lake_assets.lake.ledger.tables import create_ledger, record
from lake_assets.lake.retry import under_lock
from lake_assets.lake.schema.evolve import evolve_table
from lake_assets.lake.schema.tables import create_table, prepare_table
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.maintenance.cleaning import expire_snapshots
from lake_assets.maintenance.run import maintain
from lake_assets_tests.world import NW, World, sales

HOLDER = """
import sqlite3, sys
catalog = sqlite3.connect(sys.argv[1], isolation_level=None)
catalog.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
LOCKED = duckdb.TransactionException("Failed to commit: database is locked")
TRIES = 3  # that fail before the catalog is free; more than the config allows after a conflict


@contextmanager
def held(world: World) -> Iterator[Callable[[], object]]:
    """Another process locks the catalog; yields a function that ends it."""
    # SQLite's locks are a process's: of two libraries in one neither would know of the other's.
    command = [sys.executable, "-c", HOLDER, world.catalog["path"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield other.communicate


@contextmanager
def locked(world: World, monkeypatch: pytest.MonkeyPatch, *, tries: int = TRIES) -> Iterator[list[int]]:
    """Another process locks the catalog until so many tries have failed; yields the list of retries."""
    again: list[int] = []
    reattach = LakeSession.reattach
    with held(world) as end:

        def counted(session: LakeSession) -> None:
            again.append(1)
            if len(again) == tries:
                end()
            reattach(session)

        monkeypatch.setattr(LakeSession, "reattach", counted)
        monkeypatch.setattr("lake_assets.lake.driver.WRITER_TURN", 0.05)  # seconds that SQLite itself retries
        yield again


def new_table(world: World, lake: LakeSession) -> None:
    columns = world.config.streams["sales"].columns
    create_table(lake, TableName("main", "new"), pa.schema([("a", pa.int64())]), columns)
    assert lake.exists(TableName("main", "new"))


def ledger_row(world: World, lake: LakeSession) -> None:
    row = blank_row(world.stream, world.partition(NW), "run", dt.datetime.now(dt.UTC))
    record(lake, [row])


def tables_of_the_ledger(world: World, lake: LakeSession) -> None:
    assert world
    create_ledger(lake)


def options_of_a_table(world: World, lake: LakeSession) -> None:
    prepare_table(lake, world.stream.table)


def more_columns(world: World, lake: LakeSession) -> None:
    schema = pa.schema([("id", pa.int64()), ("total", pa.float64()), ("more", pa.int64())])
    changes = evolve_table(lake, world.stream.table, [("a file", schema)], world.config.streams["sales"].columns, "run")
    assert [str(change) for change in changes] == ["added column more BIGINT"]


def expiry(world: World, lake: LakeSession) -> None:
    assert world
    assert expire_snapshots(lake, dt.datetime.now(dt.UTC))


def flushed_rows(world: World, lake: LakeSession) -> None:
    assert world
    assert flush_ledger(lake)


WRITES = [new_table, ledger_row, more_columns, expiry, flushed_rows]


@pytest.fixture
def known(local_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with a table and a ledger, and one retry after a conflict."""
    monkeypatch.setattr(flush, "MANY", 1)
    local_world.lake_options = {"commit_retries": 1}
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1))
    assert all(indexed.error is None for indexed in index_all(local_world.stream))
    return local_world


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_every_write_is_retried_while_the_catalog_is_locked(
    known: World, write: Callable[[World, LakeSession], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with known.stream.lake.open() as lake, locked(known, monkeypatch) as again:
        write(known, lake)
    assert len(again) >= TRIES


@pytest.mark.parametrize("write", [tables_of_the_ledger, options_of_a_table], ids=lambda write: write.__name__)
def test_the_creation_of_tables_is_retried_while_the_catalog_is_locked(
    local_world: World, write: Callable[[World, LakeSession], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        lake.rows("CREATE TABLE lake.sales (id BIGINT)")
        with locked(local_world, monkeypatch) as again:
            write(local_world, lake)
    assert len(again) >= TRIES


def test_the_row_of_a_skipped_partition_is_retried(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)

    with locked(local_world, monkeypatch) as again:
        result = local_world.ingest(NW)

    assert (result.row.status, len(again) >= TRIES) == ("skipped", True)
    assert [row.status for row in local_world.ledger()] == ["skipped", "committed"]


def test_a_commit_by_the_extension_is_retried(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "STRATEGIES", (replace_by_extension,))
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.land(NW, sales(2))

    with locked(local_world, monkeypatch) as again:
        result = local_world.ingest(NW)

    assert (result.row.status, len(again) >= TRIES) == ("committed", True)
    assert local_world.totals() == [2]


def test_the_direct_strategy_raises_a_passing_error_after_its_own_wait(
    known: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        known.stream.lake.open() as lake,
        locked(known, monkeypatch),
        pytest.raises(CommitConflictError, match="is locked by another process"),
        open_table(lake, known.stream.table),
    ):
        pass


def test_the_list_of_scheduled_files_is_retried(known: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with known.stream.lake.open() as lake:
        lake.rows("DELETE FROM lake.sales")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
    with known.stream.lake.open() as lake:
        expire_snapshots(lake, later)
    failures = [LOCKED] * TRIES

    def forget(session: LakeSession, file_ids: list[int]) -> None:
        if failures:
            raise failures.pop()
        forget_scheduled(session, file_ids)

    monkeypatch.setattr("lake_assets.maintenance.cleaning.forget_scheduled", forget)

    cleaned = maintain(known.config, "test", known.sessions, now=later).cleaned

    assert len(cleaned.kept) == 1
    assert failures == []


def test_a_catalog_that_remains_locked_raises_a_passing_error(known: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.lake.failures.BUSY", 0.2)
    with (
        known.stream.lake.open() as lake,
        locked(known, monkeypatch, tries=10**6),
        pytest.raises(CommitConflictError, match=r"a row of the ledger was not written: another process has locked"),
    ):
        ledger_row(known, lake)


def test_conflicts_are_retried_as_often_as_configured(known: World) -> None:
    tries = []

    def work() -> None:
        tries.append(1)
        raise duckdb.TransactionException("Transaction conflict")

    with (
        known.stream.lake.open() as lake,
        pytest.raises(CommitConflictError, match=r"the thing was not written: other writers were faster 2 times"),
    ):
        under_lock(lake, work, "the thing")
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [(CatalogLockedError("the catalog is locked:", "run it again."), False), (SchemaError("no:", "land it."), True)],
    ids=["locked", "other"],
)
def test_the_row_of_a_run_that_failed_by_a_lock_is_tried_once(
    known: World, monkeypatch: pytest.MonkeyPatch, error: LakeAssetsError, is_retried: bool
) -> None:
    """The run has been retried for a minute already."""
    monkeypatch.setattr("lake_assets.lake.failures.BUSY", 0.2)
    run = PartitionRun(known.stream, known.partition(NW), IngestOptions())
    run.fail(error)

    with locked(known, monkeypatch, tries=10**6) as again:
        record_failures(known.stream, [run])

    assert bool(again) == is_retried
    assert run.error is not None
    assert any("No ledger row could be written" in note for note in run.error.__notes__)
