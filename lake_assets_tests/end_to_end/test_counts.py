"""What a Dagster run of one partition asks for, checks included: the same in a small table and in a large one.

On PostgreSQL a proxy counts all statements and rows, those of DuckDB's extension too. On SQLite the statements are
those of DuckDB's log and of Python's driver. The rows are those of Python's driver: nothing counts the rows that
DuckDB's scanner reads inside a SQLite file.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.run import index_all
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.ledger.flush import flush_ledger
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, ledger_table
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets_tests.servers.postgres import PostgresServer
from lake_assets_tests.servers.postgres_proxy import PostgresProxy, postgres_proxy
from lake_assets_tests.servers.proxy import S3Proxy
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.long]

# Partitions of the table, and rows of the ledger.
SMALL = (10, 100)
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
    """What one run asked for: statements by their text, the rows that these returned, and requests of S3."""

    statements: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, statement: str, rows: int = 0) -> None:
        """Count a statement without its numbers and names, which differ from run to run."""
        text = re.sub(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+", "#", statement)
        text = re.sub(r"\s+", " ", text.split("VALUES")[0])[:400]
        self.statements[text] += 1
        self.rows += rows


def fill(world: World, partitions: int, ledger: int) -> None:
    """A table of so many partitions with a file each, registered by one commit, and a ledger of so many rows."""
    source, below = world.source, "path" if "path" in world.storage else "prefix"
    world.source = world.storage | {below: f"{world.storage[below]}/main/sales"}
    world.options = {"mode": "index", "partitions": PARTITIONS}
    texts = [f"region=R{n // DAYS},date={FIRST + dt.timedelta(days=n % DAYS)}" for n in range(partitions)]
    world.land(texts[0], sales(1, 2))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: world.land(text, sales(1, 2)), texts[1:]))
    assert all(outcome.error is None for outcome in index_all(world.stream))
    world.source, world.options = source, {"partitions": PARTITIONS}
    with world.stream.lake.open() as lake:
        table = ledger_table(lake.config).sql
        names = ", ".join(f'"{name}"' for name in LEDGER_COLUMNS)
        lake.rows(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM (SELECT * FROM {table} LIMIT 1), range(?)",
            [ledger - partitions],
        )
        flush_ledger(lake)
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
def logged(stream: OpenStream, monkeypatch: pytest.MonkeyPatch, counted: Counted) -> Iterator[None]:
    """Count DuckDB's statements, and those of Python's driver."""
    with stream.lake.open():
        engine = stream.lake._engine
    assert engine is not None
    query = CatalogDatabase.rows

    def rows(database: CatalogDatabase, sql: str, parameters: Any = ()) -> Any:
        result = query(database, sql, parameters)
        counted.note(sql, len(result))
        return result

    with monkeypatch.context() as patched:
        patched.setattr(CatalogDatabase, "rows", rows)
        engine.execute("CALL enable_logging('QueryLog')")
        engine.execute("CALL truncate_duckdb_logs()")
        yield
        engine.execute("CALL disable_logging()")
    for (message,) in engine.execute("SELECT message FROM duckdb_logs").fetchall():
        counted.note(message)


def measure(
    world: World, monkeypatch: pytest.MonkeyPatch, postgres: PostgresProxy | None, s3: S3Proxy | None
) -> Counted:
    """One run of one partition with all its checks, which pass."""
    job, stream = refresh(world.config, monkeypatch)
    counted = Counted()
    if s3 is not None:
        s3.forget()
    if postgres is not None:
        postgres.forget()
        result = job.execute_in_process(partition_key=KEY)
        for statement in postgres.statements:
            counted.note(statement.text, statement.rows)
    else:
        with logged(stream, monkeypatch, counted):
            result = job.execute_in_process(partition_key=KEY)
    evaluations = result.get_asset_check_evaluations()
    assert {evaluation.check_name for evaluation in evaluations if evaluation.passed} == CHECKS
    assert all(evaluation.passed for evaluation in evaluations)
    for request in s3.requests() if s3 is not None else ():
        counted.requests[request.method, "object" if request.key else "list"] += 1
    return counted


CHECKS = {"row_counts", "landing_zone", "no_null_partition", "schema", "ledger", "data_files"}


def differences(small: Sequence[Counted], large: Sequence[Counted]) -> list[str]:
    """What the runs in the two tables differ by."""
    found = []
    for one, other in zip(small, large, strict=True):
        pairs: list[tuple[str, Counter[Any], Counter[Any]]] = [
            ("statements", one.statements, other.statements),
            ("requests", one.requests, other.requests),
            ("rows", Counter(all=one.rows), Counter(all=other.rows)),
        ]
        for kind, before, after in pairs:
            keys = [key for key in set(before) | set(after) if before[key] != after[key]]
            found += [f"{kind}, {key}: {before[key]} and {after[key]}" for key in keys]
    return found


def two_runs(
    world: World, monkeypatch: pytest.MonkeyPatch, postgres: PostgresProxy | None = None, s3: S3Proxy | None = None
) -> list[Counted]:
    """A run that refreshes the partition, and one that finds it unchanged."""
    world.land(NW, sales(1, 2, 3))
    return [measure(world, monkeypatch, postgres, s3) for _ in range(2)]


def test_on_sqlite_and_local_folders(local_world: World, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {}
    for size in (SMALL, LARGE):
        folder = tmp_path / str(size[0])
        local_world.catalog = {"type": "sqlite", "path": str(folder / "catalog.sqlite")}
        local_world.storage = {"type": "local", "path": str(folder / "data")}
        local_world.source = {"type": "local", "path": str(folder / "landing")}
        fill(local_world, *size)
        counts[size] = two_runs(local_world, monkeypatch)

    found = differences(counts[SMALL], counts[LARGE])
    assert not found, "\n".join(found)
    assert all(run.statements for run in counts[SMALL])


def test_on_postgres_and_s3(
    local_world: World, postgres: PostgresServer, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {}
    with postgres_proxy(postgres) as proxy:
        for size in (SMALL, LARGE):
            local_world.catalog = database_on(proxy.server)
            local_world.source, local_world.storage = bucket_on(s3_proxy.s3), bucket_on(s3_proxy.s3)
            fill(local_world, *size)
            counts[size] = two_runs(local_world, monkeypatch, proxy, s3_proxy)

    found = differences(counts[SMALL], counts[LARGE])
    # The rows are not the same yet: see "What a check costs" in docs/dagster.md.
    wrong = [text for text in found if not text.startswith("rows")]
    assert not wrong, "\n".join(wrong)
    assert all(run.statements and run.rows and run.requests for run in counts[SMALL])
