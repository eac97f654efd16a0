"""What a Dagster run of one partition asks for, checks included, and what commands about one partition do.

Both are the same in a small table and in a large one.

All statements and rows of the catalog are counted: on PostgreSQL by a proxy before the server, on SQLite at Python's
driver. DuckDB's scanner would read rows inside a SQLite file that nothing counts, so the tests also read DuckDB's log:
it attaches no lake, and none of its statements names a catalog.
"""

import datetime as dt
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dev.servers.postgres_proxy import PostgresProxy, plain, postgres_proxy
from dev.servers.proxy import S3Proxy
from lake_assets.cli.common import Options
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.index_run import index_all
from lake_assets.lake.catalog_driver import Driver
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.tables import LEDGER, LEDGER_COLUMNS
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.storage import walk
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets_tests.cli.conftest import Run, run
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["run"]

# Partitions of the table, and rows of the ledger.
SMALL = (10, 3_000)
LARGE = (1_000, 100_000)

DAYS = 100  # partitions of a region
FIRST = dt.date(2026, 2, 1)
PARTITIONS = {
    "region": {"values": ["NW", *(f"R{number}" for number in range(10))]},
    "date": {"type": "date", "start": str(FIRST), "end": "2026-06-30"},
}
KEY = "2026-02-11|NW"
ASSET = dg.AssetKey("sales")


@dataclass
class Counted:
    """What one run asked for: statements by their text, and the rows that these returned; requests of S3."""

    statements: Counter[str] = field(default_factory=Counter)  # of the catalog
    rows: Counter[str] = field(default_factory=Counter)
    duckdb: Counter[str] = field(default_factory=Counter)  # statements of DuckDB
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, statement: str, rows: int = 0) -> None:
        """Count a statement of the catalog, or rows of one that is counted."""
        self.statements[shape(statement)] += 1
        self.rows[shape(statement)] += rows


def shape(statement: str) -> str:
    """A statement without its values and numbers."""
    text = re.sub(r"CASE column_id .*?END|IN \([?$\d, ]*\)", "", statement)  # of the columns whose bounds become wider
    return plain(text.split("VALUES")[0])[:400]


@dataclass
class CountedConnection:
    """A connection to SQLite, or a cursor of it, that counts statements and the rows that are fetched."""

    counted: Counted
    wrapped: Any
    statement: str = ""

    def execute(self, sql: str, parameters: Any = ()) -> "CountedConnection":
        self.counted.note(sql)
        return CountedConnection(self.counted, self.wrapped.execute(sql, parameters), shape(sql))

    def executemany(self, sql: str, parameters: Any) -> None:
        self.counted.note(sql)
        self.wrapped.executemany(sql, parameters)

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.wrapped.fetchall()
        self.counted.rows[self.statement] += len(rows)
        return rows

    @property
    def description(self) -> Any:
        return self.wrapped.description

    @property
    def in_transaction(self) -> bool:
        return bool(self.wrapped.in_transaction)

    def close(self) -> None:
        self.wrapped.close()


def fill(world: World, partitions: int, ledger: int) -> None:
    """A table of so many partitions with a file each, registered by one commit, and a ledger of so many rows."""
    source, options, below = world.source, world.options, "path" if "path" in world.storage else "prefix"
    world.source = world.storage | {below: f"{world.storage[below]}/main/sales"}
    world.options = options | {"mode": "index"}
    texts = [f"region=R{n // DAYS},date={FIRST + dt.timedelta(days=n % DAYS)}" for n in range(partitions)]
    world.land(texts[0], sales(1, 2))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: world.land(text, sales(1, 2)), texts[1:]))
    assert all(outcome.error is None for outcome in index_all(world.stream))
    world.source, world.options = source, options
    with world.stream.lake.open() as lake:
        table = LEDGER.name(lake.config).sql
        names = ", ".join(f'"{name}"' for name in LEDGER_COLUMNS)
        lake.rows(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM (SELECT * FROM {table} LIMIT 1), range(?)",
            [ledger - partitions],
        )
        flush.flush_ledger(lake)
    time.sleep(1.1)  # S3 has times in seconds, and a commit compares no bounds that are equal
    world.land(NW, sales(1, 2))
    world.ingest(NW)


def refresh(config: LakeConfig, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, OpenStream]:
    """The job of one run, as the UI starts it, and its stream."""
    opened: list[OpenStream] = []

    def kept(config: LakeConfig) -> Any:
        streams = open_streams(config)
        opened.extend(streams.values())
        return streams

    monkeypatch.setattr("lake_assets.orchestration.build.open_streams", kept)
    repository = build_definitions(config, pyspark_resource(config.spark)).get_repository_def()
    checks = dg.AssetSelection.assets(ASSET).resolve_checks(repository.asset_graph)
    job = repository.get_implicit_global_asset_job_def()
    return job.get_subset(asset_selection={ASSET}, asset_check_selection=checks), opened[0]


@contextmanager
def logged(stream: OpenStream, counted: Counted) -> Iterator[None]:
    """Count DuckDB's statements."""
    with stream.lake.open():
        engine = stream.lake._engine
    assert engine is not None
    engine.execute("CALL enable_logging('QueryLog')")
    engine.execute("CALL truncate_duckdb_logs()")
    yield
    engine.execute("CALL disable_logging()")
    for (message,) in engine.execute("SELECT message FROM duckdb_logs").fetchall():
        counted.duckdb[shape(message)] += 1


@contextmanager
def listing(counted: Counted) -> Iterator[None]:
    """Count the objects that are listed."""
    pages = walk.unordered_pages

    def counting(*arguments: Any) -> Iterator[Any]:
        for page in pages(*arguments):
            counted.requests["listed", "objects"] += len(page)
            yield page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "unordered_pages", counting)
        yield


@contextmanager
def by_driver(counted: Counted) -> Iterator[None]:
    """Count what Python's driver asks of SQLite."""
    connect = Driver._connect

    def counting(driver: Driver, *, writes: bool) -> CountedConnection:
        return CountedConnection(counted, connect(driver, writes=writes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Driver, "_connect", counting)
        yield


@contextmanager
def by_proxy(proxy: PostgresProxy, counted: Counted) -> Iterator[None]:
    """Count what all clients ask of PostgreSQL."""
    proxy.forget()
    yield
    for statement in proxy.statements:
        counted.note(statement.text, statement.rows)


Count = Callable[[Counted], AbstractContextManager[None]]


def measure(world: World, monkeypatch: pytest.MonkeyPatch, count: Count, s3: S3Proxy | None) -> Counted:
    """One run of one partition with all its checks, which pass."""
    job, stream = refresh(world.config, monkeypatch)
    counted = Counted()
    with logged(stream, counted):
        if s3 is not None:
            s3.forget()
        with count(counted):
            result = job.execute_in_process(partition_key=KEY)
        for request in s3.requests() if s3 is not None else ():
            counted.requests[request.method, "object" if request.key else "list"] += 1
    evaluations = result.get_asset_check_evaluations()
    more = {"appended_objects"} if stream.config.mode == "append" else set()
    assert {evaluation.check_name for evaluation in evaluations if evaluation.passed} == CHECKS | more
    assert all(evaluation.passed for evaluation in evaluations)
    return counted


CHECKS = {"last_run", "row_counts", "landing_zone", "no_null_partition", "schema", "ledger", "data_files"}


def differences(small: Counted, large: Counted) -> list[str]:
    """What a run asks for in other numbers in the two tables."""
    found = []
    for kind in ("statements", "rows", "duckdb", "requests"):
        before, after = getattr(small, kind), getattr(large, kind)
        keys = [key for key in before | after if before[key] != after[key]]
        found += [f"{kind}, {key}: {before[key]} and {after[key]}" for key in keys]
    return found


@dataclass(frozen=True)
class Catalogs:
    """New catalogs of one kind, and how what is asked of them is counted."""

    new: Callable[[], dict[str, Any]]
    count: Count


@pytest.fixture
def catalogs(request: pytest.FixtureRequest, catalog: str, tmp_path: Path) -> Iterator[Catalogs]:
    if catalog == "sqlite":
        yield Catalogs(lambda: {"type": "sqlite", "path": str(tmp_path / f"{uuid.uuid4()}.sqlite")}, by_driver)
        return
    with postgres_proxy(request.getfixturevalue("postgres")) as proxy:
        yield Catalogs(lambda: database_on(proxy.server), partial(by_proxy, proxy))


@pytest.fixture
def proxied(request: pytest.FixtureRequest, storage: str) -> S3Proxy | None:
    """The proxy before the S3 server; None for local folders."""
    proxy: S3Proxy | None = request.getfixturevalue("s3_proxy") if storage == "s3" else None
    return proxy


def new_lake(world: World, catalogs: Catalogs, proxy: S3Proxy | None, folder: Path) -> None:
    """Let the world have a new catalog, a new storage and a new landing zone."""
    world.catalog = catalogs.new()
    world.storage, world.source = (
        {"type": "local", "path": str(folder / name)} if proxy is None else bucket_on(proxy.s3)
        for name in ("data", "landing")
    )


# Each catalog and each storage once; what is asked of one does not depend on the other.
PAIRS = [
    pytest.param("sqlite", "local"),
    pytest.param("postgres", "s3", marks=pytest.mark.servers),
    pytest.param("sqlite", "s3", marks=[pytest.mark.servers, pytest.mark.soak]),
    pytest.param("postgres", "local", marks=[pytest.mark.servers, pytest.mark.soak]),
]


@pytest.mark.long
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("catalog", "storage"), PAIRS)
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_run_of_one_partition_asks_for_the_same_in_a_small_table_and_in_a_large_one(
    local_world: World,
    catalogs: Catalogs,
    proxied: S3Proxy | None,
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode == "append":  # which reads the manifest: in both tables its rows are in a file and inlined
        monkeypatch.setattr(flush, "MANY", 1)
        monkeypatch.setattr(flush, "FILES", 2)
    counts: dict[tuple[int, int], list[Counted]] = {}
    for size in (SMALL, LARGE):
        new_lake(local_world, catalogs, proxied, tmp_path / str(size[0]))
        local_world.options = {"partitions": PARTITIONS, "mode": mode}
        fill(local_world, *size)
        local_world.land(NW, sales(1, 2, 3), "batch_1.parquet" if mode == "replace" else "batch_2.parquet")
        runs = [measure(local_world, monkeypatch, catalogs.count, proxied) for _ in range(2)]
        assert [run.status for run in local_world.ledger(NW)[:2]] == ["skipped", "committed"]
        counts[size] = runs

    for small, large in zip(counts[SMALL], counts[LARGE], strict=True):
        found = differences(small, large)
        assert not found, "\n".join(found)
        assert small.statements.total()
        assert small.rows.total()
        assert bool(small.requests) == (proxied is not None)
        assert not any("attach" in text.lower() or "ducklake" in text.lower() for text in small.duckdb), small.duckdb


# Commands about the partition; `ingest` finds nothing new.
COMMANDS = {
    "plan": ("plan", "--partition", NW),
    "plan of a new version": ("plan", "--force", "--partition", NW),
    "check": ("check", "--partition", NW),
    "history": ("history", "--partition", NW),
    "ledger": ("ledger", "--partition", NW),
    "ingest": ("ingest", "--partition", NW),
}


@pytest.mark.parametrize(("catalog", "storage"), PAIRS)
def test_a_command_about_one_partition_asks_for_the_same_in_a_small_table_and_in_a_large_one(
    local_world: World,
    run: Run,
    catalogs: Catalogs,
    proxied: S3Proxy | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flush, "MANY", 1)  # most rows of both ledgers are in a file
    monkeypatch.setattr(Options, "stream", lambda *_: local_world.stream)
    local_world.sessions = no_session
    counts: dict[tuple[int, int], dict[str, Counted]] = {}
    for size in (SMALL, LARGE):
        new_lake(local_world, catalogs, proxied, tmp_path / str(size[0]))
        local_world.options = {"partitions": PARTITIONS}
        with jobs_here():
            fill(local_world, *size)
        counts[size] = {}
        for name, command in COMMANDS.items():
            counts[size][name] = counted = Counted()
            with logged(local_world.stream, counted), listing(counted), catalogs.count(counted):
                result = run(*command)
            assert result.exit_code == 0, result.output
            assert counted.requests["listed", "objects"] == (name not in ("history", "ledger"))

    for name, small in counts[SMALL].items():
        found = differences(small, counts[LARGE][name])
        assert not found, f"{name}: " + "\n".join(found)
        assert small.statements.total()
        assert small.rows.total()
