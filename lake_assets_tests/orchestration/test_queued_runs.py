"""A partition has one queued run: sensors and schedules request no other one until it begins."""

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.utils import make_new_run_id

from dev.servers.moto import KEYS, Moto, moto
from lake_assets.orchestration.partition_keys import dynamic_name
from lake_assets_tests.orchestration.instances import tick_of
from lake_assets_tests.orchestration.sensors.test_sqs import notification, path_of
from lake_assets_tests.orchestration.sensors.test_stream_sensor import TODAY, day, key, keys_of
from lake_assets_tests.orchestration.test_stream_schedules import Scheduled
from lake_assets_tests.orchestration.ticks import LOCATION, Ticks, ticks_of
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales

__all__ = ["moto"]

ASSET = dg.AssetKey("sales")
QUEUED, STARTED = dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED
START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def add(instance: dg.DagsterInstance, job: str, tags: Mapping[str, str], **changes: Any) -> dg.DagsterRun:
    """A run in Dagster's storage, queued if `changes` do not say otherwise."""
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(LOCATION, "__repository__"), job)
    run = dg.DagsterRun(job_name=job, run_id=make_new_run_id(), remote_job_origin=origin, status=QUEUED, tags=tags)
    return instance.add_run(run._replace(**changes))


def queue(ticks: Ticks, request: dg.RunRequest, **changes: Any) -> dg.DagsterRun:
    """A run of a sensor's request, as the daemon puts it in the queue."""
    tags = dict(request.tags) | ({"dagster/partition": request.partition_key} if request.partition_key else {})
    made = {"run_config": request.run_config or {}, "asset_selection": frozenset({ASSET}), **changes}
    return add(ticks.instance, "__ASSET_JOB", tags, **made)


def has_begun(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """A run begins: its first event is stored."""
    began = dg.DagsterEvent(event_type_value=dg.DagsterEventType.PIPELINE_START.value, job_name=run.job_name)
    instance.report_dagster_event(began, run.run_id)


def test_what_lands_before_a_run_begins_is_in_that_run_or_in_the_next_one(ticks: Ticks, local_world: World) -> None:
    local_world.land(day("NW"), sales(1))
    (request,) = ticks.tick()
    run = queue(ticks, request)

    for number in range(3):
        local_world.land(day("NW"), sales(2), f"{number}.parquet")
        assert "1 partition changed (" in str(ticks.evaluate().skip_message)
        assert ticks.tick() == []
    for region in ("SW", "SE"):
        local_world.land(day(region), sales(3))
        assert ticks.tick() == []
    assert "2 wait for the next run." in str(ticks.evaluate().skip_message)

    has_begun(ticks.instance, run)  # it lists what had landed
    (joined,) = ticks.tick()
    assert {joined.tags[START], joined.tags[END]} == {key("SE"), key("SW")}
    assert ticks.tick() == []
    local_world.land(day("NW"), sales(4), "late.parquet")
    (second,) = ticks.tick()
    assert second.partition_key == key("NW")
    queue(ticks, second)
    local_world.land(day("NW"), sales(5), "later.parquet")
    assert ticks.tick() == []


def made(ticks: Ticks, request: dg.RunRequest, seconds: float) -> dg.DagsterRun:
    """A run of a sensor's request that Dagster took so long to make, and that has begun."""
    run = queue(ticks, request, status=dg.DagsterRunStatus.NOT_STARTED)
    (record,) = ticks.instance.get_run_records(dg.RunsFilter(run_ids=[run.run_id]))
    at = record.create_timestamp.timestamp() + seconds
    ticks.instance.report_dagster_event(dg.DagsterEvent.job_enqueue(run), run.run_id, timestamp=at)
    has_begun(ticks.instance, run)
    return run


def between(regions: Sequence[str], request: dg.RunRequest) -> list[str]:
    """The keys that a request is of."""
    if request.partition_key:
        return [request.partition_key]
    (first, begin), (last, end) = (request.tags[tag].split("|") for tag in (START, END))
    days = (dt.date.fromisoformat(last) - dt.date.fromisoformat(first)).days + 1
    between = regions[regions.index(begin) : regions.index(end) + 1]
    return [f"{dt.date.fromisoformat(first) + dt.timedelta(n)}|{region}" for n in range(days) for region in between]


@pytest.mark.parametrize(
    ("partitions", "seconds", "requested"),
    [(60, 6, [200, 100]), *more([(60, 0, [250, 50]), (60, 3600, [50, 50]), (10, 3600, [250, 50])])],
    ids=["slow", "fast", "stuck", "small"],
)
def test_a_tick_requests_runs_that_dagster_makes_in_twenty_seconds(
    ticks: Ticks, local_world: World, partitions: int, seconds: float, requested: list[int]
) -> None:
    regions = [f"R{number:03}" for number in range(300)]
    local_world.options["partitions"] = {
        "region": {"values": regions},
        "date": {"type": "date", "start": f"{TODAY - dt.timedelta(9)}"},
    }
    tags = {START: key(regions[0]), END: key(regions[partitions - 1]), "dagster/sensor_name": "sales_sensor"}
    made(ticks, dg.RunRequest(tags=tags), seconds)
    for region in regions:
        local_world.land(day(region), b"no Parquet")

    requests = ticks.tick()
    if len(requests) < len(requested):
        made(ticks, requests[0], seconds)
        requests += ticks.tick()

    assert [len(between(regions, request)) for request in requests] == requested


@pytest.mark.parametrize(
    ("first", "last", "has"),
    [
        (("NW", 20), ("SW", 10), True),
        (("NW", 14), ("SW", 10), False),
        *more(
            [
                (("NW", 15), ("NW", 15), True),
                (("NW", 20), ("NW", 16), False),
                (("NE", 20), ("NW", 10), True),
                (("NE", 15), ("NE", 15), False),
            ]
        ),
    ],
)
def test_a_queued_range_has_the_partitions_between_its_ends_in_each_column(
    ticks: Ticks, local_world: World, first: tuple[str, int], last: tuple[str, int], has: bool
) -> None:
    ticks.instance.add_dynamic_partitions(dynamic_name("sales", "region"), ["NE", "NW", "SW"])
    queue(ticks, dg.RunRequest(tags={START: key(*first), END: key(*last)}))
    local_world.land(day("NW", 15), sales(1))

    assert keys_of(ticks.tick()) == ([] if has else [key("NW", 15)])


@pytest.mark.parametrize(
    ("options", "changes", "has"),
    [
        ({}, {"asset_selection": frozenset({dg.AssetKey("other")})}, False),
        ({}, {"status": STARTED}, False),
        ({}, {"step_keys_to_execute": ["sales"]}, True),
        ({"partitions": ["region=SW"]}, {}, False),
        *more(
            [
                ({}, {"status": dg.DagsterRunStatus.STARTING}, True),
                ({}, {"step_keys_to_execute": ["checks_of_sales"]}, False),
                ({}, {"asset_selection": None, "job_name": "refresh_sales"}, True),
                ({"landed_only": True, "waiting": True, "force": True}, {}, True),
                ({"max": 1}, {}, False),
                ({"failed": True}, {}, False),
            ]
        ),
    ],
)
def test_only_a_run_that_will_refresh_the_partition_counts(
    ticks: Ticks, local_world: World, options: dict[str, Any], changes: dict[str, Any], has: bool
) -> None:
    run_config = {"ops": {"sales": {"config": options}}}
    queue(ticks, dg.RunRequest(partition_key=key("NW"), run_config=run_config), **changes)
    local_world.land(day("NW"), sales(1))

    assert keys_of(ticks.tick()) == ([] if has else [key("NW")])


def test_notifications_of_a_queued_partition_request_nothing(moto: Moto, local_world: World) -> None:
    queue_url = moto.new_queue(VisibilityTimeout="0")
    moto.new_bucket("landing", queue_url)
    local_world.source = {"type": "s3", "bucket": "landing", "prefix": "in", **KEYS}
    local_world.options["sensor"] = {"type": "sqs", "queue_url": queue_url, "wait": 0, **KEYS}
    with ticks_of(local_world) as ticks:
        moto.send(queue_url, notification(ticks, path_of("NW"), "1"))
        (request,) = ticks.tick()
        run = queue(ticks, request)
        moto.send(queue_url, notification(ticks, path_of("NW", name="b.parquet"), "2"))
        assert ticks.tick() == []
        has_begun(ticks.instance, run)
        moto.send(queue_url, notification(ticks, path_of("NW", name="c.parquet"), "3"))
        assert keys_of(ticks.tick()) == [key("NW")]


def test_a_schedule_requests_no_run_of_partitions_that_a_queued_run_has(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    scheduled = Scheduled(local_world, instance, lookback=2)
    request = scheduled.request("2026-02-11T13:00+00:00")
    add(instance, "refresh_sales", request.tags, run_config=request.run_config)

    skipped = scheduled.tick("2026-02-11T14:00+00:00")
    assert (skipped.run_requests, skipped.skip_message) == ([], "A queued run has all these partitions.")
    assert scheduled.request("2026-02-12T00:00+00:00").tags[END].startswith("2026-02-12")


@pytest.mark.parametrize("name", ["maintain_test", *more(["audit_test", "drain_sales", "observe_sales"])])
def test_a_schedule_requests_no_run_while_one_of_its_own_is_queued(
    local_world: World, instance: dg.DagsterInstance, tmp_path: Path, name: str
) -> None:
    cron = {"cron": "0 * * * *"}
    local_world.options |= {
        "automation": cron,
        "landing": {"buffer": {"path": str(tmp_path / "buffer")}, "batch": {"records": 1}},
    }
    local_world.lake_options |= {"maintenance": cron, "audit": cron}
    schedule = Scheduled(local_world, instance).definitions.get_repository_def().get_schedule_def(f"{name}_schedule")

    def tick() -> Any:
        return tick_of(schedule, instance)

    assert len(tick().run_requests) == 1
    run = add(instance, name, {"dagster/schedule_name": schedule.name})
    assert (tick().run_requests, tick().skip_message) == ([], f"The run {run.run_id} of this schedule is queued.")
    has_begun(instance, run)
    assert len(tick().run_requests) == 1


@pytest.mark.soak
def test_ten_thousand_changed_partitions_are_requested_once_each_over_many_ticks(
    ticks: Ticks, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.streams.pending.FIRST", 0.0)
    regions = [f"R{number:03}" for number in range(100)]
    start = {"type": "date", "start": f"{TODAY - dt.timedelta(99)}"}
    local_world.options["partitions"] = {"region": {"values": regions}, "date": start}
    for region in regions:
        for days_ago in range(100):
            local_world.land(day(region, days_ago), b"no Parquet")
    requested: list[str] = []
    while requests := ticks.tick():
        keys = [each for request in requests for each in between(regions, request)]
        assert len(keys) <= 500
        requested += keys
        for request in requests:
            run = queue(ticks, request)
            has_begun(ticks.instance, run)
            ended = dg.DagsterEvent(event_type_value=dg.DagsterEventType.PIPELINE_SUCCESS.value, job_name=run.job_name)
            ticks.instance.report_dagster_event(ended, run.run_id)
    assert sorted(requested) == sorted(key(region, days_ago) for region in regions for days_ago in range(100))
