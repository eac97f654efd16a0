"""The checks of a stream in Dagster: after a refresh, by themselves, and blocking."""

from typing import Any

import dagster as dg
import pytest

from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets_tests.world import NW, SW, World, sales

PARTITIONS = {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": "2026-02-11", "end": "2026-02-12"}}
POSITIVE = {"positive": "SELECT * FROM refreshed WHERE total <= 0"}

pytestmark = pytest.mark.usefixtures("spark")


def run(world: World, selection: dg.AssetSelection, *downstream: dg.AssetsDefinition, **options: Any) -> Any:
    """One run of the implicit job over a selection, as the UI starts it."""
    world.options = {"partitions": PARTITIONS} | world.options
    own = build_definitions(world.config, pyspark_resource(world.config.spark))
    definitions = dg.Definitions.merge(own, dg.Definitions(assets=list(downstream)))
    repository = definitions.get_repository_def()
    job = repository.get_implicit_global_asset_job_def().get_subset(
        asset_selection=set(selection.resolve(repository.asset_graph)),
        asset_check_selection=selection.resolve_checks(repository.asset_graph),
    )
    return job.execute_in_process(raise_on_error=False, **options)


SALES = dg.AssetSelection.assets("sales")


def test_a_refresh_is_followed_by_the_checks_of_its_partition(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "skip": ["schema"]}}
    local_world.land(NW, sales(1, 2))

    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    assert result.success
    evaluations = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert set(evaluations) == {"row_counts", "landing_zone", "no_null_partition", "ledger", "data_files", "positive"}
    assert all(e.passed for e in evaluations.values())
    assert evaluations["row_counts"].metadata["partitions"].value == 1


def test_checks_alone_look_at_the_whole_table(local_world: World) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
        local_world.ingest(text)

    result = run(local_world, dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "row_counts")))

    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed
    assert evaluation.metadata["partitions"].value == 2


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_blocking_check_that_fails_keeps_what_is_downstream_from_running(
    local_world: World, is_blocking: bool
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"] if is_blocking else []}}
    local_world.land(NW, sales(1, -1))

    @dg.asset(deps=["sales"])
    def downstream() -> None: ...

    result = run(local_world, SALES | dg.AssetSelection.assets("downstream"), downstream, partition_key="2026-02-11|NW")

    (evaluation,) = (e for e in result.get_asset_check_evaluations() if e.check_name == "positive")
    assert not evaluation.passed
    assert "rows" in evaluation.metadata
    ran = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert ran == ({"sales"} if is_blocking else {"sales", "downstream"})
    # The rows were committed all the same: a check comes after the refresh.
    assert local_world.totals() == [-1, 1]
