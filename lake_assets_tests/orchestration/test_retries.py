"""Which runs Dagster tries again by itself: those of which all errors pass, as of a catalog that is locked or away."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg
import pytest

from dev.servers.postgres import StoppablePostgres
from lake_assets.base.errors import CommitConflictError, StorageUnreachableError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.spark import Spark
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.ingest.run import skip
from lake_assets.lake.commit.change import Committed
from lake_assets.lake.commit.strategy import commit
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.event_log import RETRIES
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.translator import specs_of
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.check_run import CheckRun
from lake_assets.upkeep.checks.facts import CheckResult
from lake_assets_tests.lake.test_locked import held
from lake_assets_tests.orchestration.assets.test_stream_asset import FORCE, metadata_of
from lake_assets_tests.orchestration.check_runs import SALES, evaluations_of, run
from lake_assets_tests.orchestration.in_process import REGIONS, Materialize, failing_once, failure_of
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import database_on

ONE = {"partition_key": "2026-02-11|NW"}
CONFLICT = CommitConflictError("other writers were faster:", "run it again.")


def test_a_run_whose_errors_pass_is_tried_again(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)
    local_world.options["commit_batch"] = 1
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    failing_once(CONFLICT, monkeypatch)

    result = materialize("2026-02-11|NW", "2026-02-11|SW")

    assert result.success
    assert local_world.totals() == [1, 2]
    assert sorted(row.status for row in local_world.ledger()) == ["committed", "committed", "failed", "skipped"]


def test_a_run_in_which_something_else_failed_too_is_not_tried_again(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")
    commits = failing_once(CONFLICT, monkeypatch)

    result = materialize("2026-02-11|NW", "2026-02-11|SW", raise_on_error=False)

    assert failure_of(result).startswith("2 of 2 partitions failed")
    assert next(commits) == 1


@pytest.mark.parametrize("passes", [True, False])
def test_checks_that_a_storage_kept_from_being_made_are_tried_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch, passes: bool
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)
    local_world.land(NW, sales(1))
    tries, of_partitions = iter(range(1 if passes else RETRIES + 1)), CheckRun.by_partition

    def away(check_run: CheckRun, name: str) -> Mapping[Partition, CheckResult]:
        if name == "row_counts" and next(tries, None) is not None:
            raise StorageUnreachableError("the storage is away:", "wait for it.")
        return of_partitions(check_run, name)

    monkeypatch.setattr(CheckRun, "by_partition", away)
    result = run(local_world, SALES, **ONE)

    assert result.success  # what was committed stays
    assert [row.status for row in local_world.ledger()].count("committed") == 1
    assert {"row_counts", "ledger"} < evaluations_of(result).keys()
    *_, newest = (each for each in result.get_asset_check_evaluations() if each.check_name == "row_counts")
    assert newest.passed is passes
    assert passes or "could not be made: the storage is away" in (newest.description or "")


def test_a_run_without_its_spark_connect_server_is_tried_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)
    local_world.options |= REGIONS
    local_world.land(NW, sales(1))
    spark = pyspark_resource(Spark.model_validate({"remote": "sc://127.0.0.1:1"}))

    result = dg.materialize(
        [stream_asset(specs_of(local_world.stream))],
        partition_key="2026-02-11|NW",
        resources={"pyspark": spark},
        raise_on_error=False,
    )

    retried = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]
    assert len(retried) == RETRIES
    assert "no Spark Connect server answers at sc://127.0.0.1:1 (" in failure_of(result)


SECONDS = 1.0  # for which a write meets the lock
KEYS = ("2026-02-11|NW", "2026-02-11|SW")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What is called before each try of a run's step but the first; the list gets shorter by it."""
    left: list[Callable[[], object]] = []
    begun: set[str] = set()

    def counted(stream: OpenStream, partitions: Any, sessions: Any, options: IngestOptions) -> Iterator[Outcome]:
        if options.run_id in begun:
            left.pop(0)()
        begun.add(options.run_id)
        return ingest_all(stream, partitions, sessions, options)

    monkeypatch.setattr("lake_assets.orchestration.stream_run.ingest_all", counted)
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)
    return left


def land_both(world: World) -> None:
    world.land(NW, sales(1))
    world.land(SW, sales(2))


def shown(result: dg.ExecuteInProcessResult) -> dict[str | None, str]:
    return {key: values["status"] for key, values in metadata_of(result).items()}


@pytest.mark.more
@pytest.mark.usefixtures("runs")  # which has nothing for a second try
@pytest.mark.parametrize(("status", "write"), [("committed", commit), ("skipped", skip)])
def test_a_catalog_that_another_process_has_locked_fails_no_step(
    materialize: Materialize,
    local_world: World,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    write: Callable[..., object],
) -> None:
    land_both(local_world)
    materialize(*KEYS)
    timers: list[threading.Timer] = []

    with held(local_world.catalog) as end:

        def begins(*arguments: Any) -> object:
            if not timers:
                timers.append(threading.Timer(SECONDS, end))
                timers[0].start()
            return write(*arguments)

        monkeypatch.setattr(f"lake_assets.ingest.replace.replace_run.{write.__name__}", begins)
        result = materialize(*KEYS, run_config=FORCE if status == "committed" else None)
        timers[0].join()

    assert shown(result) == dict.fromkeys(KEYS, "committed")  # by this run or the one before
    assert local_world.totals() == [1, 2]
    assert [row.status for row in local_world.ledger()] == [status] * 2 + ["committed"] * 2


def test_a_catalog_that_stays_locked_has_the_step_tried_again(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch, runs: list[Callable[[], object]]
) -> None:
    land_both(local_world)
    materialize(*KEYS)
    monkeypatch.setattr("lake_assets.lake.backends.database_backend.BUSY", 0.1)

    with held(local_world.catalog) as end:
        runs.append(end)
        result = materialize(*KEYS)

    assert runs == []
    assert shown(result) == dict.fromkeys(KEYS, "committed")
    assert [row.status for row in local_world.ledger()][:2] == ["skipped"] * 2


@pytest.fixture
def stoppable(local_world: World, stoppable_postgres: StoppablePostgres) -> StoppablePostgres:
    local_world.catalog = database_on(stoppable_postgres.server)
    land_both(local_world)
    return stoppable_postgres


@pytest.mark.more
def test_a_server_that_stops_before_the_commits_has_the_step_tried_again(
    materialize: Materialize,
    local_world: World,
    stoppable: StoppablePostgres,
    runs: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the other partitions of the run are not tried in vain."""
    local_world.options["commit_batch"] = 1
    commits: list[int] = []

    def stopping(*arguments: Any) -> list[Committed]:
        commits.append(1)
        if len(commits) == 1:
            stoppable.stop()
        return commit(*arguments)

    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.commit", stopping)
    runs.append(stoppable.start)

    result = materialize(*KEYS)

    assert (runs, len(commits)) == ([], 3)
    assert shown(result) == dict.fromkeys(KEYS, "committed")
    assert local_world.totals() == [1, 2]


@pytest.mark.more
@pytest.mark.parametrize("is_away", [True, False])
def test_a_server_that_stays_away_is_tried_again_and_one_that_refuses_is_not(
    materialize: Materialize,
    local_world: World,
    stoppable: StoppablePostgres,
    runs: list[Callable[[], object]],
    is_away: bool,
) -> None:
    """Either is one error for all partitions."""
    if is_away:
        stoppable.stop()
    else:
        local_world.catalog |= {"password": "wrong"}
    runs += [int, int]

    result = materialize(*KEYS, raise_on_error=False)

    assert len(runs) == (0 if is_away else 2)
    summary, told = failure_of(result).splitlines()
    assert summary == "2 of 2 partitions failed."
    assert (
        not is_away
        or "is unreachable: Connection refused: correct host and port, or run it again when the server runs" in told
    )
