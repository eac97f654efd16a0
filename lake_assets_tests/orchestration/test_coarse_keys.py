"""Dagster's keys with many partitions each: a month of a region, whose run takes its days."""

import datetime as dt
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.api.stream import open_stream
from lake_assets.config.models import LakeConfig
from lake_assets.errors import PartitionError
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.dagster_private import newest_result
from lake_assets.orchestration.partition_keys import StreamKeys, keys_of
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.sensors.sync import sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.assets.test_landing_asset import Automated
from lake_assets_tests.orchestration.in_process import failure_of
from lake_assets_tests.orchestration.test_queued_runs import queue
from lake_assets_tests.orchestration.test_stream_schedules import Scheduled, box
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import World, sales

ASSET = dg.AssetKey("sales")
NW_2, SW_2 = "2026-02|NW", "2026-02|SW"
BY_MONTH = {"partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-15", "keys": "month"}}}


def day(number: int, region: str = "NW") -> str:
    return f"region={region},date=2026-02-{number:02}"


@pytest.fixture(autouse=True)
def by_month(local_world: World) -> World:
    """A stream whose keys are months of regions."""
    local_world.options |= BY_MONTH
    return local_world


def run(world: World, instance: dg.DagsterInstance, key: str, **config: Any) -> dg.ExecuteInProcessResult:
    """A run of a key, with its checks."""
    definitions = build_definitions(world.config, pyspark_resource(world.config.spark))
    for name in keys_of(world.stream).dynamic.values():
        instance.add_dynamic_partitions(name, [key.partition("|")[2]])
    return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key=key,
        run_config={"ops": {"sales": {"config": config}}},
        asset_selection=[ASSET],
        raise_on_error=False,
    )


def materialized(instance: dg.DagsterInstance) -> list[tuple[str | None, str]]:
    """The key and the partition of each materialization, oldest first."""
    records = instance.fetch_materializations(ASSET, limit=100).records[::-1]
    events = [record.asset_materialization for record in records if record.asset_materialization]
    return [(event.partition, str(event.metadata["partition"].value)) for event in events]


def observed(instance: dg.DagsterInstance) -> list[str]:
    """The partitions of the observations, oldest first."""
    records = instance.fetch_observations(ASSET, limit=100).records[::-1]
    events = [record.asset_observation for record in records if record.asset_observation]
    return [str(event.metadata["partition"].value) for event in events]


def status(world: World, instance: dg.DagsterInstance, key: str) -> str | None:
    definition = keys_of(world.stream).definition
    statuses = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations
    if key in instance.get_materialized_partitions(ASSET) and key not in statuses(ASSET):
        return "materialized"
    of_key = instance.get_status_by_partition(ASSET, [key], definition) or {}
    return value.value if (value := of_key.get(key)) else None


def check(instance: dg.DagsterInstance, name: str, key: str) -> dg.AssetCheckEvaluation:
    """The newest result of a check for a key."""
    newest = newest_result(instance, dg.AssetCheckKey(ASSET, name), key)
    assert newest is not None
    return newest[1]


def test_a_sensor_asks_for_a_month_whose_run_commits_each_changed_day_by_itself(
    local_world: World, ticks: Ticks
) -> None:
    local_world.options["sensor"] |= {"group_runs": 1}
    for text in (day(11), day(12), day(11, "SW")):
        local_world.land(text, sales(1))

    requests = ticks.tick()
    assert {request.partition_key for request in requests} == {NW_2, SW_2}
    assert all(result.success for result in ticks.run(requests))
    assert sorted(row.load_partition for row in local_world.ledger() if row.status == "committed") == [
        "region=NW/date=2026-02-11",
        "region=NW/date=2026-02-12",
        "region=SW/date=2026-02-11",
    ]
    assert sorted(materialized(ticks.instance)) == [
        (NW_2, "region=NW/date=2026-02-11"),
        (NW_2, "region=NW/date=2026-02-12"),
        (SW_2, "region=SW/date=2026-02-11"),
    ]
    assert not ticks.tick()

    local_world.land(day(12), sales(2), "late.parquet")
    (request,) = ticks.tick()
    assert request.partition_key == NW_2
    ticks.run([request])
    assert materialized(ticks.instance)[3:] == [(NW_2, "region=NW/date=2026-02-12")]
    assert len([row for row in local_world.ledger() if row.status == "committed"]) == 4
    assert not observed(ticks.instance)

    local_world.land(day(13), sales(3))
    local_world.land(day(11), sales(4), "late.parquet")
    assert [request.partition_key for request in ticks.tick()] == [NW_2]  # one run for both days


@pytest.mark.more
def test_a_run_of_an_unchanged_month_has_one_observation_of_its_newest_commit(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    for number in (11, 12, 13):
        local_world.land(day(number), sales(number))
    assert run(local_world, instance, NW_2).success
    assert run(local_world, instance, NW_2).success

    assert len(materialized(instance)) == 3
    assert observed(instance) == ["region=NW/date=2026-02-13"]


@pytest.mark.more
def test_the_run_of_a_month_fails_with_one_day_and_the_retry_ends_that(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.land(day(11), sales(1))
    local_world.land(day(12), b"no parquet")

    failed = run(local_world, instance, NW_2)

    assert not failed.success
    assert "region=NW/date=2026-02-12" in failure_of(failed)
    assert materialized(instance) == [(NW_2, "region=NW/date=2026-02-11")]
    assert observed(instance) == ["region=NW/date=2026-02-12"]
    assert status(local_world, instance, NW_2) == "FAILED"
    assert not check(instance, "last_run", NW_2).passed
    assert "region=NW/date=2026-02-12" in str(check(instance, "last_run", NW_2).description)

    local_world.land(day(12), sales(2))
    assert run(local_world, instance, NW_2).success
    assert materialized(instance)[1:] == [(NW_2, "region=NW/date=2026-02-12")]
    assert status(local_world, instance, NW_2) == "materialized"
    assert check(instance, "last_run", NW_2).passed


@pytest.mark.more
def test_a_result_of_some_days_keeps_the_failures_of_the_others(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    positive = "SELECT region, date, total FROM refreshed WHERE total < 0"
    local_world.options["checks"] = {"sql": {"positive": positive}}
    local_world.land(day(11), sales(-1))
    local_world.land(day(12), sales(1))
    run(local_world, instance, NW_2)
    assert not check(instance, "positive", NW_2).passed

    local_world.land(day(12), sales(2))
    run(local_world, instance, NW_2, partitions=["date=2026-02-12"])
    kept = check(instance, "positive", NW_2)
    assert not kept.passed
    assert "region=NW/date=2026-02-11" in str(kept.description)

    local_world.land(day(11), sales(3))
    run(local_world, instance, NW_2, partitions=["date=2026-02-11"])
    assert check(instance, "positive", NW_2).passed


@pytest.mark.more
def test_commits_of_the_command_line_are_reported_once_each_with_the_key_of_their_month(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    for number in (11, 12):
        local_world.commit(day(number), number)
    specs = specs_of(local_world.stream)

    first, again = sync_stream(specs, instance), sync_stream(specs, instance)

    assert first.reported == [NW_2, NW_2]
    assert (list(again.reported), again.known) == ([], 2)
    assert materialized(instance) == [(NW_2, f"region=NW/date=2026-02-{number}") for number in (11, 12)]
    assert instance.get_dynamic_partitions("sales_region") == ["NW"]

    local_world.commit(day(11), 5)
    assert sync_stream(specs, instance).reported == [NW_2]
    assert materialized(instance)[2:] == [(NW_2, "region=NW/date=2026-02-11")]


@pytest.mark.more
def test_a_schedule_asks_for_the_months_of_its_days(local_world: World, instance: dg.DagsterInstance) -> None:
    dates = BY_MONTH["partitions"]["date"]
    local_world.options["partitions"] = {"region": {"values": ["NW", "SW"]}, "date": dates}
    scheduled = Scheduled(local_world, instance, lookback=3)

    assert box(scheduled.request("2026-02-02T12:00+00:00")) == ("2026-01|NW", "2026-02|SW")
    local_world.land("region=SW,date=2026-01-20", sales(1))
    assert scheduled.run(scheduled.request("2026-02-02T12:00+00:00")).success
    assert materialized(scheduled.instance) == [("2026-01|SW", "region=SW/date=2026-01-20")]


@pytest.mark.more
def test_automation_refreshes_the_months_with_new_objects(local_world: World, instance: dg.DagsterInstance) -> None:
    local_world.options["partitions"] = {"region": {"values": ["NW", "SW"]}, "date": BY_MONTH["partitions"]["date"]}
    Path(local_world.source["path"]).mkdir()
    automated = Automated(local_world, instance)
    assert (automated.observe(), automated.requested()) == ({}, set())
    for number in (11, 12):
        local_world.land(day(number), sales(number))

    ((key, first),) = automated.observe().items()
    assert key == NW_2
    assert automated.requested() == {NW_2}
    automated.materialize(NW_2)
    assert (automated.observe(), automated.requested()) == ({}, set())

    local_world.land(day(12), sales(3), "late.parquet")
    ((key, second),) = automated.observe().items()
    assert (key, automated.requested()) == (NW_2, {NW_2})
    assert first != second


@pytest.mark.more
def test_an_asset_downstream_reads_all_days_of_its_month(local_world: World, instance: dg.DagsterInstance) -> None:
    local_world.options["partitions"]["region"] = {"values": ["NW", "SW"]}
    for number in (11, 12):
        local_world.commit(day(number), number)
    local_world.commit("region=NW,date=2026-01-20", 20)
    seen: list[list[float]] = []

    @dg.asset(partitions_def=keys_of(local_world.stream).definition, ins={"sales": dg.AssetIn("sales")})
    def revenue(sales: Any) -> None:
        seen.append(sorted(sales["total"].to_pylist()))

    definitions = dg.Definitions.merge(build_definitions(local_world.config), dg.Definitions(assets=[revenue]))
    job = definitions.resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=instance, partition_key=NW_2, asset_selection=[revenue.key])

    assert seen == [[11, 12]]


@pytest.mark.more
def test_a_restore_takes_a_partition_and_its_materialization_has_the_key(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    snapshot = local_world.commit(day(11), 1).snapshot_id
    local_world.commit(day(11), 2)
    job = build_definitions(local_world.config).resolve_job_def("restore_sales")

    def restore(partition: str) -> dg.ExecuteInProcessResult:
        config = {"partition": partition, "snapshot": snapshot}
        options = {"ops": {"restore_partition_of_sales": {"config": config}}}
        return job.execute_in_process(options, instance=instance, raise_on_error=False)

    assert "has 28 partitions" in failure_of(restore(NW_2))
    assert restore(day(11)).success
    assert materialized(instance) == [(NW_2, "region=NW/date=2026-02-11")]


def test_a_month_in_the_queue_is_not_asked_for_again(local_world: World, ticks: Ticks) -> None:
    local_world.land(day(11), sales(1))
    (request,) = ticks.tick()
    queue(ticks, request)

    local_world.land(day(12), sales(2))

    assert not ticks.tick()


@pytest.fixture
def partitions_made(monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """All partitions that Python makes within the test."""
    made: list[Partition] = []
    check = Partition.__post_init__

    def note(partition: Partition) -> None:
        made.append(partition)
        check(partition)

    monkeypatch.setattr(Partition, "__post_init__", note)
    return made


def test_a_million_partitions_are_forty_thousand_keys_and_none_of_them_is_made(
    local_world: World, ticks: Ticks, partitions_made: list[Partition]
) -> None:
    start = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=999)
    local_world.options["partitions"] = {
        "region": {"values": [f"r{number:04}" for number in range(1000)]},
        "date": {"type": "date", "start": start.isoformat(), "keys": "month"},
    }
    definition = keys_of(local_world.stream).definition
    assert isinstance(definition, dg.MultiPartitionsDefinition)
    assert 33_000 <= definition.get_num_partitions() <= 40_000
    local_world.land(f"region=r0007,date={start}", sales(1))
    local_world.land(f"region=r0999,date={start + dt.timedelta(days=998)}", sales(1))
    partitions_made.clear()

    requests = ticks.tick()  # builds the definitions too

    assert len(requests) == 2
    assert len(partitions_made) < 100


JANUARY = {"start": "2026-01-15", "end": "2026-03-10"}


def keys_with(**column: str) -> StreamKeys:
    """The keys of a stream with one column `date`."""
    stream = {"source": "landing", "destination": {"table": "sales"}, "partitions": {"date": column}}
    lake = {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "data"}
    document = {"lakes": {"test": lake}, "streams": {"sales": stream}}
    return keys_of(open_stream(LakeConfig.model_validate(document), "sales"))


@pytest.mark.parametrize(
    ("column", "first", "number", "key", "values"),
    [
        (JANUARY | {"type": "date", "keys": "month"}, "2026-01", 17, "2026-02", ("2026-02-01", "2026-02-28")),
        (JANUARY | {"type": "date", "keys": "year"}, "2026", 55, "2026", ("2026-01-15", "2026-03-10")),
        (JANUARY | {"type": "date", "keys": "week"}, "2026-W03-1", 4, "2026-W07-1", ("2026-02-09", "2026-02-15")),
        (JANUARY | {"type": "hour", "keys": "day"}, "2026-01-15", 24, "2026-02-11", ("2026-02-11-00", "2026-02-11-23")),
        (
            {"type": "week", "start": "2020-12-01", "end": "2021-03-10", "keys": "year"},
            *("2020", 5, "2021", ("2021-W01", "2021-W10")),
        ),
    ],
)
def test_a_key_has_the_partitions_of_its_time_within_start_and_end(
    column: dict[str, str], first: str, number: int, key: str, values: tuple[str, str]
) -> None:
    keys = keys_with(**column)

    assert keys.definition.get_partition_keys()[0] == first
    assert len(keys.partitions(first)) == number
    of_key = keys.partitions(key)
    assert tuple(str(partition) for partition in (of_key[0], of_key[-1])) == tuple(f"date={value}" for value in values)
    assert {keys.of(partition) for partition in of_key} == {key}


def test_a_key_of_another_form_is_refused() -> None:
    with pytest.raises(PartitionError, match="is not of type month"):
        keys_with(**JANUARY, type="date", keys="month").partitions("2026-2")
