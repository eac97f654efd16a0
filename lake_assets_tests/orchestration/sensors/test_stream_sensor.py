"""The object sensor in Dagster: ticks, the runs that they ask for, and what the lake has afterwards."""

import datetime as dt
from pathlib import Path

import dagster as dg
import pytest
from pydantic import TypeAdapter

from lake_assets.base.errors import LakeAssetsError, StorageError
from lake_assets.config.sections import ObjectSensor, SensorBase, SqsSensor
from lake_assets.config.storages import Source
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partition_keys import dynamic_name
from lake_assets.orchestration.sensors.stream_sensor import interval_of
from lake_assets_tests.ingest.append.test_append import APPEND
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales

TODAY = dt.datetime.now(dt.UTC).date()


def day(region: str, days_ago: int = 0) -> str:
    return f"region={region},date={TODAY - dt.timedelta(days_ago)}"


def key(region: str, days_ago: int = 0) -> str:
    return f"{TODAY - dt.timedelta(days_ago)}|{region}"


def keys_of(requests: list[dg.RunRequest]) -> list[str]:
    return [str(request.partition_key) for request in requests]


@pytest.mark.parametrize("storage", ["local", *more(["s3"])])
def test_what_has_landed_is_in_the_lake_after_the_runs_that_a_tick_asks_for(
    request: pytest.FixtureRequest, local_world: World, ticks: Ticks, storage: str
) -> None:
    if storage == "s3":
        local_world.source = request.getfixturevalue("s3_location")()
    local_world.land(day("NW", 30), sales(1))
    local_world.land(day("N/A x"), sales(2))
    local_world.land(day("NW-2", 40), sales(4))  # SeaweedFS lists it behind NW, and S3 before

    requests = ticks.tick()

    assert sorted(keys_of(requests)) == sorted([key("NW", 30), key("N%2FA x"), key("NW-2", 40)])
    assert all(result.success for result in ticks.run(requests))
    assert local_world.totals() == [1, 2, 4]
    assert ticks.tick() == []

    local_world.land(day("NW", 30), sales(5))  # rewritten
    local_world.land(day("N/A x"), sales(3), "a.parquet")  # before the one that was seen
    late = ticks.tick()
    assert sorted(keys_of(late)) == sorted([key("NW", 30), key("N%2FA x")])
    assert all(result.success for result in ticks.run(late))
    assert local_world.totals() == [2, 3, 4, 5]
    assert ticks.tick() == []


def test_a_tick_asks_for_a_partition_with_a_new_object_and_only_that_is_added(ticks: Ticks, local_world: World) -> None:
    local_world.options |= APPEND
    for region in ("NW", "SW"):
        local_world.land(day(region), sales(1), "a.parquet")
    ticks.run(ticks.tick())
    local_world.land(day("NW"), sales(2), "b.parquet")

    requests = ticks.tick()

    assert keys_of(requests) == [key("NW")]
    assert all(result.success for result in ticks.run(requests))
    assert local_world.totals() == [1, 1, 2]
    assert local_world.ledger()[0].source_files == 1
    local_world.unland(day("NW"), "a.parquet")
    removed = ticks.tick()
    assert keys_of(removed) == [key("NW")]
    assert all(result.success for result in ticks.run(removed))
    assert ticks.tick() == []
    assert local_world.totals() == [1, 1, 2]


def test_a_run_key_has_the_partition_and_the_time_of_the_tick(ticks: Ticks, local_world: World) -> None:
    local_world.land(day("NW"), sales(1))
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)

    (request,) = ticks.tick()

    partition, _, at = str(request.run_key).partition(":")
    assert partition == key("NW")
    assert before <= dt.datetime.fromisoformat(at) <= dt.datetime.now(dt.UTC)


def test_new_regions_become_partitions_with_their_runs(ticks: Ticks, local_world: World) -> None:
    local_world.options["sensor"] |= {"group_runs": 1}
    awkward = ["N/A x", "O'Hare", "a|b", "a...b", "ünïcode"]
    for region in awkward:
        local_world.land(day(region), sales(1))

    requests = ticks.tick()

    added = ticks.instance.get_dynamic_partitions(dynamic_name("sales", "region"))
    assert sorted(added) == sorted(["N%2FA x", "O%27Hare", "a%7Cb", "a%2E%2E%2Eb", "ünïcode"])
    assert sorted(keys_of(requests)) == sorted(f"{TODAY}|{region}" for region in added)


def test_regions_that_land_together_are_one_run_with_events_of_their_own(ticks: Ticks, local_world: World) -> None:
    ticks.instance.add_dynamic_partitions(dynamic_name("sales", "region"), ["ZZ", "B"])  # Dagster's order is by age
    for region in ("A", "B", "C", "D"):
        for days_ago in (0, 1):
            local_world.land(day(region, days_ago), sales(1))

    requests = ticks.tick()

    (request,) = requests
    assert request.tags == {
        "dagster/asset_partition_range_start": key("B", 1),
        "dagster/asset_partition_range_end": key("D"),
        "dagster/sensor_name": "sales_sensor",
    }
    assert all(result.success for result in ticks.run(requests))
    changed = {key(region, days_ago) for region in ("A", "B", "C", "D") for days_ago in (0, 1)}
    assert ticks.instance.get_materialized_partitions(dg.AssetKey("sales")) == changed
    assert local_world.totals() == [1] * 8


def test_a_tick_without_news_says_so_as_its_skip_reason_and_logs_nothing(
    ticks: Ticks, local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    local_world.land(day("NW"), sales(1))
    local_world.land(day("NW", 40), sales(2))
    ticks.tick()
    assert "2 partitions changed (2 objects checked)." in capfd.readouterr().err

    data = ticks.evaluate()

    assert data.run_requests == []
    assert data.skip_message == "No changes (2 objects checked)."
    assert capfd.readouterr().err == ""


@pytest.mark.more
def test_the_first_tick_requests_only_what_is_not_in_the_lake(
    ticks: Ticks, local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    local_world.options["sensor"] |= {"group_runs": 1}
    for region in ("NW", "SW"):
        for days_ago in (0, 1, 40):
            local_world.land(day(region, days_ago), sales(1))
            local_world.ingest(day(region, days_ago))
    local_world.land(day("NW"), sales(2), "late.parquet")
    local_world.land(day("SW", 40), sales(3))  # rewritten
    local_world.land(day("SE", 40), sales(4))

    first = ticks.tick()

    assert sorted(keys_of(first)) == sorted([key("NW"), key("SW", 40), key("SE", 40)])
    assert "3 of 7 partitions are not in the lake (8 objects checked)." in capfd.readouterr().err
    assert ticks.tick() == []
    assert all(result.success for result in ticks.run(first))
    assert local_world.totals() == [1, 1, 1, 1, 1, 2, 3, 4]
    ticks.cursor = None  # reset in the UI
    assert ticks.evaluate().skip_message == "No changes (8 objects checked)."
    local_world.land(day("NW", 1), sales(5))
    assert keys_of(ticks.tick()) == [key("NW", 1)]


def test_a_first_tick_fails_with_one_sentence_if_the_lake_cannot_be_read(ticks: Ticks, local_world: World) -> None:
    local_world.commit(day("NW"), 1)
    Path(local_world.catalog["path"]).write_bytes(b"no database")

    with pytest.raises(LakeAssetsError, match="catalog") as raised:
        ticks.evaluate()

    assert raised.value.__cause__ is None


def test_an_object_of_no_partition_is_logged_once(
    ticks: Ticks, local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    Path(local_world.source["path"], "stray.parquet").write_bytes(b"x")
    message = f"below {local_world.source['path']}: stray.parquet: the path is not of the layout"

    ticks.tick()
    assert message in capfd.readouterr().err
    ticks.tick()
    assert message not in capfd.readouterr().err


def test_a_landing_zone_that_is_away_fails_the_tick_with_one_sentence(ticks: Ticks, local_world: World) -> None:
    Path(local_world.source["path"]).rmdir()

    with pytest.raises(StorageError, match="does not exist: create it") as raised:
        ticks.evaluate()

    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("sensor", "source", "seconds"),
    [
        (ObjectSensor(), "/landing", 5),
        (ObjectSensor(interval=45), "/landing", 45),
        (ObjectSensor(), "s3://bucket/landing", 30),
        (ObjectSensor(), {"type": "s3", "bucket": "landing", "endpoint": "http://127.0.0.1:8333"}, 5),
        (ObjectSensor(), {"type": "s3", "bucket": "landing", "endpoint": "http://minio:9000"}, 5),
        (ObjectSensor(), {"type": "s3", "bucket": "landing", "endpoint": "https://s3.example.internal"}, 5),
        (ObjectSensor(), {"type": "s3", "bucket": "landing", "endpoint": "https://s3.eu-central-1.amazonaws.com"}, 30),
        (ObjectSensor(), "gs://bucket/landing", 30),
        (SqsSensor(queue_url="https://sqs.eu-central-1.amazonaws.com/1/q"), "s3://bucket/landing", 5),
    ],
)
def test_a_sensor_ticks_more_often_where_its_requests_cost_little(
    sensor: SensorBase, source: object, seconds: int
) -> None:
    assert interval_of(sensor, TypeAdapter(Source).validate_python(source)) == seconds


def test_the_sensor_has_the_interval_of_the_config(local_world: World) -> None:
    local_world.options["sensor"] = {"type": "objects", "interval": 45}

    sensor = build_definitions(local_world.config).resolve_sensor_def("sales_sensor")

    assert sensor.minimum_interval_seconds == 44  # of 45: the daemon's looks are seldom exactly that far apart
    assert "landing" in (sensor.description or "")


def test_a_stream_without_a_sensor_has_none(local_world: World) -> None:
    names = [sensor.name for sensor in build_definitions(local_world.config).sensors or ()]
    assert names == ["test_sync", "test_lost_runs"]  # those of the lake
