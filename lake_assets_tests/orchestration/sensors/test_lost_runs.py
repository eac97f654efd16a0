"""Which process of a run is gone, of which `test_daemon.py` has what happens to its run; and runs that never began."""

import datetime as dt
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from lake_assets.orchestration.partition_keys import StreamKeys
from lake_assets.orchestration.sensors import lost_runs
from lake_assets.orchestration.sensors.lost_runs import _is_alive
from lake_assets_tests.orchestration.test_queued_runs import add, has_begun
from lake_assets_tests.orchestration.ticks import Clock, Ticks
from lake_assets_tests.until import until
from lake_assets_tests.world import World


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_a_process_is_alive_until_it_ends(process: subprocess.Popen[bytes]) -> None:
    at = time.time()
    assert _is_alive(process.pid, at)
    process.kill()
    until(lambda: not _is_alive(process.pid, at), "it ends")  # also before its parent has asked for its exit code
    process.wait()
    assert not _is_alive(process.pid, at)


def test_a_later_process_of_the_same_number_is_another_one(process: subprocess.Popen[bytes]) -> None:
    assert not _is_alive(process.pid, time.time() - 60)


def test_a_tick_counts_the_lost_runs(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED))
    ticks = Ticks(local_world, instance, sensor="test_lost_runs")
    assert ticks.evaluate().skip_message == "No lost runs."
    monkeypatch.setattr(lost_runs, "runs_of_server", lambda *_: [(run, None, 0.0)])

    assert ticks.evaluate().skip_message == "1 run failed, because its process is gone."


SALES = dg.AssetKey("sales")
OTHER = GrpcServerCodeLocationOrigin(host="localhost", port=1, location_name="other")
PARTITIONED = {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": "2026-02-01"}}


@dataclass
class Dropped:
    """Runs of the world's stream, with their plans, and what the sensor says of them."""

    world: World
    instance: dg.DagsterInstance

    def __post_init__(self) -> None:
        self.world.options["partitions"] = PARTITIONED
        self.ticks = Ticks(self.world, self.instance, sensor="test_lost_runs")
        self.definition = StreamKeys(self.world.stream).definition

    def run(self, *keys: str, **changes: Any) -> dg.DagsterRun:
        """A queued run that plans these partitions."""
        run = add(self.instance, "__ASSET_JOB", {}, **{"asset_selection": frozenset({SALES}), **changes})
        for key in keys:
            data = AssetMaterializationPlannedData(SALES, partition=key)
            event = dg.DagsterEvent.build_asset_materialization_planned_event(run.job_name, "sales", data)
            self.instance.report_dagster_event(event, run.run_id)
        return run

    def shown(self, *keys: str) -> list[str | None]:
        """What Dagster's map shows of partitions."""
        status = self.instance.get_status_by_partition(SALES, keys, self.definition) or {}
        return [shown.value if (shown := status.get(key)) is not None else None for key in keys]

    def status_of(self, run: dg.DagsterRun) -> str:
        (record,) = self.instance.get_run_records(dg.RunsFilter(run_ids=[run.run_id]))
        return record.dagster_run.status.value


@pytest.fixture
def dropped(local_world: World, instance: dg.DagsterInstance) -> Dropped:
    return Dropped(local_world, instance)


def test_a_run_that_never_began_is_no_failure_of_its_partitions_in_dagsters_map(dropped: Dropped) -> None:
    both = "2026-02-11|NW", "2026-02-12|NW"
    dropped.instance.report_runless_asset_event(dg.AssetMaterialization(SALES, partition=both[0]))
    run = dropped.run(*both)
    assert dropped.shown(*both) == ["IN_PROGRESS", "IN_PROGRESS"]
    dropped.instance.report_run_failed(run)
    assert dropped.shown(*both) == ["FAILED", "FAILED"]  # and is kept by Dagster

    assert dropped.ticks.evaluate().skip_message == "1 run never began."

    assert dropped.shown(*both) == ["MATERIALIZED", None]
    assert dropped.status_of(run) == "CANCELED"
    assert dropped.ticks.evaluate().skip_message == "No lost runs."


@pytest.mark.parametrize(
    ("changes", "begins", "status"),
    [
        ({}, True, "FAILURE"),
        ({"asset_selection": frozenset({dg.AssetKey("other")})}, False, "FAILURE"),
        (
            {"remote_job_origin": RemoteJobOrigin(RemoteRepositoryOrigin(OTHER, "__repository__"), "job")},
            False,
            "FAILURE",
        ),
        ({"tags": {"dagster/will_retry": "true"}}, False, "FAILURE"),
        ({"tags": {"dagster/will_retry": "true", "dagster/auto_retry_run_id": "later"}}, False, "FAILURE"),
        ({"tags": {"dagster/will_retry": "false"}}, False, "CANCELED"),
    ],
    ids=["begun", "asset", "location", "retry", "retried", "given-up"],
)
def test_only_runs_of_our_assets_that_dagster_has_given_up_are_shown_as_cancelled(
    dropped: Dropped, changes: dict[str, Any], begins: bool, status: str
) -> None:
    tags = changes.pop("tags", {})
    run = dropped.run("2026-02-11|NW", **changes)
    if begins:
        has_begun(dropped.instance, run)
    dropped.instance.report_run_failed(run)
    dropped.instance.add_run_tags(run.run_id, tags)

    dropped.ticks.tick()

    assert dropped.status_of(run) == status


def test_a_run_that_waits_to_be_tried_again_or_launched_is_given_up_some_minutes_later(
    dropped: Dropped, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, made = dropped.run("2026-02-11|NW"), dropped.run("2026-02-12|NW", status=dg.DagsterRunStatus.NOT_STARTED)
    dropped.instance.report_run_failed(waiting)
    dropped.instance.add_run_tags(waiting.run_id, {"dagster/will_retry": "true"})
    later = dropped.run("2026-02-13|NW")
    dropped.instance.report_run_failed(later)

    assert dropped.ticks.tick() == []

    states = [dropped.status_of(run) for run in (waiting, made, later)]
    assert states == ["FAILURE", "NOT_STARTED", "CANCELED"]
    now = time.time() + lost_runs.END_SECONDS
    monkeypatch.setattr("lake_assets.orchestration.sensors.lost_runs.time.time", lambda: now)
    dropped.ticks.tick()
    assert [dropped.status_of(run) for run in (waiting, made)] == ["CANCELED", "CANCELED"]


def test_a_tick_with_ten_thousand_runs_without_processes_ends_in_time_and_the_next_goes_on(
    dropped: Dropped, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, clock = [dg.DagsterRun(job_name="job", run_id=f"{number}") for number in range(10_000)], Clock()
    after = {run.run_id: number + 1 for number, run in enumerate(runs)}
    ended: list[str] = []

    def under_way(_: object, run: str | None) -> Iterator[tuple[dg.DagsterRun, None, float]]:
        return ((each, None, 0.0) for each in runs[after.get(run or "", 0) :])

    monkeypatch.setattr(lost_runs, "time", clock)
    monkeypatch.setattr(lost_runs, "runs_of_server", under_way)
    monkeypatch.setattr(lost_runs, "_fail", lambda _, run, __: clock.passes(1) and ended.__iadd__([run]))

    for ticks in range(1, 4):
        dropped.ticks.tick()
        assert ended == [run.run_id for run in runs[: ticks * (int(lost_runs.BUDGET_SECONDS) + 1)]]


def test_a_tick_with_ten_thousand_dropped_runs_ends_in_time_and_the_next_goes_on(
    dropped: Dropped, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock, at = dropped.run(), Clock(), dt.datetime.now(dt.UTC)
    failed = [run.with_status(dg.DagsterRunStatus.FAILURE)._replace(run_id=f"{number}") for number in range(10_000)]
    records = [
        dg.RunRecord(storage_id=n, dagster_run=each, create_timestamp=at, update_timestamp=at + dt.timedelta(seconds=n))
        for n, each in enumerate(failed)
    ]
    ended: list[str] = []

    def changed(filters: dg.RunsFilter, **_: object) -> list[dg.RunRecord]:
        after = filters.updated_after  # None for those under way, of which there are none
        return [record for record in records if after is not None and record.update_timestamp > after]

    monkeypatch.setattr(lost_runs, "time", clock)
    monkeypatch.setattr(dropped.instance, "get_run_records", changed)
    monkeypatch.setattr(lost_runs, "cancel_run", lambda _, each, *__: clock.passes(1) and ended.__iadd__([each.run_id]))

    for ticks in range(1, 4):
        dropped.ticks.tick()
        assert ended == [each.run_id for each in failed[: ticks * (int(lost_runs.BUDGET_SECONDS) + 1)]]
