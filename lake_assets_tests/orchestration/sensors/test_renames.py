"""A renamed stream keeps what Dagster has under its earlier name: what is on, cursors, and values of partitions."""

from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.remote_origin import (
    CodeLocationOrigin,
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
    SensorInstigatorData,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.build import build_definitions
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, SW, World

RUNNING, STOPPED, BY_CONFIG = InstigatorStatus.RUNNING, InstigatorStatus.STOPPED, InstigatorStatus.DECLARED_IN_CODE
SENSOR, SCHEDULE = "sales_sensor", "refresh_sales_schedule"
TICKING: dict[str, Any] = {"sensor": {"type": "objects"}, "schedule": "0 6 * * *"}


@pytest.fixture(autouse=True)
def no_states(instance: dg.DagsterInstance) -> None:
    assert instance.schedule_storage is not None
    instance.schedule_storage.wipe()


def place(name: str) -> CodeLocationOrigin:
    return ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name="lake_assets.definitions"), name)


def state(name: str, status: InstigatorStatus, cursor: str = "", location: str = "here") -> InstigatorState:
    """The state of a sensor or schedule that Dagster has."""
    origin = RemoteRepositoryOrigin(place(location), "__repository__").get_instigator_origin(name)
    if name.endswith("_schedule"):
        return InstigatorState(origin, InstigatorType.SCHEDULE, status, ScheduleInstigatorData("0 6 * * *", 1.0))
    return InstigatorState(origin, InstigatorType.SENSOR, status, SensorInstigatorData(cursor=cursor))


def renamed(world: World, **options: Any) -> LakeConfig:
    stream = world.document["streams"]["sales"] | TICKING | {"previously": ["till", "sales"]} | options
    return LakeConfig.model_validate(world.document | {"streams": {"orders": stream}})


def tick(config: LakeConfig, instance: dg.DagsterInstance, cursor: str | None = None) -> SensorExecutionData:
    definitions = build_definitions(config)
    with dg.SensorEvaluationContext(
        instance_ref=instance.get_ref(),
        instance=instance,
        last_tick_completion_time=None,
        last_run_key=None,
        cursor=cursor,
        repository_name="__repository__",
        repository_def=definitions.get_repository_def(),
        sensor_name="test_renames",
        code_location_origin=place("here"),
    ) as context:
        return definitions.resolve_sensor_def("test_renames").evaluate_tick(context)


def states(instance: dg.DagsterInstance, location: str = "here") -> dict[str, tuple[InstigatorStatus, str | None]]:
    """The states of a code location, and the cursors of its sensors, by name."""
    return {
        each.name: (each.status, each.sensor_instigator_data and each.sensor_instigator_data.cursor)
        for each in instance.all_instigator_state()
        if each.origin.location_name == location
    }


@pytest.mark.parametrize(
    ("earlier", "now", "then"),
    [
        pytest.param(RUNNING, None, (RUNNING, "earlier"), id="on"),
        pytest.param(STOPPED, None, (STOPPED, "earlier"), id="off"),
        pytest.param(STOPPED, BY_CONFIG, (STOPPED, "earlier"), id="off, on by config"),
        pytest.param(BY_CONFIG, BY_CONFIG, (BY_CONFIG, "earlier"), id="by config"),
        pytest.param(RUNNING, STOPPED, (STOPPED, "now"), id="switched off since"),
    ],
)
def test_a_sensor_is_on_or_off_as_under_its_earlier_name(
    local_world: World,
    instance: dg.DagsterInstance,
    earlier: InstigatorStatus,
    now: InstigatorStatus | None,
    then: tuple[InstigatorStatus, str],
) -> None:
    instance.add_instigator_state(state(SENSOR, earlier, "earlier"))
    if now is not None:
        instance.add_instigator_state(state("orders_sensor", now, "now"))
    for _ in range(2):
        tick(renamed(local_world), instance)
        assert states(instance)["orders_sensor"] == then
    assert SENSOR not in states(instance)


def test_a_state_that_a_tick_of_the_daemon_has_overwritten_is_taken_over_again(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    """A tick that begins stores the state which it read before."""
    instance.add_instigator_state(state(SENSOR, STOPPED))
    tick(renamed(local_world), instance)
    instance.update_instigator_state(state("orders_sensor", BY_CONFIG))
    tick(renamed(local_world), instance)
    tick(renamed(local_world), instance)
    assert states(instance) == {"orders_sensor": (STOPPED, "")}


def test_a_schedule_is_taken_over_and_another_code_location_keeps_what_it_has(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    instance.add_instigator_state(state(SCHEDULE, STOPPED))
    for name in (SENSOR, SCHEDULE):
        instance.add_instigator_state(state(name, RUNNING, "other", location="there"))
    messages = [tick(renamed(local_world), instance).skip_message for _ in range(2)]
    assert messages == [f"{what} taken over from earlier names." for what in ("refresh_orders_schedule", "Nothing")]
    assert states(instance) == {"refresh_orders_schedule": (STOPPED, None)}
    assert states(instance, "there") == {SENSOR: (RUNNING, "other"), SCHEDULE: (RUNNING, None)}


def test_values_of_partitions_are_taken_over_once(local_world: World, instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("sales_region", ["NW", "SW"])
    instance.add_dynamic_partitions("orders_region", ["SW", "SE"])
    first = tick(renamed(local_world), instance)
    assert instance.get_dynamic_partitions("orders_region") == ["SW", "SE", "NW"]
    instance.delete_dynamic_partition("orders_region", "NW")
    second = tick(renamed(local_world), instance, first.cursor)
    assert (second.skip_message, second.cursor) == ("Nothing taken over from earlier names.", first.cursor)
    assert instance.get_dynamic_partitions("orders_region") == ["SW", "SE"]


def test_a_name_that_another_stream_would_have_is_not_taken_from_it(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    # `shop_day` with `region`, and `shop` before with `day_region`, have the same dynamic partitions.
    instance.add_dynamic_partitions("shop_day_region", ["NW"])
    other = local_world.document["streams"]["sales"] | {"destination": {"table": "day"}}
    partitions = {"day_region": {}, "date": {"type": "date", "start": "2026-01-01"}}
    document = renamed(local_world, previously=["shop"], partitions=partitions).model_dump(exclude_unset=True)
    config = LakeConfig.model_validate(document | {"streams": document["streams"] | {"shop_day": other}})
    tick(config, instance)
    assert instance.get_dynamic_partitions("orders_day_region") == []


def test_streams_without_earlier_names_have_no_such_sensor(local_world: World) -> None:
    sensors = build_definitions(local_world.config).sensors
    assert not [sensor.name for sensor in sensors or () if sensor.name.endswith("_renames")]


@pytest.mark.parametrize(
    ("options", "asset"),
    [
        pytest.param({}, dg.AssetKey("orders"), id="name"),
        pytest.param({"previously": []}, dg.AssetKey("orders"), id="name that the config does not say"),
        pytest.param({"key_prefix": "retail"}, dg.AssetKey(["retail", "orders"]), id="name and key"),
    ],
)
def test_all_commits_are_reported_of_an_asset_with_another_name(
    local_world: World, instance: dg.DagsterInstance, options: dict[str, Any], asset: dg.AssetKey
) -> None:
    local_world.commit(NW, 1)
    local_world.commit(NW, 2, 3)
    local_world.commit(SW, 4)
    ticks = Ticks(local_world, instance, sensor="test_sync")
    ticks.tick()
    ticks.config = renamed(local_world, **options)
    ticks.tick()
    events = instance.fetch_materializations(asset, limit=10).records
    assert [event.partition_key for event in events] == ["2026-02-11|SW", "2026-02-11|NW"]
    assert instance.get_dynamic_partitions("orders_region") == ["NW", "SW"]
    metadata = events[1].asset_materialization and events[1].asset_materialization.metadata
    assert "restore orders --partition" in str(metadata)
    ticks.tick()
    assert len(instance.fetch_materializations(asset, limit=10).records) == 2
