"""A stream in mode append in Dagster: ranges, checks, a schedule, sensors and automation."""

import dagster as dg
import pytest

from dev.servers.moto import moto
from lake_assets_tests.ingest.append.test_append import APPEND
from lake_assets_tests.orchestration.assets.test_landing_asset import Automated
from lake_assets_tests.orchestration.assets.test_stream_asset import metadata_of
from lake_assets_tests.orchestration.checks.check_runs import SALES, evaluations_of, run
from lake_assets_tests.orchestration.in_process import Materialize
from lake_assets_tests.orchestration.sensors.test_stream_sensor import day, key, keys_of
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["moto"]


@pytest.fixture
def local_world(local_world: World) -> World:
    """The stream adds rows."""
    local_world.options = local_world.options | APPEND
    return local_world


@pytest.mark.more
def test_a_range_adds_to_each_partition_and_shows_all_of_its_rows(materialize: Materialize, local_world: World) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1, 2), "a.parquet")
    materialize("2026-02-11|NW", "2026-02-11|SW")
    local_world.land(NW, sales(3), "b.parquet")

    shown = metadata_of(materialize("2026-02-11|NW", "2026-02-11|SW"))

    figures = {key: [values.get(name) for name in ("status", "rows", "rows_before")] for key, values in shown.items()}
    assert figures == {
        "2026-02-11|NW": ["committed", 3, 2],
        "2026-02-11|SW": ["committed", 2, 0],
    }  # by the first run, which this Dagster lacks
    assert local_world.totals() == [1, 1, 2, 2, 3]


@pytest.mark.more
def test_a_run_is_followed_by_the_checks_of_the_mode(local_world: World) -> None:
    for name in ("a", "b"):
        local_world.land(NW, sales(1), f"{name}.parquet")
        result = run(local_world, SALES, partition_key="2026-02-11|NW")
    evaluations = evaluations_of(result)
    assert result.success
    assert evaluations["appended_objects"].metadata["appended"].value == 2
    assert all(evaluation.passed for evaluation in evaluations.values())

    local_world.unland(NW, "a.parquet")
    evaluations = evaluations_of(run(local_world, SALES, partition_key="2026-02-11|NW"))

    assert {name for name, evaluation in evaluations.items() if not evaluation.passed} == {"appended_objects"}


def test_a_tick_asks_for_a_partition_with_a_new_object_and_only_that_is_added(ticks: Ticks, local_world: World) -> None:
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


@pytest.mark.more
def test_automation_adds_what_has_landed_at_any_age(local_world: World, instance: dg.DagsterInstance) -> None:
    automated = Automated(local_world, instance)
    local_world.land(NW, sales(1), "a.parquet")
    automated.requested()
    automated.observe()
    assert automated.requested() == {"2026-02-11|NW"}
    automated.materialize("2026-02-11|NW")
    local_world.land(NW, sales(2), "b.parquet")
    local_world.land(SW, sales(3), "c.parquet")

    automated.observe()
    requested = automated.requested()
    for partition_key in requested:
        automated.materialize(partition_key)

    assert requested == {"2026-02-11|NW", "2026-02-11|SW"}
    assert local_world.totals() == [1, 2, 3]
    assert automated.observe() == {}  # the landed objects are those of the newest addition
    local_world.unland(NW, "a.parquet")
    automated.observe()
    for partition_key in automated.requested():
        automated.materialize(partition_key)
    assert automated.observe() == {}
    assert local_world.totals() == [1, 2, 3]
