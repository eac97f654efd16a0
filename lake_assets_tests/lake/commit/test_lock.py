"""What a commit does under the lake's lock, and what other writers and maintenance can do meanwhile."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import psycopg
import pytest

from dev.plain_client import plain_client
from dev.servers.postgres import PostgresServer
from dev.servers.postgres_proxy import PostgresProxy, Statement
from dev.servers.proxy import Request, Rule, S3Proxy
from lake_assets.base.errors import CatalogLockedError, CatalogUnreachableError, LakeAssetsError, PartitionMovedError
from lake_assets.lake.backends import catalog_backend, commit_lock
from lake_assets.lake.backends.database_backend import FILES_IN_USE, FILES_REMOVED
from lake_assets.lake.commit import direct, exporter
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.failures import OVERTAKEN
from lake_assets.lake.ledger import flush
from lake_assets.lake.session import LakeSession, write_retried
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.test_lost_answer import proxy
from lake_assets_tests.faults.writer import ROWS, make_table, prepared, write, write_together
from lake_assets_tests.ingest.batches import TEXTS
from lake_assets_tests.lake.commit.test_deltas import exporting, visible
from lake_assets_tests.lake.worlds import BY_DRIVER, ON_POSTGRES
from lake_assets_tests.tiers import more
from lake_assets_tests.until import SECONDS
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["proxy"]

MOVED_BOUNDS = "UPDATE ducklake_table_column_stats"  # only some commits move the table's bounds
STATEMENTS = 23  # at most, with those that acquire and release the lock, and one that sets the search path
LONG_AFTER = 30.0  # days, when a file without a commit is an orphan
MOMENT = 0.5  # seconds in which a thread that nothing blocks would have ended


def rows_of(world: World) -> list[dict[str, Any]]:
    names = ("id", "total", "region", "date")
    return [
        dict(zip(names, row, strict=True))
        for row in world.query("SELECT * REPLACE (date::VARCHAR AS date) FROM lake.sales")
    ]


def asked(statements: Iterable[Statement]) -> Counter[str]:
    """The kinds of statements, without what only some commits do."""
    return Counter(statement.kind for statement in statements if statement.kind != MOVED_BOUNDS)


def under_lock(proxy: PostgresProxy) -> tuple[Counter[str], int]:
    """The kinds of statements from the first that waits for the commit lock to its release, and the round trips."""
    texts = [statement.text for statement in proxy.statements]
    first = next(number for number, text in enumerate(texts) if "pg_advisory_lock(" in text)
    given = next(number for number, text in enumerate(texts) if "pg_advisory_xact_lock(" in text)
    last = next(number for number, text in enumerate(texts) if number > given and text.startswith("SET LOCAL"))
    waits = [number for number in proxy.waits if first < number <= last + 1]
    return asked(proxy.statements[first : last + 1]), len(waits)


def test_a_commit_of_any_number_of_partitions_asks_the_same_and_waits_for_the_server_twice_under_the_lock(
    local_world: World, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(local_world)
    found, totals = [], []
    for size in (2, len(TEXTS)):
        write_together(local_world, *TEXTS[:size])
        proxy.forget()
        write_together(local_world, *TEXTS[:size])
        found.append(under_lock(proxy))
        totals.append(asked(proxy.statements))

    assert found[0] == found[1]
    assert totals[0] == totals[1]
    kinds, waits = found[0]
    assert waits == 2
    assert kinds.total() <= STATEMENTS, kinds
    assert len(local_world.totals()) == ROWS * len(TEXTS)

    connect = mock.Mock(wraps=psycopg.connect)
    monkeypatch.setattr(psycopg, "connect", connect)
    with local_world.stream.lake.open() as lake:
        for number in range(3):
            commit(lake, [prepared(local_world, NW, number)])
    assert connect.call_count == 1  # of a session, for all of its commits


@pytest.fixture
def s3_world(local_world: World, postgres: PostgresServer, s3_proxy: S3Proxy) -> World:
    """A lake on PostgreSQL, with its files and exports in buckets behind the proxy."""
    local_world.catalog = database_on(postgres)
    local_world.source, local_world.storage = bucket_on(s3_proxy.s3), bucket_on(s3_proxy.s3)
    return local_world


@contextmanager
def asked_under_lock(world: World, server: PostgresServer, proxy: S3Proxy) -> Iterator[list[Request]]:
    """The requests to the storage that come while a writer has the commit lock, after the block."""
    found: list[Request] = []
    held = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock' AND database = "
    with server.connect(world.catalog["database"]) as looker:
        guard = threading.Lock()

        def look(request: Request) -> bool:
            with guard:
                statement = f"{held}(SELECT oid FROM pg_database WHERE datname = current_database())"
                if looker.execute(statement.encode()).fetchall():
                    found.append(request)
            return False

        rule = proxy.inject(Rule("slow", look))
        yield found
        assert rule.times == 1
        proxy.heal()


def test_under_the_lock_nothing_is_asked_of_the_storage(
    s3_world: World, postgres: PostgresServer, s3_proxy: S3Proxy
) -> None:
    exporting(s3_world, bucket_on(s3_proxy.s3), latest=True)
    make_table(s3_world)
    first = write(s3_world, NW).snapshot_id
    assert first is not None

    with asked_under_lock(s3_world, postgres, s3_proxy) as found:
        s3_proxy.forget()
        write(s3_world, NW)
        write_together(s3_world, NW, SW)
        Restoration(s3_world.stream, s3_world.partition(NW), first).run()

    assert {request.method for request in s3_proxy.requests()} >= {"HEAD", "PUT"}
    assert found == []
    assert len(s3_world.totals()) == 2 * ROWS
    assert_sound(s3_world, rows_of(s3_world), landed=False)


@pytest.mark.more
def test_under_the_lock_no_file_of_the_ledger_is_read_for_a_partition_that_nobody_has_committed_since(
    s3_world: World, postgres: PostgresServer, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An addition compares the partition's objects with those that it was prepared for, which flushed files have."""
    make_table(s3_world)
    monkeypatch.setattr(flush, "MANY", 1)
    other = replace(s3_world, _opened=None)
    write(s3_world, NW, appends="a")
    with s3_world.stream.lake.open() as lake:
        assert flush.flush_ledger(lake) > 0
    write(s3_world, NW, appends="b")

    with asked_under_lock(s3_world, postgres, s3_proxy) as found, delayed(monkeypatch, lambda: write(other, SW)):
        write(s3_world, NW, appends="c")

    assert found == []
    assert len(s3_world.totals()) == 4 * ROWS


@BY_DRIVER
@pytest.mark.parametrize("flushed", [False, *more([True])])
def test_an_object_that_another_writer_adds_after_the_look_at_the_ledger_is_not_added_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, *, flushed: bool
) -> None:
    make_table(world)
    monkeypatch.setattr(flush, "MANY", 1)
    write(world, NW, appends="a")
    other = replace(world, _opened=None)

    def add() -> None:
        write(other, NW, appends="b")
        if flushed:
            with other.stream.lake.open() as lake:
                assert flush.flush_ledger(lake) > 0

    with delayed(monkeypatch, add), pytest.raises(PartitionMovedError):
        write(world, NW, appends="b")

    assert len(world.totals()) == 2 * ROWS


@contextmanager
def delayed(monkeypatch: pytest.MonkeyPatch, happening: Callable[[], object]) -> Iterator[list[object]]:
    """What happens once, between the look for the new files of a commit and its transaction; yields what it returns."""
    original = direct.open_tables
    happenings, happened = [happening], list[object]()

    def late(*arguments: Any) -> Any:
        if happenings:  # it may commit too
            happened.append(happenings.pop()())
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(direct, "open_tables", late)
        yield happened


@BY_DRIVER
def test_maintenance_removes_no_file_that_a_commit_has_looked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the age of the file is: here maintenance takes it for an orphan of a run that ended long ago."""
    make_table(world)
    other = replace(world, _opened=None)

    with ThreadPoolExecutor(1) as pool:

        def tidy() -> Any:
            maintenance = pool.submit(other.tidy, LONG_AFTER)
            with pytest.raises(TimeoutError):
                maintenance.result(MOMENT)
            return maintenance

        with delayed(monkeypatch, tidy) as happened:
            write(world, NW)
        (maintenance,) = happened

    assert maintenance.result().orphans == ()  # type: ignore[attr-defined]
    assert len(world.totals()) == ROWS
    assert_sound(world, rows_of(world), landed=False)


def test_maintenance_without_orphans_leaves_commits_alone(local_world: World) -> None:
    """It reads which files the catalog names before it takes a lock; that takes seconds in a large lake."""
    make_table(local_world)
    write(local_world, NW)
    original = LakeSession.lock

    with mock.patch.object(LakeSession, "lock", autospec=True, side_effect=original) as locks:
        assert local_world.tidy(LONG_AFTER).orphans == ()

    assert mock.call(mock.ANY, FILES_REMOVED) not in locks.mock_calls


def test_maintenance_gets_its_turn_beside_commits_whose_times_overlap(local_world: World) -> None:
    make_table(local_world)
    lake, begun, ended = local_world.config.lakes["test"], threading.Event(), threading.Event()

    def commits() -> None:
        with ExitStack() as last:
            while not ended.is_set():
                following = ExitStack()
                with suppress(CatalogLockedError):  # it waits for maintenance
                    following.enter_context(catalog_backend(lake).lock(FILES_IN_USE, MOMENT))
                    begun.set()
                last.close()
                last.push(following)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(commits)
        assert begun.wait(SECONDS)
        try:
            with catalog_backend(lake).lock(FILES_REMOVED, SECONDS):
                pass
        finally:
            ended.set()
        running.result()


@ON_POSTGRES
def test_a_commit_whose_locks_are_lost_with_the_connection_is_not_made(
    world: World, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance may have removed the files meanwhile."""
    make_table(world)
    with world.stream.lake.open() as lake:
        change = prepared(world, NW, 1.0)

        def lose() -> None:
            postgres.end_sessions(world.catalog["database"])
            lake.exists(world.stream.table)  # by DuckDB: the driver's connection is gone

        with delayed(monkeypatch, lose), pytest.raises(CatalogUnreachableError, match="lake's lock was lost"):
            commit(lake, [change])
        commit(lake, [change])

    assert world.totals() == [1.0] * ROWS


@ON_POSTGRES
def test_a_commit_that_never_gets_the_lock_raises_a_passing_error_and_the_next_one_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(world)
    with world.stream.lake.open() as lake:
        change = prepared(world, NW, 1.0)
        with commit_lock(lake.config), monkeypatch.context() as patched:
            patched.setattr("lake_assets.lake.backends.database_backend.TIMEOUT", 0.1)
            with pytest.raises(
                CatalogLockedError, match=r"commit lock was not free within 0.1 seconds: .* run it again"
            ):
                commit(lake, [change])
        commit(lake, [change])

    assert world.totals() == [1.0] * ROWS


@BY_DRIVER
def test_an_earlier_commit_whose_answer_was_lost_is_looked_for_under_the_lock(world: World) -> None:
    """Its transaction, which has the lock, may still be about to end."""
    make_table(world)
    queues: list[bool] = []

    with world.stream.lake.open() as lake:

        def work() -> bool:
            queues.append(lake.queues)
            raise duckdb.TransactionException(OVERTAKEN)

        def find() -> bool:
            queues.append(lake.queues)
            return True

        assert write_retried(lake, work, "the thing", find)

    assert queues == [True, False]


@pytest.mark.more
def test_the_newest_list_of_exported_files_remains(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow writer puts its list over that of a commit which came after its own."""
    exporting(local_world, tmp_path / "deltas", latest=True)
    make_table(local_world)
    other = replace(local_world, _opened=None)
    original = exporter._put
    happened: list[object] = []

    def late(*arguments: Any) -> None:
        if not happened:
            happened.append(None)
            write(other, SW)
        original(*arguments)

    monkeypatch.setattr(exporter, "_put", late)
    write(local_world, NW)

    latest = (tmp_path / "deltas" / "_latest.json").read_text()
    assert len(visible(local_world)) == 2
    assert all(uri in latest for _, uri in visible(local_world))


CHANGES = {
    "column": "ALTER TABLE lake.sales ADD COLUMN note VARCHAR",
    "type": "ALTER TABLE lake.sales ALTER COLUMN id TYPE HUGEINT",
    "partitioning": "ALTER TABLE lake.sales SET PARTITIONED BY (region)",
}


@BY_DRIVER
@pytest.mark.parametrize("what", ["partitioning", *more(["column", "type"])])
def test_a_change_of_the_table_between_two_commits_of_a_session_is_noticed(world: World, what: str) -> None:
    make_table(world)
    with world.stream.lake.open() as lake:
        commit(lake, [prepared(world, NW, 1.0)])
        known = dict(lake.descriptions)
        with plain_client(world.config.lakes["test"], read_only=False) as client:
            client.execute(CHANGES[what])
        change = prepared(world, NW, 2.0)
        change = replace(change, new=replace(change.new, columns=("id", "total")))  # type: ignore[type-var]
        with pytest.raises(LakeAssetsError):  # by the extension, which the direct strategy leaves it to
            commit(lake, [change])
        assert known
        assert not any(description in known.values() for description in lake.descriptions.values())

    assert world.totals() == [1.0] * ROWS


def of_a_table_that_is_gone(known: Any) -> Any:
    gone = {table_id: [*names, "ducklake_inlined_data_99_1"] for table_id, names in known.inlined.items()}
    return replace(known, inlined=gone)


def of_the_same_number_in_a_catalog_that_was_put_back(known: Any) -> Any:
    return replace(known, state=replace(known.state, moment="another"))


@BY_DRIVER
@pytest.mark.parametrize("stale", [of_a_table_that_is_gone, of_the_same_number_in_a_catalog_that_was_put_back])
def test_a_stale_description_of_the_tables_is_noticed(world: World, stale: Callable[[Any], Any]) -> None:
    make_table(world)
    with world.stream.lake.open() as lake:
        commit(lake, [prepared(world, NW, 1.0)])
        key, known = next(iter(lake.descriptions.items()))
        lake.descriptions[key] = stale(known)

        commit(lake, [prepared(world, NW, 2.0)])

        assert lake.descriptions[key].state.moment != "another"
    assert set(world.totals()) == {2.0}
