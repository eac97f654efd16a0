"""A partition whose run failed by what passes is requested again; one that failed by its objects waits for others."""

import datetime as dt
from collections.abc import Callable

import dagster as dg
import pytest

from lake_assets.base.errors import LakeAssetsError, SourceChangedError, StorageUnreachableError
from lake_assets.orchestration.dagster_private import delete_texts
from lake_assets.orchestration.event_log import RETRIES
from lake_assets.orchestration.partition_keys import RANGE_END, RANGE_START
from lake_assets.streams import pending
from lake_assets_tests.ingest.test_release import NAMES, group_in
from lake_assets_tests.orchestration.in_process import failing_once
from lake_assets_tests.orchestration.sensors.test_stream_sensor import day, key, keys_of
from lake_assets_tests.orchestration.test_queued_runs import add, has_begun, queue
from lake_assets_tests.orchestration.test_stream_schedules import Scheduled
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, World, sales

AWAY = StorageUnreachableError("the storage is away:", "wait for it.")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing pause before it is tried again."""
    monkeypatch.setattr(pending, "FIRST", 0.0)
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)


def fail(ticks: Ticks, run: dg.DagsterRun) -> None:
    """A run ends before it has done anything."""
    has_begun(ticks.instance, run)
    ticks.instance.report_run_failed(run)


@pytest.mark.usefixtures("at_once")
def test_what_an_outage_has_failed_is_in_the_lake_without_another_object(
    ticks: Ticks, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(day("NW"), sales(1))
    failing_once(AWAY, monkeypatch, times=RETRIES + 1)
    first = ticks.tick()
    assert [result.success for result in ticks.run(first)] == [False]

    again = ticks.tick()

    assert keys_of(again) == [key("NW")]
    assert again[0].run_key != first[0].run_key
    assert [result.success for result in ticks.run(again)] == [True]
    assert ticks.tick() == []
    assert local_world.totals() == [1]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "cause",
    [AWAY, SourceChangedError("objects changed while they were read:", "run it again."), None],
    ids=["storage", "writer", "object"],
)
def test_streams_released_together_follow_by_the_sensor_of_one_whatever_failed_another(
    ticks: Ticks, local_world: World, cause: LakeAssetsError | None
) -> None:
    group = group_in(local_world)
    group.options["sales"] = local_world.options
    group.declare()
    group.land_all(NW, 1)
    if cause is None:
        group.land("stock", NW, b"no Parquet")
    with pytest.MonkeyPatch.context() as patch:
        if cause is not None:
            failing_once(cause, patch, times=RETRIES + 1)
        assert [result.success for result in ticks.run(ticks.tick())] == [False]
    group.land("stock", NW, sales(2))

    again = ticks.tick()

    assert [result.success for result in ticks.run(again)] == [True]
    assert ticks.tick() == []
    assert group.totals() == dict(zip(NAMES, ([1], [1.1], [2]), strict=True))


@pytest.mark.usefixtures("at_once")
def test_what_an_object_has_failed_waits_for_another_one(ticks: Ticks, local_world: World) -> None:
    local_world.land(day("NW"), b"no Parquet")
    assert [result.success for result in ticks.run(ticks.tick())] == [False]

    assert ticks.tick() == []
    said = str(ticks.evaluate().skip_message)
    assert said.endswith("1 failed by their objects, and are requested when these change.")
    local_world.land(day("NW"), sales(1))
    assert [result.success for result in ticks.run(ticks.tick())] == [True]
    assert ticks.tick() == []
    assert "failed" not in str(ticks.evaluate().skip_message)


def test_a_run_that_was_lost_is_requested_again_after_the_pause_that_the_tick_names(
    ticks: Ticks, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(day("NW"), sales(1))
    (request,) = ticks.tick()
    fail(ticks, queue(ticks, request))

    assert ticks.tick() == []
    said = str(ticks.evaluate().skip_message)
    before, at = dt.datetime.now(dt.UTC), said.rpartition(" from ")[2].removesuffix(" UTC.")
    assert "1 failed by what passes, and are requested again from " in said
    then = dt.datetime.combine(before.date(), dt.time.fromisoformat(at), dt.UTC)
    assert then - before < dt.timedelta(seconds=pending.FIRST)
    monkeypatch.setattr("lake_assets.orchestration.sensors.stream_sensor.time.time", lambda: then.timestamp() + 86_400)
    (again,) = ticks.tick()
    assert again.partition_key == key("NW")


def drop(ticks: Ticks, run: dg.DagsterRun) -> None:
    """Dagster drops a run from the queue."""
    ticks.instance.report_run_failed(run)


def drop_and_show(ticks: Ticks, run: dg.DagsterRun) -> None:
    drop(ticks, run)
    Ticks(ticks.world, ticks.instance, sensor="test_lost_runs").tick()
    assert {run.status for run in ticks.instance.get_runs()} == {dg.DagsterRunStatus.CANCELED}


def drop_and_reset(ticks: Ticks, run: dg.DagsterRun) -> None:
    drop(ticks, run)
    ticks.cursor = None


def drop_and_lose_state(ticks: Ticks, run: dg.DagsterRun) -> None:
    drop(ticks, run)
    delete_texts(ticks.instance, "lake_assets/%", "lake_assets/~")


def delete(ticks: Ticks, run: dg.DagsterRun) -> None:
    ticks.instance.delete_run(run.run_id)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("lose", [drop, drop_and_show, drop_and_reset, drop_and_lose_state, delete])
def test_a_run_that_never_began_is_requested_again_with_another_run_key(
    ticks: Ticks, local_world: World, lose: Callable[[Ticks, dg.DagsterRun], None]
) -> None:
    local_world.land(day("NW"), sales(1))
    (first,) = ticks.tick()
    lose(ticks, queue(ticks, first))

    (again,) = ticks.tick()

    assert (again.partition_key, again.run_key == first.run_key) == (key("NW"), False)
    lose(ticks, queue(ticks, again))
    (third,) = ticks.tick()
    assert len({first.run_key, again.run_key, third.run_key}) == 3
    assert [result.success for result in ticks.run([third])] == [True]
    assert ticks.tick() == []


@pytest.mark.usefixtures("at_once")
def test_what_landed_while_a_cancelled_backfill_had_it_is_requested(ticks: Ticks, local_world: World) -> None:
    backfill = queue(ticks, dg.RunRequest(partition_key=key("NW"), tags={"dagster/backfill": "of-a-person"}))
    local_world.land(day("NW"), sales(1))
    assert ticks.tick() == []
    ticks.instance.report_run_canceled(backfill)

    assert keys_of(ticks.tick()) == [key("NW")]


@pytest.mark.usefixtures("at_once")
def test_a_run_that_somebody_has_cancelled_is_not_requested_again(ticks: Ticks, local_world: World) -> None:
    local_world.land(day("NW"), sales(1))
    (request,) = ticks.tick()
    ticks.instance.report_run_canceled(queue(ticks, request))

    assert ticks.tick() == []
    assert "failed" not in str(ticks.evaluate().skip_message)


@pytest.mark.usefixtures("at_once")
def test_a_schedule_requests_older_partitions_that_an_outage_has_failed(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled, now = Scheduled(local_world, instance, lookback=0), dt.datetime.now(dt.UTC)
    days = [f"{now.date() - dt.timedelta(days=number)}" for number in (20, 19)]
    for number, region in enumerate(("NE", "NW")):
        local_world.land(f"region={region},date={days[number]}", sales(number))
    local_world.land(f"region=SW,date={days[0]}", b"no Parquet")
    failing_once(AWAY, monkeypatch, times=6)
    for region, date in (("NE", days[0]), ("NW", days[1]), ("SW", days[0])):
        with pytest.raises(Exception, match=r"away|Parquet"):
            local_world.ingest(f"region={region},date={date}")

    later = (now + dt.timedelta(hours=1)).isoformat()
    newest, *again = scheduled.tick(later).run_requests

    assert newest.tags["dagster/asset_partition_range_end"].endswith("|SW")
    assert sorted(str(request.partition_key) for request in again) == [f"{days[0]}|NE", f"{days[1]}|NW"]
    monkeypatch.undo()
    assert [scheduled.run(request).success for request in again] == [True, True]
    assert len(scheduled.tick(later).run_requests) == 1


@pytest.mark.usefixtures("at_once")
def test_a_schedule_requests_older_partitions_of_runs_that_never_began(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    scheduled, now = Scheduled(local_world, instance, lookback=1), dt.datetime.now(dt.UTC)
    at = [(now + dt.timedelta(days=number)).isoformat() for number in range(-3, 1)]

    def ends(request: dg.RunRequest) -> tuple[str, str]:
        return request.tags[RANGE_START], request.tags[RANGE_END]

    def drop_of(request: dg.RunRequest) -> None:
        tags = dict(request.tags) | {"dagster/schedule_name": scheduled.schedule.name}
        instance.report_run_failed(add(instance, "refresh_sales", tags))

    first = scheduled.request(at[0])
    drop_of(first)
    (same,) = scheduled.tick(at[0]).run_requests  # of the newest partitions, which had no run
    assert ends(same) == ends(first)

    second, again = scheduled.tick(at[2]).run_requests

    assert ends(again) == ends(first)
    assert len({request.run_key for request in (first, second, again)}) == 3
    drop_of(second)
    drop_of(again)
    assert {ends(request) for request in scheduled.tick(at[3]).run_requests[1:]} == {ends(first), ends(second)}
    run = add(instance, "refresh_sales", again.tags)
    has_begun(instance, run)
    instance.report_run_failed(run)  # its partitions are in the ledger, if they failed
    assert {ends(request) for request in scheduled.tick(at[3]).run_requests[1:]} == {ends(second)}
