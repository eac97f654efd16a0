"""The schedule of a stream: what a tick asks for, and what the run that it asks for does."""

import datetime as dt
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partition_keys import RANGE_END, RANGE_START, dynamic_name
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets_tests.orchestration.instances import tick_of
from lake_assets_tests.world import NW, World, sales

PARTITIONS = {"region": {"values": ["NE", "NW", "SW"]}, "date": {"type": "date", "start": "2026-02-01"}}


class Scheduled:
    """The world's stream, with a schedule."""

    def __init__(self, world: World, instance: dg.DagsterInstance, **schedule: Any) -> None:
        world.options = {"partitions": PARTITIONS} | world.options | {"schedule": {"cron": "0 * * * *", **schedule}}
        self.world = world
        self.instance = instance
        self.definitions = build_definitions(world.config, pyspark_resource(world.config.spark))

    @property
    def schedule(self) -> dg.ScheduleDefinition:
        result = self.definitions.get_repository_def().get_schedule_def("refresh_sales_schedule")
        assert isinstance(result, dg.ScheduleDefinition)
        return result

    def tick(self, at: str) -> Any:
        """What a tick due at this moment gives."""
        time = dt.datetime.fromisoformat(at)
        repository = self.definitions.get_repository_def()
        return tick_of(self.schedule, self.instance, scheduled_execution_time=time, repository_def=repository)

    def request(self, at: str) -> dg.RunRequest:
        (request,) = self.tick(at).run_requests
        assert isinstance(request, dg.RunRequest)
        return request

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_job_def("refresh_sales").execute_in_process(
            run_config=request.run_config,
            partition_key=request.partition_key,
            tags=dict(request.tags),
            instance=self.instance,
            raise_on_error=False,
        )


def box(request: dg.RunRequest) -> tuple[str, str]:
    return request.tags[RANGE_START], request.tags[RANGE_END]


def partitions(result: dg.ExecuteInProcessResult) -> set[str | None]:
    return {event.materialization.partition for event in result.get_asset_materialization_events()}


def test_a_tick_asks_for_one_run_over_the_newest_partitions_of_every_region(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    scheduled, at = Scheduled(local_world, instance, lookback=2), "2026-02-11T13:00+00:00"
    request = scheduled.request(at)
    assert box(request) == ("2026-02-09|NE", "2026-02-11|SW")
    assert request.run_key is None  # what Dagster has seen before, it would not run again
    without_instance = tick_of(scheduled.schedule, scheduled_execution_time=dt.datetime.fromisoformat(at))
    (same,) = without_instance.run_requests
    assert box(same) == box(request)


def test_no_lookback_and_one_region_is_a_run_of_one_partition(local_world: World, instance: dg.DagsterInstance) -> None:
    local_world.options["partitions"] = PARTITIONS | {"region": {"values": ["NW"]}}
    assert (
        Scheduled(local_world, instance, lookback=0).request("2026-02-11T13:00+00:00").partition_key == "2026-02-11|NW"
    )


def test_a_scheduled_run_ingests_what_has_landed_and_passes_over_the_rest(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    scheduled = Scheduled(local_world, instance)
    local_world.land(NW, sales(1, 2))
    local_world.land("region=SW,date=2026-02-10", sales(3))

    result = scheduled.run(scheduled.request("2026-02-11T13:00+00:00"))

    assert result.success
    assert partitions(result) == {"2026-02-11|NW", "2026-02-10|SW"}
    assert local_world.totals() == [1, 2, 3]
    assert {row.load_partition for row in local_world.ledger()} == {
        "region=NW/date=2026-02-11",
        "region=SW/date=2026-02-10",
    }


@pytest.mark.more
def test_dates_that_only_the_rows_know_are_refreshed(local_world: World, instance: dg.DagsterInstance) -> None:
    rows = {"type": "date", "start": "2026-02-01", "in": "rows"}
    local_world.options["partitions"] = PARTITIONS | {"date": rows}
    days = ["2026-02-09", "2026-02-10", "2026-02-11"]
    with local_world.landing.create("region=NW/a.parquet") as file:
        pq.write_table(pa.table({"date": days, "total": [1.0, 2.0, 4.0]}), file)
    scheduled = Scheduled(local_world, instance, lookback=2)

    result = scheduled.run(scheduled.request("2026-02-12T06:00+00:00"))

    assert result.success
    assert partitions(result) == {"2026-02-10|NW", "2026-02-11|NW"}
    assert local_world.totals() == [2, 4]


@pytest.mark.more
def test_a_partition_that_lost_its_objects_is_not_passed_over(local_world: World, instance: dg.DagsterInstance) -> None:
    scheduled = Scheduled(local_world, instance, lookback=0)
    local_world.land(NW, sales(1))
    scheduled.run(scheduled.request("2026-02-11T13:00+00:00"))
    local_world.unland(NW)

    result = scheduled.run(scheduled.request("2026-02-11T14:00+00:00"))

    assert not result.success
    assert local_world.totals() == [1]
    assert local_world.ledger(NW)[0].status == "failed"


def test_the_cron_and_the_day_are_those_of_the_streams_time_zone(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options["time_zone"] = "Europe/Berlin"
    scheduled = Scheduled(local_world, instance, lookback=1)
    assert scheduled.schedule.execution_timezone == "Europe/Berlin"
    # Midnight in Berlin after the day of 25 hours.
    assert box(scheduled.request("2026-10-25T23:00+00:00")) == ("2026-10-25|NE", "2026-10-26|SW")
    other = Scheduled(local_world, instance, time_zone="America/New_York")
    assert other.schedule.execution_timezone == "America/New_York"


def test_discovered_regions_are_those_that_dagster_knows(local_world: World, instance: dg.DagsterInstance) -> None:
    local_world.options["partitions"] = PARTITIONS | {"region": {}}
    scheduled = Scheduled(local_world, instance, lookback=0)
    assert "No region is known yet" in scheduled.tick("2026-02-11T13:00+00:00").skip_message
    scheduled.instance.add_dynamic_partitions(dynamic_name("sales", "region"), ["NW", "AK"])
    assert box(scheduled.request("2026-02-11T13:00+00:00")) == ("2026-02-11|NW", "2026-02-11|AK")


def test_a_tick_outside_start_and_end_is_skipped_with_the_reason(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    skipped = Scheduled(local_world, instance).tick("2026-01-11T13:00+00:00")
    assert "date is before its start or after its end" in skipped.skip_message
