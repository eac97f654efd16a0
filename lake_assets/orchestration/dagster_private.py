"""Everything that this package uses of Dagster and that Dagster does not document. Check it when Dagster is upgraded.

`orchestration/test_dagster_private.py` keeps such modules and attributes out of the other files.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.selector import RepositorySelector
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.definitions.temporal_context import TemporalContext
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import KeyValueStoreTable
from dagster_shared.error import SerializableErrorInfo

from lake_assets.orchestration.event_log import StepContext
from lake_assets.orchestration.partition_keys import BACKFILL, NEVER_BEGAN, step_of

__all__ = ["AssetJob", "Target"]

_BY_CODE = "DECLARED_IN_CODE"  # the status of a sensor or schedule that nobody has switched

tag_run = dg.DagsterInstance.add_run_tags  # gets the instance, the id of a run, and tags by their names

OUTPUT_WITHOUT_EVENT: Mapping[str, bool] = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Metadata of a step's output with which Dagster makes no materialization of it; Dagster sets it for observations."""


# Texts in Dagster's database


def stored_text(instance: dg.DagsterInstance, key: str) -> str | None:
    """Return the text that `store_text` has stored; None if there is none."""
    texts = instance.daemon_cursor_storage.get_cursor_values({key})
    return texts.get(key) if isinstance(texts, Mapping) else None  # in Dagster+ an error is returned, not raised


def store_text(instance: dg.DagsterInstance, key: str, text: str) -> bool:
    """Store a text in the place of an earlier one; returns whether the database has it, which is not so in Dagster+."""
    instance.daemon_cursor_storage.set_cursor_values({key: text})
    return stored_text(instance, key) == text


def delete_texts(instance: dg.DagsterInstance, pattern: str, before: str) -> None:
    """Delete the texts that `store_text` has stored, whose keys fit a pattern of SQL's LIKE and sort before a key."""
    storage, key = instance.daemon_cursor_storage, KeyValueStoreTable.c.key
    if isinstance(storage, SqlRunStorage):
        with storage.connect() as connection:
            connection.execute(KeyValueStoreTable.delete().where(key.like(pattern), key < before))


# Checks in a run


def planned(context: StepContext, asset: dg.AssetKey) -> tuple[set[str], bool]:
    """Return the names of an asset's checks that a run has planned, and whether it also materializes assets."""
    graph = context.job_def.asset_layer.asset_graph
    return {key.name for key in graph.asset_check_keys if key.asset_key == asset}, bool(graph.materializable_asset_keys)


# Runs


def run_events(instance: dg.DagsterInstance, run_id: str, *kinds: dg.DagsterEventType) -> list[dg.EventLogEntry]:
    """Return the events of a run of some kinds, in their order."""
    return [*instance.all_logs(run_id, of_type=set(kinds))]


def take_over(context: dg.SensorEvaluationContext, names: Mapping[str, str]) -> list[str]:
    """Give sensors and schedules, by earlier names of the same code location, the state of these, with the cursor.

    What a person has switched under the new name stays. The earlier state is deleted when a later call sees that the
    new one is there: a tick that the daemon is about to begin may put the one from before in its place. Returns the new
    names of those that have another state now.
    """
    instance, taken = context.instance, list[str]()
    location = getattr(context.code_location_origin, "location_name", "")
    place = RepositorySelector(location_name=location, repository_name=context.repository_name or "").selector_id
    states = {state.name: state for state in instance.all_instigator_state(repository_selector_id=place)}
    for earlier, name in names.items():
        if (before := states.get(earlier)) is None:
            continue
        if (now := states.get(name)) is None or now.status.name == _BY_CODE:
            origin = before.origin.repository_origin.get_instigator_origin(name) if now is None else now.origin
            store = instance.add_instigator_state if now is None else instance.update_instigator_state
            states[name] = store(before._replace(origin=origin))
            taken.append(name)
        if (now is not None and now.status.name != _BY_CODE) or before.status.name == _BY_CODE:
            instance.delete_instigator_state(before.instigator_origin_id, before.selector_id)
    return taken


def fail_run(instance: dg.DagsterInstance, run: dg.DagsterRun, why: str) -> None:
    """Mark a run as failed, which Dagster then retries by its `run_retries`."""
    instance.report_run_failed(run, why)


def cancel_run(instance: dg.DagsterInstance, run: dg.DagsterRun, why: str, assets: Collection[dg.AssetKey]) -> None:
    """Report a run that has ended as cancelled, so that Dagster does not show its partitions of assets as failed."""
    tag_run(instance, run.run_id, {NEVER_BEGAN: "true"})
    instance.report_run_canceled(run, why)
    instance.wipe_asset_cached_status(list(assets))  # has the partitions that were shown as failed


# Results of checks


def newest_result(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, partition: str | None
) -> dg.AssetCheckEvaluation | None:
    """Return the newest result of a check for a partition, or for the whole table if None."""
    newest = instance.event_log_storage.get_asset_check_execution_history(
        check, 1, status={Status.SUCCEEDED, Status.FAILED}, partition_filter=PartitionKeyFilter(key=partition)
    )
    return newest[0].evaluation if newest else None


def failing_partitions(instance: dg.DagsterInstance, check: dg.AssetCheckKey, *, of_newest: bool) -> list[str]:
    """Return the keys of the partitions whose newest result of a check is a failure.

    With `of_newest` failures from before the partition's newest materialization, which Dagster does not show, are left
    out.
    """
    infos = instance.event_log_storage.get_asset_check_partition_info([check])
    failed = [info for info in infos if info.latest_execution_status == Status.FAILED and info.partition_key]
    return [info.partition_key or "" for info in failed if info.is_current or not of_newest]


def newest_ids(instance: dg.DagsterInstance, asset: dg.AssetKey, keys: set[str]) -> list[int]:
    """Return the storage ids of the newest materializations of keys; of all keys if none is named."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    return [*instance.event_log_storage.get_latest_storage_id_by_partition(asset, kind, keys).values()]


def plan_again(instance: dg.DagsterInstance, asset: dg.AssetKey, keys: list[str], run: dg.DagsterRun | None) -> None:
    """Store newer plans of keys that a run which is about to fail has planned; of no run if None.

    Dagster calls a key failed if its newest plan is of a failed run, and no materialization followed. With a plan of no
    run it keeps the status from before; with one of the run it is failed, though some of its partitions are committed.
    """
    run_id, job = (RUNLESS_RUN_ID, RUNLESS_JOB_NAME) if run is None else (run.run_id, run.job_name)
    for key in keys:
        plan = AssetMaterializationPlannedData(asset, partition=key)
        event = dg.DagsterEvent.build_asset_materialization_planned_event(job, step_of(asset), plan)
        instance.report_dagster_event(event, run_id)


def planned_keys(instance: dg.DagsterInstance, asset: dg.AssetKey, run_id: str) -> set[str]:
    """Return the keys whose newest plan is of this run, and that were not materialized since."""
    storage = instance.event_log_storage
    plans = storage.get_latest_asset_partition_materialization_attempts_without_materializations(asset)
    return {key for key, (planned_by, _) in plans.items() if planned_by == run_id}


def leave_backfill(context: StepContext, asset: dg.AssetKey, keys: Sequence[str]) -> bool:
    """Take partitions that have nothing to materialize out of the targets of the run's backfill, if it is of one.

    Otherwise Dagster ends the backfill as failed, because they never get a materialization. Partitions downstream that
    depend on no other targets of the asset are taken out too: Dagster would launch them for nothing, or, if the asset
    materializes no partition at all, end them as failed. It knows those of this code location only.

    Dagster's daemon reads a backfill and writes it back a moment later, so a write may be lost: call this until it
    returns True: the backfill does not target the keys, as read before this call's write.
    """
    instance, run = context.instance, context.run
    backfill = instance.get_backfill(run.tags[BACKFILL]) if keys and BACKFILL in run.tags else None
    data = backfill.asset_backfill_data if backfill and backfill.status.name == "REQUESTED" else None
    target = data and data.target_subset.partitions_subsets_by_asset_key.get(asset)
    subset = target and target.empty_subset().with_partition_keys(key for key in keys if key in target)
    if not (backfill and data and subset):
        return True
    left = AssetGraphSubset.create_empty_subset()._replace(partitions_subsets_by_asset_key={asset: subset})
    now = TemporalContext(effective_dt=datetime.now(UTC), last_event_id=None)
    view = AssetGraphView(temporal_context=now, instance=instance, asset_graph=context.repository_def.asset_graph)
    left |= _dependents(view, asset, left - data.materialized_subset, data.target_subset)
    remaining = data._replace(target_subset=data.target_subset - left, requested_subset=data.requested_subset - left)
    instance.update_backfill(backfill._replace(asset_backfill_data=remaining))
    return False


def _dependents(
    view: AssetGraphView, asset: dg.AssetKey, left: AssetGraphSubset, targets: AssetGraphSubset
) -> AssetGraphSubset:
    """Return the targets downstream that depend on partitions of an asset that are left out, and on no other target."""
    dependents = AssetGraphSubset.create_empty_subset()
    gone, others = (view.get_entity_subset_from_asset_graph_subset(subset, asset) for subset in (left, targets - left))
    for child in view.asset_graph.get(asset).child_keys & targets.asset_keys - {asset}:
        only = view.compute_child_subset(child, gone).compute_difference(view.compute_child_subset(child, others))
        target = view.get_entity_subset_from_asset_graph_subset(targets, child)
        of_child = AssetGraphSubset.from_entity_subsets([only.compute_intersection(target)])
        if not of_child.is_empty:
            dependents |= of_child | _dependents(view, child, of_child, targets)
    return dependents


class UserFailure(DagsterUserCodeProcessError, dg.Failure):  # noqa: N818 - named as its base is
    """The failure of a step by an error whose text says all, without a retry.

    Dagster shows the text alone, and metadata below it. It takes the failure for one of another process, which has said
    what is to be shown, and so stores neither the traceback of its own code nor the name of this class.
    """

    __module__ = "builtins"  # a retried step shows the class before the text, and the module of others

    def __init__(self, text: str, metadata: Mapping[str, dg.MarkdownMetadataValue] | None = None) -> None:
        shown = [SerializableErrorInfo(text, stack=[], cls_name=None)]
        super().__init__(text, metadata, allow_retries=False, user_code_process_error_infos=shown)  # type: ignore[no-untyped-call]
