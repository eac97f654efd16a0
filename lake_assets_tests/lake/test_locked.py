"""A catalog that another process has locked, of each type: every write is retried until the catalog is free."""

import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dev.servers.postgres import PostgresServer
from lake_assets.base.errors import CatalogLockedError, CommitConflictError, LakeAssetsError, SchemaError, SourceError
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.outcome import IngestOptions, blank_row
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.run import record_failures
from lake_assets.lake import ducklake
from lake_assets.lake.backends import commit_lock
from lake_assets.lake.failures import is_locked
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.flush import flush_ledger
from lake_assets.lake.ledger.tables import create_ledger, record
from lake_assets.lake.session import LakeSession, PartitionedTable, TableName, under_lock
from lake_assets.lake.table_setup import Evolution, create_table, prepare_table
from lake_assets.upkeep.maintenance.cleaning import clean_up, expire_snapshots
from lake_assets.upkeep.maintenance.maintenance_run import roots_of
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

HOLDER = """
import sys
HOLD
print("held", flush=True)
sys.stdin.read()
"""
HOLDS = {
    "sqlite": "import sqlite3; held = sqlite3.connect(sys.argv[1]); held.execute('BEGIN IMMEDIATE')",
    "duckdb": "import duckdb; held = duckdb.connect(sys.argv[1])",
    "lock": "import fcntl; held = open(sys.argv[1], 'a'); fcntl.flock(held, fcntl.LOCK_EX)",
}
LATER = dt.timedelta(days=30)
LOCKED = duckdb.TransactionException("Failed to commit: database is locked")
TRIES = 3  # that fail before the catalog is free; more than the config allows after a conflict


@contextmanager
def held(catalog: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """Another process locks a catalog's file; yields a function that ends it."""
    # SQLite's locks are a process's: of two libraries in one neither would know of the other's.
    command = [sys.executable, "-c", HOLDER.replace("HOLD", HOLDS[catalog["type"]]), catalog["path"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield other.communicate
        other.stdin.close()


@contextmanager
def locked(world: World, monkeypatch: pytest.MonkeyPatch, *, tries: int = TRIES) -> Iterator[list[int]]:
    """Another process locks the catalog until so many tries have failed; yields the list of retries."""
    again: list[int] = []
    reattach = LakeSession.reattach
    with held(world.catalog) as end:

        def counted(session: LakeSession) -> None:
            again.append(1)
            if len(again) == tries:
                end()
            reattach(session)

        monkeypatch.setattr(LakeSession, "reattach", counted)
        monkeypatch.setattr("lake_assets.lake.backends.sqlite.WRITER_TURN", 0.05)  # seconds that SQLite itself retries
        yield again


COLUMNS = pa.schema([("id", pa.int64()), ("total", pa.float64()), ("more", pa.int64())])
WRITES: dict[str, Callable[[World, LakeSession], object]] = {
    "a table": lambda world, lake: create_table(
        lake, PartitionedTable(TableName("main", "new"), world.stream.config.partition_columns), COLUMNS
    ),
    "options of a table": lambda world, lake: prepare_table(lake, world.stream.table),
    "columns": lambda world, lake: Evolution(lake, world.stream.partitioned_table, "run").take([("x", COLUMNS)]),
    "the ledger": lambda _, lake: create_ledger(lake),
    "a row of the ledger": lambda world, lake: record(
        lake, [blank_row(world.stream, world.partition(NW), IngestOptions(run_id="run"))]
    ),
    "a flush": lambda _, lake: flush_ledger(lake),
    "expiry": lambda _, lake: expire_snapshots(lake, dt.datetime.now(dt.UTC) + LATER),
    "scheduled files": lambda world, lake: clean_up(
        lake, roots_of(world.config, "test"), dt.datetime.now(dt.UTC) + LATER
    ),
}
WITHOUT = {  # what is not there before the write
    "options of a table": ("DROP TABLE lake.sales", "CREATE TABLE lake.sales (id BIGINT)"),
    "the ledger": ("DROP TABLE lake.ingest_runs", "DROP TABLE lake.ingest_files"),
    "scheduled files": ("DELETE FROM lake.sales", "CALL ducklake_expire_snapshots('lake', older_than => now())"),
}
WRITTEN = """
SELECT count(*), max(snapshot_id), (SELECT count(*) FROM ducklake_options('lake')),
    (SELECT count(*) FROM __ducklake_metadata_lake.ducklake_files_scheduled_for_deletion)
FROM ducklake_snapshots('lake')
"""


@pytest.fixture
def known(local_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with a table and a ledger, and one retry after a conflict."""
    monkeypatch.setattr(flush, "MANY", 1)
    local_world.lake_options = {"commit_retries": 1}
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1))
    assert all(indexed.error is None for indexed in index_all(local_world.stream))
    return local_world


@pytest.mark.parametrize(
    "write",
    [
        "a row of the ledger",
        "columns",
        *more(name for name in WRITES if name not in ("columns", "a row of the ledger")),
    ],
)
def test_every_write_is_retried_while_the_catalog_is_locked(
    known: World, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.execute(*WITHOUT.get(write, ()))
    before = known.query(WRITTEN)

    with known.stream.lake.open() as lake, locked(known, monkeypatch) as again:
        WRITES[write](known, lake)

    assert len(again) >= TRIES
    assert known.query(WRITTEN) != before


def test_a_catalog_that_remains_locked_raises_a_passing_error(known: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.lake.backends.database_backend.BUSY", 0.2)
    with (
        known.stream.lake.open() as lake,
        locked(known, monkeypatch, tries=10**6),
        pytest.raises(CommitConflictError, match=r"a row of the ledger was not written: another process has locked"),
    ):
        WRITES["a row of the ledger"](known, lake)


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
    [
        pytest.param(CatalogLockedError("the catalog is locked:", "run it again."), False, id="locked"),
        pytest.param(SchemaError("no:", "land it."), True, id="other", marks=pytest.mark.more),
    ],
)
def test_the_row_of_a_run_that_failed_by_a_lock_is_tried_once(
    known: World, monkeypatch: pytest.MonkeyPatch, error: LakeAssetsError, is_retried: bool
) -> None:
    """The run has been retried for a minute already."""
    monkeypatch.setattr("lake_assets.lake.backends.database_backend.BUSY", 0.2)
    run = PartitionRun(known.stream, known.partition(NW), IngestOptions())
    run.fail(error)

    with locked(known, monkeypatch, tries=10**6) as again:
        record_failures([run])

    assert bool(again) == is_retried
    assert run.error is not None
    assert any("No ledger row could be written" in note for note in run.error.__notes__)


STATEMENTS = {
    "reads and writes": "LOCK TABLE ducklake_snapshot IN ACCESS EXCLUSIVE MODE",
    "writes": "LOCK TABLE ducklake_snapshot IN EXCLUSIVE MODE",
}


@contextmanager
def locked_server(server: PostgresServer, database: str, statement: str) -> Iterator[list[str]]:
    """Another session has the lock until ours is blocked; yields the blocking lock."""
    waited: list[str] = []
    ended = threading.Event()

    def until_waited() -> None:
        with server.connect(database) as looker, server.connect(database) as other, other.transaction():
            other.execute(statement.encode())
            begun.set()
            while not waited and not ended.wait(0.05):
                waited.extend(
                    str(kind)
                    for (kind,) in looker.execute(
                        "SELECT locktype FROM pg_locks WHERE NOT granted AND pid IN "
                        "(SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
                    )
                )

    begun = threading.Event()
    other = threading.Thread(target=until_waited)
    other.start()
    try:
        assert begun.wait(60)
        yield waited
    finally:
        ended.set()
        other.join()


@pytest.fixture
def on_postgres(local_world: World, postgres: PostgresServer) -> World:
    local_world.catalog = database_on(postgres)
    local_world.commit(NW, 1)
    return local_world


def check_ways(world: World, way: str) -> None:
    """An unchanged, a reread and a failed partition: each has its row in the ledger."""
    if way == "failed":
        world.land(NW, b"no Parquet")
        with pytest.raises(SourceError) as raised:
            world.ingest(NW)
        assert not getattr(raised.value, "__notes__", ())
    else:
        world.ingest(NW, force=way == "committed")


@pytest.mark.parametrize(
    ("way", "lock"),
    [
        ("committed", "commits"),
        *more([("skipped", "writes"), ("failed", "reads and writes"), ("committed", "writes")]),
    ],
)
def test_writes_to_a_locked_postgres_are_retried(
    on_postgres: World, postgres: PostgresServer, way: str, lock: str
) -> None:
    database = on_postgres.catalog["database"]
    if lock == "commits":
        with commit_lock(on_postgres.config.lakes["test"]), postgres.connect(database) as looker:
            rows = looker.execute("SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE objsubid = 1")
            ((key,),) = rows.fetchall()
        statement = f"SELECT pg_advisory_xact_lock({key})"
    else:
        statement = STATEMENTS[lock]

    with locked_server(postgres, database, statement) as waited:
        check_ways(on_postgres, way)

    assert set(waited) == {"advisory" if lock == "commits" else "relation"}
    assert [row.status for row in on_postgres.ledger()] == [way, "committed"]
    assert on_postgres.totals() == [1]


@pytest.mark.more
def test_a_read_after_the_lock_timeout_raises_a_passing_error(on_postgres: World, postgres: PostgresServer) -> None:
    database = on_postgres.catalog["database"]
    with postgres.connect() as other:
        other.execute(f"ALTER DATABASE {database} SET lock_timeout = '100ms'".encode())
    with on_postgres.stream.lake.open() as lake, postgres.connect(database) as other, other.transaction():
        other.execute(STATEMENTS["reads and writes"].encode())
        with pytest.raises(CatalogLockedError, match=r"is locked by another process, and says: .*lock timeout"):
            lake.current_snapshot()


@contextmanager
def held_file(world: World, monkeypatch: pytest.MonkeyPatch, tries: int = TRIES) -> Iterator[list[str]]:
    """Another process has the file open until so many tries have failed; yields their errors."""
    said: list[str] = []
    with held(world.catalog) as end:

        def counted(error: BaseException) -> bool:
            if isinstance(error, duckdb.Error):
                said.append(str(error))
                if len(said) == tries:
                    end()
            return is_locked(error)

        monkeypatch.setattr(ducklake, "is_locked", counted)
        yield said


@pytest.fixture
def in_a_file(local_world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    local_world.catalog = {"type": "duckdb", "path": str(tmp_path_factory.mktemp("catalog") / "lake.duckdb")}
    local_world.commit(NW, 1)
    return local_world


@pytest.mark.parametrize("way", ["committed", *more(["skipped", "failed"])])
def test_writes_to_a_locked_duckdb_file_are_retried(
    in_a_file: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with held_file(in_a_file, monkeypatch) as said:
        check_ways(in_a_file, way)

    assert len(said) == TRIES
    assert all("Could not set lock on file" in text for text in said)
    assert [row.status for row in in_a_file.ledger()] == [way, "committed"]
    assert in_a_file.totals() == [1]


def test_a_duckdb_file_that_remains_locked_raises_a_passing_error(
    in_a_file: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ducklake, "ATTACH_PATIENCE", 0.2)
    with (
        held_file(in_a_file, monkeypatch, tries=10**6),
        pytest.raises(CatalogLockedError, match=r"Conflicting lock is held in .* run it again when that one has ended"),
    ):
        in_a_file.ingest(NW)
