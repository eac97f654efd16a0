"""A lake to check, and shorter calls of its checks."""

from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.check_run import CheckRun, checks_of
from lake_assets.upkeep.checks.facts import CheckResult, Scope
from lake_assets_tests.world import NW, SW, World, sales

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"


def fill(world: World) -> World:
    """Two partitions, one of them ingested twice."""
    world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE total <= 0"}}}
    world.land(NW, sales(1, 2))
    world.land(SW, sales(3))
    partitions = [world.partition(text) for text in (NW, SW)]
    outcomes = list(ingest_all(world.stream, partitions, world.sessions, IngestOptions(run_id="first")))
    assert [outcome.error for outcome in outcomes] == [None, None]
    world.land(NW, sales(4), "later.parquet")
    world.ingest(NW, run_id="second")
    return world


def run_check(stream: OpenStream, name: str, scope: Scope) -> CheckResult:
    return CheckRun(stream, [name], scope).result(name)


def check(world: World, name: str, scope: Scope = Scope()) -> CheckResult:  # noqa: B008 - frozen
    return run_check(world.stream, name, scope)


def results(world: World, scope: Scope = Scope()) -> dict[str, CheckResult]:  # noqa: B008 - frozen
    """What all checks of the stream say, which read the lake once."""
    run = CheckRun(world.stream, [*checks_of(world.stream)], scope)
    return {name: run.result(name) for name in checks_of(world.stream)}


def failed(world: World, scope: Scope = Scope()) -> dict[str, CheckResult]:  # noqa: B008 - frozen
    return {name: result for name, result in results(world, scope).items() if not result.passed}


def by_partition(world: World, name: str, scope: Scope) -> dict[Partition, bool]:
    """Whether the check of each partition passed."""
    results = CheckRun(world.stream, [name], scope, by_partition=True).by_partition(name)
    return {partition: result.passed for partition, result in results.items()}
