"""Everything that this package uses of Dagster and that Dagster does not document. Check it when Dagster is upgraded.

`orchestration/test_dagster_private.py` keeps such modules and attributes out of the other files.
"""

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.data_version import DATA_VERSION_TAG
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.definitions.temporal_context import TemporalContext
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import AssetMaterializationPlannedData, StepMaterializationData
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckPartitionInfo
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import KeyValueStoreTable
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster_pyspark import LazyPySparkResource
from dagster_shared.error import SerializableErrorInfo
from dagster_shared.record import replace
from dagster_spark.utils import flatten_dict

__all__ = ["DATA_VERSION_TAG", "AssetJob", "Target"]

PARTITION = "dagster/partition"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
"""Tags of a run: its partition, and the first and last key of its range."""

BACKFILL = "dagster/backfill"  # a tag of a run: the backfill that requested it

OWN_JOB = "__ASSET_JOB"  # the name of the job that Dagster makes of all assets

StepContext = dg.AssetExecutionContext | dg.OpExecutionContext
"""The context of a step: of an asset, or of an op."""

OUTPUT_WITHOUT_EVENT: Mapping[str, bool] = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Metadata of a step's output with which Dagster makes no materialization of it; Dagster sets it for observations."""

Begin = Callable[[], AbstractContextManager[sqlalchemy.Connection]]
"""Begins a transaction of a database of Dagster."""

_UNDER_WAY = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)
_EVENTS = 500  # in one query: SQLite has a limit of parameters
_PLANS = 100  # newest plans of one check and partition, that are searched for one of a run under way


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


# Definitions


def step_of(asset: dg.AssetKey) -> str:
    """Return the name of an asset's step: its key with two underscores between the parts."""
    return asset.to_python_identifier()


def user_text(asset: dg.AssetKey) -> str:
    """Return an asset's key as the UI writes it."""
    return asset.to_user_string()


def output_of(check: dg.AssetCheckSpec) -> str:
    """Return the name of a check's output in its step."""
    return check.get_python_identifier()


def instance_in(folder: Path) -> dg.DagsterInstance:
    """Return the instance of the dagster.yaml in this folder, as `DagsterInstance.get` does with $DAGSTER_HOME.

    Raises DagsterError if the file is not valid.
    """
    return dg.DagsterInstance.from_config(os.fspath(folder))


def spark_settings(pyspark: LazyPySparkResource) -> dict[str, str]:
    """Return the settings of a Spark resource by their full names, such as `spark.sql.session.timeZone`."""
    return dict(flatten_dict(pyspark.spark_config))  # type: ignore[no-untyped-call]


# The run that is under way


def keys_of_run(context: dg.AssetCheckExecutionContext) -> Sequence[str] | None:
    """Return the partition keys that a run of checks was launched for; None if it was launched without partitions."""
    of_partitions = any(tag == RANGE_START or tag.startswith(PARTITION) for tag in context.run.tags)
    return context.op_execution_context.partition_keys if of_partitions else None


def selected_checks(context: dg.AssetCheckExecutionContext) -> set[str]:
    """Return the names of the checks that the step makes."""
    return {key.name for key in context.op_execution_context.selected_asset_check_keys}


def is_refresh(context: dg.AssetCheckExecutionContext) -> bool:
    """Return whether the run of the checks also materializes assets."""
    return bool(context.job_def.asset_layer.asset_graph.materializable_asset_keys)


def checks_in_run(context: dg.AssetExecutionContext) -> set[str]:
    """Return the names of the asset's checks that belong to the asset's run."""
    checks = context.job_def.asset_layer.asset_graph.asset_check_keys
    return {key.name for key in checks if key.asset_key == context.asset_key}


# Runs


def unfinished_runs(instance: dg.DagsterInstance) -> frozenset[str]:
    """Return the ids of the runs that have not ended."""
    return frozenset(instance.get_run_ids(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES)))


def runs_of_server(
    context: dg.SensorEvaluationContext, after: str | None = None
) -> Iterator[tuple[dg.DagsterRun, int | None, float]]:
    """Yield the runs under way of a sensor's code server, each with its process and a Unix time of that.

    They come newest first, those after a run if its id is given.

    The process is None from the request of a run, which the time is of, until the new process has said its number.
    """
    location = getattr(context.code_location_origin, "location_name", None)
    launcher = context.instance_ref and context.instance_ref.run_launcher_data
    # Other launchers set no such tag, as Dagster's daemon asks them whether a run lives. The default one sets it when
    # it asks the code server for a process, right after the run is "starting".
    is_default = launcher is not None and launcher.class_name == dg.DefaultRunLauncher.__name__
    for run in context.instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY), cursor=after):
        is_launched = is_requested(run) or (is_default and run.status == dg.DagsterRunStatus.STARTING)
        if is_launched and run.remote_job_origin and run.remote_job_origin.location_name == location:
            kinds = {dg.DagsterEventType.RUN_STARTING, dg.DagsterEventType.ENGINE_EVENT}
            begun = [(_pid(entry), entry.timestamp) for entry in context.instance.all_logs(run.run_id, of_type=kinds)]
            if begun:
                yield run, *next((event for event in begun if event[0]), begun[-1])


def is_requested(run: dg.DagsterRun) -> bool:
    """Return whether Dagster's default launcher has asked the code server for the process of a run."""
    return GRPC_INFO_TAG in run.tags


def _pid(entry: dg.EventLogEntry) -> int | None:
    """Return the process that an event of a run names; None if it names none."""
    pid = getattr(entry.get_dagster_event().event_specific_data, "metadata", {}).get("pid")
    return int(pid.text) if isinstance(pid, dg.TextMetadataValue) and pid.text else None


def fail_run(instance: dg.DagsterInstance, run_id: str, why: str) -> bool:
    """Mark a run as failed, which Dagster then retries by its `run_retries`; False if it has ended meanwhile."""
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return False
    instance.report_run_failed(run, why)
    return True


def tag_run(instance: dg.DagsterInstance, run_id: str, tag: str) -> None:
    """Add a tag to a run."""
    instance.add_run_tags(run_id, {tag: "true"})


def cancel_run(instance: dg.DagsterInstance, run: dg.DagsterRun, why: str, assets: Collection[dg.AssetKey]) -> None:
    """Report a run that has ended as cancelled, so that Dagster does not show its partitions of assets as failed."""
    instance.report_run_canceled(run, why)
    instance.wipe_asset_cached_status(list(assets))  # has the partitions that were shown as failed


def has_failed_step(instance: dg.DagsterInstance, run: dg.DagsterRun, step: str) -> bool:
    """Return whether this step of a run failed by an error of its own."""
    if run.status != dg.DagsterRunStatus.FAILURE:
        return False
    failures = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return any(entry.step_key == step for entry in failures)


# Results of checks


def newest_result(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, partition: str | None
) -> tuple[str, dg.AssetCheckEvaluation] | None:
    """Return the newest result of a check for a partition, or for the whole table if None, and the id of its run."""
    records = _history(instance, check, 1, {Status.SUCCEEDED, Status.FAILED}, PartitionKeyFilter(key=partition))
    if not records or records[0].evaluation is None:
        return None
    return records[0].run_id, records[0].evaluation


def has_result(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> bool:
    """Return whether a check was ever made, for any partition or for the whole table."""
    return bool(_history(instance, check, 1, {Status.SUCCEEDED, Status.FAILED}, None))


def runs_with_plan(instance: dg.DagsterInstance, check: dg.AssetCheckKey, partition: str | None) -> set[str]:
    """Return the ids of the runs that have planned a check and not made it."""
    # Dagster plans a check of the whole table for partitions where the run has one dimension.
    key_filter = None if partition is None else PartitionKeyFilter(key=partition)
    return {record.run_id for record in _history(instance, check, _PLANS, {Status.PLANNED}, key_filter)}


def failing_partitions(instance: dg.DagsterInstance, check: dg.AssetCheckKey, *, of_newest: bool) -> list[str]:
    """Return the keys of the partitions whose newest result of a check is a failure.

    With `of_newest` failures from before the partition's newest materialization, which Dagster does not show, are left
    out.
    """
    return [
        key
        for key, info in _newest_by_key(instance, check)
        if info.latest_execution_status == Status.FAILED and (info.is_current or not of_newest)
    ]


def partitions_without_result(instance: dg.DagsterInstance, check: dg.AssetCheckKey, run_id: str) -> list[str]:
    """Return the keys of the partitions for which this run has planned a check, as the newest run, and not made it."""
    return [
        key
        for key, info in _newest_by_key(instance, check)
        if info.latest_execution_status == Status.PLANNED and info.latest_planned_run_id == run_id
    ]


def checked_partitions(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> Iterator[str]:
    """Yield the keys of the partitions for which a check was planned or made."""
    return (key for key, _ in _newest_by_key(instance, check))


def _newest_by_key(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey
) -> Iterator[tuple[str, AssetCheckPartitionInfo]]:
    """Yield the newest execution of a check by the key of its partition."""
    for info in instance.event_log_storage.get_asset_check_partition_info([check]):
        if info.partition_key is not None:
            yield info.partition_key, info


def plans_of_runs(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, runs: Collection[str], *, by_partition: bool
) -> Mapping[str, list[str | None]]:
    """The plans of a check that these runs left without a result: by run the partition keys, None for the whole table.

    A partition that was committed since is left out, unless its newest result is of that commit: an earlier result does
    not describe it any more.
    """
    storage = instance.event_log_storage
    plans: dict[str, list[str | None]] = defaultdict(list)
    newest = storage.get_latest_asset_check_execution_by_key([check]).get(check)
    if newest is not None and newest.status == Status.PLANNED and newest.run_id in runs:
        plans[newest.run_id].append(None)
    for info in storage.get_asset_check_partition_info([check]) if by_partition else ():
        is_planned = info.latest_execution_status == Status.PLANNED and info.latest_planned_run_id in runs
        if is_planned and info.partition_key is not None and _describes_partition(instance, check, info):
            plans[info.latest_planned_run_id].append(info.partition_key)
    return plans


def _describes_partition(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, planned: AssetCheckPartitionInfo
) -> bool:
    """Return whether the newest result of a planned check describes the partition, also if it was committed since."""
    materialized = planned.latest_materialization_storage_id or 0
    if planned.latest_check_event_storage_id > materialized:
        return True
    newest = newest_result(instance, check, planned.partition_key)
    target = newest[1].target_materialization_data if newest is not None else None
    return target is not None and target.storage_id == materialized


def repeated_result(
    evaluation: dg.AssetCheckEvaluation, metadata: Mapping[str, dg.MetadataValue[Any]]
) -> dg.AssetCheckEvaluation:
    """Return the same result with more metadata; it blocks nothing."""
    return replace(evaluation, blocking=False, metadata={**evaluation.metadata, **metadata})


def store_result(
    instance: dg.DagsterInstance, run: dg.DagsterRun, step: str, evaluation: dg.AssetCheckEvaluation
) -> None:
    """Store the result of a check as one of a run that has ended."""
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
        job_name=run.job_name,
        step_key=step,
        event_specific_data=evaluation,
    )
    instance.report_dagster_event(event, run.run_id)


def store_result_of_others(instance: dg.DagsterInstance, run_id: str, evaluation: dg.AssetCheckEvaluation) -> None:
    """Store the result of a check under the run of another process, of which Dagster has no record.

    Dagster takes one result of each check and partition for a run. Without a run, it refuses a second one. Of one run,
    it would give a second one the place of the first, behind all results since; so the first one is deleted. A result
    of the whole table is of the asset's newest materialization: without that, Dagster compares times, and it stores the
    time of a result in whole seconds.
    """
    storage, checks = instance.event_log_storage, AssetCheckExecutionsTable.c
    if evaluation.partition is None and evaluation.target_materialization_data is None:
        for newest in instance.fetch_materializations(evaluation.asset_key, limit=1).records:
            target = Target(storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp)
            evaluation = replace(evaluation, target_materialization_data=target)
    event = _entry(dg.DagsterEventType.ASSET_CHECK_EVALUATION, evaluation, run_id)
    if not isinstance(storage, SqlEventLogStorage):
        storage.store_event(event)
        return
    earlier = AssetCheckExecutionsTable.delete().where(
        checks.asset_key == evaluation.asset_key.to_string(),
        checks.check_name == evaluation.check_name,
        checks.run_id == run_id,
        checks.partition.is_not_distinct_from(evaluation.partition),
    )
    # Not by `store_event`: SQLite would get a file for the run.
    with storage.index_transaction() as connection:
        connection.execute(earlier)
        insert = storage.prepare_insert_event(event)
        number = connection.execute(insert.returning(SqlEventLogStorageTable.c.id)).scalar_one()
    storage.store_asset_check_event(event, number)


def newest_materializations(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Iterable[str]
) -> Iterator[tuple[str, dg.EventLogRecord]]:
    """Yield the key and the newest materialization of each partition that has one."""
    if not (wanted := set(partitions)):
        return  # Dagster would return those of all partitions
    newest = instance.event_log_storage.get_latest_storage_id_by_partition(
        asset, dg.DagsterEventType.ASSET_MATERIALIZATION, wanted
    )
    ids = list(newest.values())
    for start in range(0, len(ids), _EVENTS):
        some = dg.AssetRecordsFilter(asset, storage_ids=ids[start : start + _EVENTS])
        for record in instance.fetch_materializations(some, limit=_EVENTS).records:
            if record.partition_key is not None:
                yield record.partition_key, record


# Events of no run


def store_materializations(instance: dg.DagsterInstance, materializations: Sequence[dg.AssetMaterialization]) -> None:
    """Store materializations of one asset that belong to no run, as `report_runless_asset_event` does it with one.

    PostgreSQL gets one statement for all. Dagster's SQLite storage has nothing for several events: it opens both of its
    databases for each. Here it gets the rows of all in a transaction of each database, as Dagster writes those of one.
    """
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    events = [_entry(kind, StepMaterializationData(each)) for each in materializations]
    storage = instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        storage.store_event_batch(events)
        return
    insert = storage.prepare_insert_event_batch(events)
    with storage.run_connection(RUNLESS_RUN_ID) as of_run:
        of_run.execute(insert)
    with storage.index_transaction() as of_all:
        # SQLite returns them in any order, and has counted them in that of the events.
        ids = sorted(of_all.execute(insert.returning(SqlEventLogStorageTable.c.id)).scalars().all())
        storage._store_asset_event_tags(of_all, events, ids)  # noqa: SLF001
        storage._store_asset_event(of_all, events[-1], ids[-1])  # noqa: SLF001


def cancel_checks(
    instance: dg.DagsterInstance, asset: dg.AssetKey, run_id: str, partitions: Sequence[str] | None = None
) -> None:
    """Delete a run's plans to check partitions that have nothing to check. Dagster would show them as skipped.

    Without partitions, all that the run has not checked, and the whole table.
    """
    storage, checks = instance.event_log_storage, AssetCheckExecutionsTable.c
    if not isinstance(storage, SqlEventLogStorage) or partitions == []:
        return
    plans = AssetCheckExecutionsTable.delete().where(
        checks.asset_key == asset.to_string(),
        checks.run_id == run_id,
        checks.execution_status == Status.PLANNED.value,
    )
    with storage.index_transaction() as connection:
        if partitions is None:
            connection.execute(plans)
        for start in range(0, len(partitions or ()), _EVENTS):
            connection.execute(plans.where(checks.partition.in_((partitions or ())[start : start + _EVENTS])))


def cancel_plans(instance: dg.DagsterInstance, asset: dg.AssetKey, run_id: str, partitions: Sequence[str]) -> None:
    """Let partitions of a run that is about to fail keep the status that they had before it.

    Dagster calls a partition failed if its newest plan is of a failed run and no materialization followed. A newer
    plan, without a run, does not count. A partition that another run has planned since keeps that plan. Storages of
    other classes than Dagster's own keep the run's plans.
    """
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    storage = instance.event_log_storage
    if not partitions or not isinstance(storage, SqlEventLogStorage):
        return
    newest = storage.get_latest_asset_partition_materialization_attempts_without_materializations(asset)
    partitions = [key for key in partitions if key in newest and newest[key][0] == run_id]
    # The asset's own row stays: it names the failed run as the newest one.
    for start in range(0, len(partitions), _EVENTS // 10):
        some = partitions[start : start + _EVENTS // 10]
        insert = storage.prepare_insert_event_batch(
            [_entry(kind, AssetMaterializationPlannedData(asset, partition=key)) for key in some]
        )
        with storage.index_connection() as connection:
            connection.execute(insert)


def renew_plans(
    instance: dg.DagsterInstance, asset: dg.AssetKey, run: dg.DagsterRun, partitions: Sequence[str]
) -> None:
    """Let keys of a run that is about to fail be shown as failed, though it has materialized some of their partitions.

    Dagster calls a key failed if its newest plan is of a failed run and no materialization followed.
    """
    for key in partitions:
        data = AssetMaterializationPlannedData(asset, partition=key)
        event = dg.DagsterEvent.build_asset_materialization_planned_event(run.job_name, step_of(asset), data)
        instance.report_dagster_event(event, run.run_id)


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
    is_open = backfill is not None and backfill.status == BulkActionStatus.REQUESTED
    data = backfill.asset_backfill_data if backfill is not None and is_open else None
    target = None if data is None else data.target_subset.partitions_subsets_by_asset_key.get(asset)
    there = [] if target is None else [key for key in keys if key in target]
    if backfill is None or data is None or target is None or not there:
        return True
    subset = target.empty_subset().with_partition_keys(there)
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
    found = AssetGraphSubset.create_empty_subset()
    gone, others = (view.get_entity_subset_from_asset_graph_subset(each, asset) for each in (left, targets - left))
    for child in view.asset_graph.get(asset).child_keys & targets.asset_keys - {asset}:
        only = view.compute_child_subset(child, gone).compute_difference(view.compute_child_subset(child, others))
        target = view.get_entity_subset_from_asset_graph_subset(targets, child)
        of_child = AssetGraphSubset.from_entity_subsets([only.compute_intersection(target)])
        if not of_child.is_empty:
            found |= of_child | _dependents(view, child, of_child, targets)
    return found


class UserFailure(DagsterUserCodeProcessError, dg.Failure):  # noqa: N818 - named as its base is
    """The failure of a step by an error whose text says all, without a retry.

    Dagster shows the text alone. It takes the failure for one of another process, which has said what is to be shown,
    and so stores neither the traceback of its own code nor the name of this class.

    Args:
        metadata: shown below the text.
    """

    __module__ = "builtins"  # a retried step shows the class before the text, and the module of others

    def __init__(self, text: str, metadata: Mapping[str, dg.MetadataValue[Any]] | None = None) -> None:
        shown = [SerializableErrorInfo(text, stack=[], cls_name=None)]
        super().__init__(  # type: ignore[no-untyped-call]
            text, metadata, allow_retries=False, user_code_process_error_infos=shown
        )


def event_database(instance: dg.DagsterInstance) -> Path | Begin | None:
    """Where Dagster stores events: a SQLite file, or a function that begins a transaction of a PostgreSQL database.

    None for other storages.
    """
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        return Path(storage.path_for_shard("index"))
    if not isinstance(storage, SqlEventLogStorage) or not storage.is_persistent:
        return None
    with storage.index_connection() as connection:
        return storage.index_transaction if connection.dialect.name == "postgresql" else None


def _entry(
    kind: dg.DagsterEventType,
    data: StepMaterializationData | AssetMaterializationPlannedData | dg.AssetCheckEvaluation,
    run_id: str = RUNLESS_RUN_ID,
) -> dg.EventLogEntry:
    event = dg.DagsterEvent(event_type_value=kind.value, event_specific_data=data, job_name=RUNLESS_JOB_NAME)
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None,
        level=logging.INFO,
        user_message="",
        run_id=run_id,
        timestamp=datetime.now(UTC).timestamp(),
        job_name=RUNLESS_JOB_NAME,
        dagster_event=event,
    )


def _history(
    instance: dg.DagsterInstance,
    check: dg.AssetCheckKey,
    limit: int,
    status: set[Status],
    partition_filter: PartitionKeyFilter | None,
) -> Sequence[AssetCheckExecutionRecord]:
    """Return the newest executions of a check with one of these states."""
    return instance.event_log_storage.get_asset_check_execution_history(
        check, limit, status=status, partition_filter=partition_filter
    )
