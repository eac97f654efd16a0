"""What a Dagster run of one partition asks for, checks included, and what commands about one partition do.

Both are the same in a small table and in a large one.

All statements and rows of the catalog are counted: on PostgreSQL by a proxy before the server, on SQLite at Python's
driver. DuckDB's scanner would read rows inside a SQLite file that nothing counts, so the tests also read DuckDB's log:
it attaches no lake, and none of its statements names a catalog.
"""

import datetime as dt
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dev.servers.postgres_proxy import PostgresProxy, plain, postgres_proxy
from dev.servers.proxy import S3Proxy
from lake_assets.cli.common import Options
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.index_run import index_all
from lake_assets.lake.backends.sqlite import SqliteBackend
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.tables import LEDGER, LEDGER_COLUMNS
from lake_assets.storage.bucket import Bucket
from lake_assets.storage.folder import Folder
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets_tests.cli.conftest import Run, run
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.tiers import soak
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["run"]

# Partitions of the table, and rows of the ledger.
SMALL = (10, 3_000)
LARGER = (100, 20_000)
LARGE = (1_000, 100_000)

DAYS = 100  # partitions of a region
FIRST = dt.date(2026, 2, 1)
PARTITIONS = {
    "region": {"values": ["NW", *(f"R{number}" for number in range(10))]},
    "date": {"type": "date", "start": str(FIRST), "end": "2026-06-30"},
}
KEY = "2026-02-11|NW"


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
    land_later(world, sales(1, 2), "batch_1.parquet")
    world.ingest(NW)


def land_later(world: World, rows: pa.Table, name: str) -> None:
    """Land an object with a later time than each before: S3 has whole seconds, and a commit widens no equal bounds."""
    store, before = Store(world.config.streams["sales"].source), dt.datetime.now(dt.UTC).replace(microsecond=0)

    def is_later() -> bool:
        uri = world.land(NW, rows, name)
        return any(obj.uri == uri and obj.last_modified > before for obj in store.list())

    until(is_later, "an object of a later second")


def refresh(config: LakeConfig, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, OpenStream]:
    """The job of one run, as the UI starts it, and its stream."""
    import dagster as dg  # noqa: PLC0415 - takes seconds

    from lake_assets.orchestration.build import build_definitions  # noqa: PLC0415
    from lake_assets.orchestration.resources import pyspark_resource  # noqa: PLC0415

    opened: list[OpenStream] = []

    def kept(config: LakeConfig) -> Any:
        streams = open_streams(config)
        opened.extend(streams.values())
        return streams

    monkeypatch.setattr("lake_assets.orchestration.build.open_streams", kept)
    repository = build_definitions(config, pyspark_resource(config.spark)).get_repository_def()
    asset = dg.AssetKey("sales")
    checks = dg.AssetSelection.assets(asset).resolve_checks(repository.asset_graph)
    job = repository.get_implicit_global_asset_job_def()
    return job.get_subset(asset_selection={asset}, asset_check_selection=checks), opened[0]


@contextmanager
def logged(stream: OpenStream, counted: Counted) -> Iterator[None]:
    """Count DuckDB's statements."""
    with stream.lake.open() as lake:
        engine = lake.engine
    engine.execute("CALL enable_logging('QueryLog')")
    engine.execute("CALL truncate_duckdb_logs()")
    yield
    engine.execute("CALL disable_logging()")
    for (message,) in engine.execute("SELECT message FROM duckdb_logs").fetchall():
        counted.duckdb[shape(message)] += 1


@contextmanager
def listing(counted: Counted) -> Iterator[None]:
    """Count the objects that are listed."""

    def counting(pages: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def counted_pages(*arguments: Any) -> Iterator[Any]:
            for page in pages(*arguments):
                counted.requests["listed", "objects"] += len(page)
                yield page

        return counted_pages

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Bucket, Folder):
            patch.setattr(kind, "unordered_pages", counting(kind.unordered_pages))
        yield


@contextmanager
def by_driver(counted: Counted) -> Iterator[None]:
    """Count what Python's driver asks of SQLite."""
    connect = SqliteBackend._connect

    def counting(backend: SqliteBackend, *, writes: bool) -> CountedConnection:
        return CountedConnection(counted, connect(backend, writes=writes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteBackend, "_connect", counting)
        yield


@contextmanager
def by_proxy(proxy: PostgresProxy, counted: Counted) -> Iterator[None]:
    """Count what all clients ask of PostgreSQL."""
    proxy.forget()
    yield
    for statement in proxy.statements:
        counted.note(statement.text, statement.rows)


Count = Callable[[Counted], AbstractContextManager[None]]


def measure(world: World, monkeypatch: pytest.MonkeyPatch, places: "Places") -> Counted:
    """One run of one partition with all its checks, which pass."""
    job, stream = refresh(world.config, monkeypatch)
    counted = Counted()
    with logged(stream, counted):
        if places.s3 is not None:
            places.s3.forget()
        with places.count(counted):
            result = job.execute_in_process(partition_key=KEY)
        for request in places.s3.requests() if places.s3 is not None else ():
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
class Places:
    """New catalogs and storages of one kind, and how what is asked of them is counted."""

    catalog: Callable[[], dict[str, Any]]
    count: Count
    s3: S3Proxy | None  # before the S3 server; None for local folders

    def new_lake(self, world: World, folder: Path) -> None:
        """Let the world have a new catalog, a new storage and a new landing zone."""
        world.catalog = self.catalog()
        world.storage, world.source = (
            {"type": "local", "path": str(folder / name)} if self.s3 is None else bucket_on(self.s3.s3)
            for name in ("data", "landing")
        )


@pytest.fixture
def places(request: pytest.FixtureRequest, catalog: str, storage: str, tmp_path: Path) -> Iterator[Places]:
    s3: S3Proxy | None = request.getfixturevalue("s3_proxy") if storage == "s3" else None
    if catalog == "sqlite":
        yield Places(lambda: {"type": "sqlite", "path": str(tmp_path / f"{uuid.uuid4()}.sqlite")}, by_driver, s3)
        return
    with postgres_proxy(request.getfixturevalue("postgres")) as proxy:
        yield Places(lambda: database_on(proxy.server), partial(by_proxy, proxy), s3)


@pytest.mark.more
# Each catalog and each storage once; what is asked of one does not depend on the other.
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("mode", "catalog", "storage", "larger"),
    [
        ("replace", "sqlite", "local", LARGER),
        *soak([("append", "sqlite", "local", LARGER), ("replace", "postgres", "s3", LARGER)]),
        *soak((mode, "postgres", "s3", LARGE) for mode in ("replace", "append")),
        *soak((mode, "sqlite", "local", LARGE) for mode in ("replace", "append")),
    ],
)
def test_a_run_of_one_partition_asks_for_the_same_in_a_small_table_and_in_a_large_one(
    local_world: World,
    places: Places,
    mode: str,
    larger: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode == "append":  # which reads the manifest: in both tables its rows are in a file and inlined
        monkeypatch.setattr(flush, "MANY", 1)
        monkeypatch.setattr(flush, "MOST_SMALL_FILES", 2)
    counts: dict[tuple[int, int], list[Counted]] = {}
    for size in (SMALL, larger):
        places.new_lake(local_world, tmp_path / str(size[0]))
        local_world.options = {"partitions": PARTITIONS, "mode": mode}
        fill(local_world, *size)
        land_later(local_world, sales(1, 2, 3), "batch_1.parquet" if mode == "replace" else "batch_2.parquet")
        runs = [measure(local_world, monkeypatch, places) for _ in range(2)]
        assert [run.status for run in local_world.ledger(NW)[:2]] == ["skipped", "committed"]
        counts[size] = runs

    for small, large in zip(counts[SMALL], counts[larger], strict=True):
        found = differences(small, large)
        assert not found, "\n".join(found)
        assert small.statements.total()
        assert small.rows.total()
        assert bool(small.requests) == (places.s3 is not None)
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


@pytest.mark.more
@pytest.mark.parametrize(
    ("catalog", "storage", "larger"),
    [
        ("sqlite", "local", LARGER),
        *soak([("postgres", "s3", LARGER)]),
        *soak([("postgres", "s3", LARGE), ("sqlite", "local", LARGE)]),
    ],
)
def test_a_command_about_one_partition_asks_for_the_same_in_a_small_table_and_in_a_large_one(
    local_world: World,
    run: Run,
    places: Places,
    larger: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flush, "MANY", 1)  # most rows of both ledgers are in a file
    monkeypatch.setattr(Options, "stream", lambda *_: local_world.stream)
    local_world.sessions = no_session
    counts: dict[tuple[int, int], dict[str, Counted]] = {}
    for size in (SMALL, larger):
        places.new_lake(local_world, tmp_path / str(size[0]))
        local_world.options = {"partitions": PARTITIONS}
        with jobs_here():
            fill(local_world, *size)
        counts[size] = {}
        for name, command in COMMANDS.items():
            counts[size][name] = counted = Counted()
            with logged(local_world.stream, counted), listing(counted), places.count(counted):
                result = run(*command)
            assert result.exit_code == 0, result.output
            assert counted.requests["listed", "objects"] == (name not in ("history", "ledger"))

    for name, small in counts[SMALL].items():
        found = differences(small, counts[larger][name])
        assert not found, f"{name}: " + "\n".join(found)
        assert small.statements.total()
        assert small.rows.total()
