"""Locked catalogs in PostgreSQL and in a DuckDB file: every write succeeds when the catalog is free."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest

from dev.servers.postgres import PostgresServer
from lake_assets.errors import CatalogLockedError, SourceError
from lake_assets.lake import ducklake
from lake_assets.lake.failures import is_locked
from lake_assets.lake.locks import commit_lock
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

STATEMENTS = {
    "reads and writes": "LOCK TABLE ducklake_snapshot IN ACCESS EXCLUSIVE MODE",
    "writes": "LOCK TABLE ducklake_snapshot IN EXCLUSIVE MODE",
}
HOLDER = """
import duckdb, sys
with duckdb.connect(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
TRIES = 3  # that find the file held before it is free


@contextmanager
def locked_server(server: PostgresServer, database: str, statement: str) -> Iterator[list[str]]:
    """Another session has the lock until ours is blocked; yields the blocking lock."""
    waited: list[str] = []
    ended = threading.Event()

    def until_waited() -> None:
        with server.connect(database) as looker, server.connect(database) as other, other.transaction():
            other.execute(statement.encode())
            held.set()
            while not waited and not ended.wait(0.05):
                waited.extend(
                    str(kind)
                    for (kind,) in looker.execute(
                        "SELECT locktype FROM pg_locks WHERE NOT granted AND pid IN "
                        "(SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
                    )
                )

    held = threading.Event()
    other = threading.Thread(target=until_waited)
    other.start()
    try:
        assert held.wait(60)
        yield waited
    finally:
        ended.set()
        other.join()


@pytest.fixture
def on_postgres(local_world: World, postgres: PostgresServer) -> World:
    local_world.catalog = database_on(postgres)
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
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


WAYS = pytest.mark.parametrize("way", ["skipped", "committed", "failed"])


@WAYS
@pytest.mark.parametrize("lock", [*STATEMENTS, "commits"])
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


def test_a_read_after_the_lock_timeout_raises_a_passing_error(on_postgres: World, postgres: PostgresServer) -> None:
    database = on_postgres.catalog["database"]
    with postgres.connect() as other:
        other.execute(f"ALTER DATABASE {database} SET lock_timeout = '100ms'".encode())
    with on_postgres.stream.lake.open() as lake, postgres.connect(database) as other, other.transaction():
        other.execute(STATEMENTS["reads and writes"].encode())
        with pytest.raises(CatalogLockedError, match=r"is locked by another process, and says: .*lock timeout"):
            lake.current_snapshot()


def test_a_commit_lock_that_is_never_free_raises_a_passing_error(on_postgres: World) -> None:
    lake = on_postgres.config.lakes["test"]
    with (
        commit_lock(lake),
        pytest.raises(CatalogLockedError, match=r"commit lock was not free within 0.1 seconds: .* run it again"),
        commit_lock(lake, timeout=0.1),
    ):
        pass


@contextmanager
def held_file(world: World, monkeypatch: pytest.MonkeyPatch, tries: int = TRIES) -> Iterator[list[str]]:
    """Another process has the file open until so many tries have failed; yields their errors."""
    said: list[str] = []
    command = [sys.executable, "-c", HOLDER, world.catalog["path"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"

        def counted(error: BaseException) -> bool:
            if isinstance(error, duckdb.Error):
                said.append(str(error))
                if len(said) == tries:
                    other.communicate()
            return is_locked(error)

        monkeypatch.setattr(ducklake, "is_locked", counted)
        yield said
        other.stdin.close()


@pytest.fixture
def in_a_file(local_world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    local_world.catalog = {"type": "duckdb", "path": str(tmp_path_factory.mktemp("catalog") / "lake.duckdb")}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    return local_world


@WAYS
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
