"""A catalog behind a pooler that gives each transaction any session of the server: locks exclude, and end."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dev.servers.postgres import PostgresServer
from lake_assets.base.errors import CatalogUnreachableError
from lake_assets.lake.backends import commit_lock
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.writer import ROWS, make_table, write, write_together
from lake_assets_tests.lake.commit.test_lock import LONG_AFTER, MOMENT, delayed
from lake_assets_tests.tiers import more
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import database_on

HOLDER = """
import sys
from lake_assets import load_config
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.backends.database_backend import FILES_REMOVED
with DuckLake(load_config(sys.argv[1]).lakes["test"]).open() as lake, lake.lock(FILES_REMOVED), lake.commit_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def pooled(local_world: World, pgbouncer: PostgresServer) -> World:
    local_world.catalog = database_on(pgbouncer)
    local_world.commit(NW, 1)
    return local_world


def locks(world: World, postgres: PostgresServer) -> list[tuple[object, ...]]:
    """The advisory locks of the world's catalog, and whether each was granted."""
    with postgres.connect(world.catalog["database"]) as connection:
        return connection.execute(
            "SELECT granted FROM pg_locks WHERE locktype = 'advisory' AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()


@contextmanager
def others(world: World, pgbouncer: PostgresServer) -> Iterator[None]:
    """Other clients of the pooler, whose short transactions take turns with those of the block."""
    ended = threading.Event()

    def ask() -> None:
        with pgbouncer.connect(world.catalog["database"]) as connection:
            connection.prepare_threshold = None
            while not ended.wait(0.001):
                connection.execute("SELECT pg_sleep(0.002)")

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            yield
        finally:
            ended.set()
        for each in asking:
            each.result()


@pytest.mark.parametrize("strategy", ["direct", *more(["extension"])])
def test_no_lock_outlives_its_work(
    pooled: World, pgbouncer: PostgresServer, postgres: PostgresServer, strategy: str
) -> None:
    with others(pooled, pgbouncer):
        for _ in range(3):
            write(pooled, NW, strategy=strategy)
            write(pooled, SW, strategy=strategy)
            pooled.tidy(LONG_AFTER)
            assert locks(pooled, postgres) == []

    assert len(pooled.totals()) == 2 * ROWS


def test_a_session_of_many_transactions_relies_on_no_prepared_statement(
    pooled: World, pgbouncer: PostgresServer
) -> None:
    with others(pooled, pgbouncer), pooled.stream.lake.open() as session:
        for _ in range(12):  # psycopg would prepare what it has executed five times
            with session.commit_lock(), session.write() as database:
                assert database.rows("SELECT snapshot_id FROM ducklake_snapshot WHERE snapshot_id = ?", [0]) == [(0,)]


@pytest.mark.more
def test_an_encrypted_lake_is_written_by_several_and_maintained(
    pooled: World, pgbouncer: PostgresServer, postgres: PostgresServer
) -> None:
    """DuckLake itself commits: its transactions have sessions of the pooler beside that with the lock."""
    pooled.lake_options = {"attach_options": {"encrypted": True}}
    pooled.catalog = database_on(pgbouncer)
    pooled.commit(NW, 1)
    other = replace(pooled, _opened=None)
    with others(pooled, pgbouncer), ThreadPoolExecutor(1) as pool:
        for total in (2, 3):
            written = pool.submit(write, other, SW)
            assert pooled.commit(NW, total).status == "committed"
            assert written.result().row_count == ROWS
            pooled.tidy(LONG_AFTER)
            assert locks(pooled, postgres) == []

    assert pooled.totals(NW) == [3]
    assert len(pooled.totals(SW)) == ROWS


def test_maintenance_and_commits_wait_for_each_other(
    pooled: World, pgbouncer: PostgresServer, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(pooled)
    other = replace(pooled, _opened=None)
    with others(pooled, pgbouncer), ThreadPoolExecutor(1) as pool:

        def tidy() -> object:
            maintenance = pool.submit(other.tidy, LONG_AFTER)
            with pytest.raises(TimeoutError):
                maintenance.result(MOMENT)
            return maintenance

        with delayed(monkeypatch, tidy) as happened:
            write_together(pooled, NW, SW)
        (maintenance,) = happened
        assert maintenance.result().orphans == ()  # type: ignore[attr-defined]

    assert len(pooled.totals()) == 2 * ROWS
    assert locks(pooled, postgres) == []


def test_the_locks_of_a_process_that_is_killed_are_free(
    pooled: World, postgres: PostgresServer, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", HOLDER, str(pooled.config_file(tmp_path))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert len(locks(pooled, postgres)) == 2
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    with commit_lock(pooled.config.lakes["test"]):
        assert len(locks(pooled, postgres)) >= 1
    until(lambda: locks(pooled, postgres) == [], "a lock outlives its process")


def test_a_pooler_that_has_lost_the_server_is_unreachable_and_the_next_commit_is_made(
    pooled: World, postgres: PostgresServer
) -> None:
    def lose(session: LakeSession) -> None:
        with session.write() as database:
            postgres.end_sessions(pooled.catalog["database"])
            database.rows("SELECT 1")

    with pooled.stream.lake.open() as session:
        with pytest.raises(CatalogUnreachableError):
            lose(session)
        with session.write() as database:
            assert database.rows("SELECT 1") == [(1,)]

    assert pooled.commit(NW, 2).status == "committed"
    assert locks(pooled, postgres) == []
