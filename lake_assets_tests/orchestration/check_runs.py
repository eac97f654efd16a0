"""Dagster runs of a stream with its checks, and the results that Dagster keeps."""

from typing import Any

import dagster as dg

from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets_tests.orchestration.instances import in_memory
from lake_assets_tests.world import World

PARTITIONS = {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": "2026-02-11", "end": "2026-02-12"}}
POSITIVE = {"positive": "SELECT * FROM refreshed WHERE total <= 0"}
SALES = dg.AssetSelection.assets("sales")
BOTH = {
    "tags": {
        "dagster/asset_partition_range_start": "2026-02-11|NW",
        "dagster/asset_partition_range_end": "2026-02-11|SW",
    }
}


def run(world: World, selection: dg.AssetSelection, *downstream: dg.AssetsDefinition, **options: Any) -> Any:
    """One run of the implicit job over a selection, as the UI starts it; in an empty instance if none is given."""
    world.options = {"partitions": PARTITIONS} | world.options
    own = build_definitions(world.config, pyspark_resource(world.config.spark))
    definitions = dg.Definitions.merge(own, dg.Definitions(assets=list(downstream)))
    of_selection = job(definitions, selection)
    with in_memory() as empty:
        all_options: dict[str, Any] = {"raise_on_error": False, "instance": empty} | options
        return of_selection.execute_in_process(**all_options)


def job(definitions: dg.Definitions, selection: dg.AssetSelection) -> dg.JobDefinition:
    """The implicit job over the assets and checks of a selection."""
    repository = definitions.get_repository_def()
    return repository.get_implicit_global_asset_job_def().get_subset(
        asset_selection=set(selection.resolve(repository.asset_graph)),
        asset_check_selection=selection.resolve_checks(repository.asset_graph),
    )


def evaluations_of(result: Any) -> dict[str, dg.AssetCheckEvaluation]:
    """The evaluation of each check; of a check of partitions, that of the one partition that was looked at."""
    found: dict[str, dg.AssetCheckEvaluation] = {}
    for evaluation in result.get_asset_check_evaluations():
        if evaluation.partition is not None or evaluation.check_name not in found:
            found[evaluation.check_name] = evaluation
    return found


def latest(instance: dg.DagsterInstance, name: str) -> dict[str | None, str]:
    """How each partition stands in Dagster by a check's newest result; under None, the check as a whole."""
    key = dg.AssetCheckKey(dg.AssetKey("sales"), name)
    infos = instance.event_log_storage.get_asset_check_partition_info([key])
    return {info.partition_key: info.latest_execution_status.value for info in infos}


def materialized(result: Any) -> set[tuple[str, str | None]]:
    """Asset and partition of each materialization."""
    events = [event.materialization for event in result.get_asset_materialization_events()]
    values = {(event.asset_key.to_user_string(), event.partition) for event in events}
    assert len(values) == len(events)
    return values


def latest_result(instance: dg.DagsterInstance, name: str) -> dg.AssetCheckEvaluation:
    """The newest result of a check."""
    key = dg.AssetCheckKey(dg.AssetKey("sales"), name)
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key].evaluation
    assert newest is not None
    return newest
