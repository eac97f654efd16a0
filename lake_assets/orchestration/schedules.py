"""A schedule for each stream that has one in the config: refresh the newest partitions, all in one run."""

import datetime as dt
from collections.abc import Callable, Sequence

import dagster as dg

from lake_assets.orchestration.dagster_private import RANGE_END, RANGE_START, step_of
from lake_assets.orchestration.partitions import dimension_key, dimensions, joined_key, partition_of
from lake_assets.orchestration.queued_runs import QueuedRuns, refresh_job
from lake_assets.streams.calendar import recent_texts
from lake_assets.streams.stream import OpenStream


def refresh_schedule(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.ScheduleDefinition | None:
    """Return the schedule `refresh_<stream>_schedule` with its job `refresh_<stream>`; None if the config has none.

    A tick requests one run over the current partition and the `lookback` ones before it, for every value of the other
    column. The run lists them and reads those that have changed; a partition that has never landed is skipped. A tick
    has no run key, so the next one of the same day is another run. If Dagster evaluates a tick twice, it finds the run
    by its scheduled time.
    """
    config = stream.config.schedule
    if config is None:
        return None
    job = dg.define_asset_job(
        refresh_job(stream.name),
        selection=dg.AssetSelection.assets(asset),
        description=f"Refresh the newest partitions of {stream.name}.",
    )

    @dg.schedule(
        name=f"refresh_{stream.name}_schedule",
        job=job,
        cron_schedule=config.cron,
        execution_timezone=config.time_zone or stream.config.time_zone,
        default_status=dg.DefaultScheduleStatus(config.status.upper()),
        description=f"Refreshes the newest partitions of {stream.name}; an unchanged one costs a listing.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        at = context.scheduled_execution_time
        # A context that a test builds may have no instance, and then there are no queued runs.
        queued = QueuedRuns(stream, asset.key, context.instance) if context.instance_ref else None
        return refresh_request(stream, asset.key, at, config.lookback, lambda: context.instance, queued)

    return schedule


def refresh_request(
    stream: OpenStream,
    asset: dg.AssetKey,
    at: dt.datetime,
    lookback: int,
    instance: Callable[[], dg.DagsterInstance],
    queued: QueuedRuns | None,
) -> dg.RunRequest | dg.SkipReason:
    """Return the run that refreshes the newest partitions of a stream at a moment, or the reason why there is none.

    Args:
        stream: of the partitions.
        asset: the stream's asset.
        at: the moment, with a time zone.
        lookback: number of partitions before the current one.
        instance: returns the instance that has the dynamic partitions.
        queued: the stream's runs that have not begun; None if there are none.
    """
    spans: dict[str, tuple[str, str]] = {}
    windows = recent_texts(stream.config, at, lookback)
    for name, definition in dimensions(stream).items():
        window = windows.get(name)
        if name in windows and window is None:
            return dg.SkipReason(f"At {at:%Y-%m-%d %H:%M %Z} the stream's {name} is before its start or after its end.")
        keys = [dimension_key(text) for text in window] if window else _keys(definition, instance)
        if not keys:
            return dg.SkipReason(
                f"No {name} is known yet: add its values under `values` in the config, or its partitions in the UI "
                "(Backfill, Add partition); a sensor adds those that land."
            )
        spans[name] = keys[0], keys[-1]
    first, last = (joined_key({name: span[end] for name, span in spans.items()}) for end in (0, 1))
    ends = (partition_of(stream.config.columns, key) for key in (first, last))
    if queued is not None and queued.have(*ends):
        return dg.SkipReason("A queued run has all these partitions.")
    run_config = landed_only(asset)
    if first == last:
        return dg.RunRequest(partition_key=first, run_config=run_config)
    return dg.RunRequest(tags={RANGE_START: first, RANGE_END: last}, run_config=run_config)


def landed_only(asset: dg.AssetKey) -> dict[str, object]:
    """Return the run config with which a run skips partitions in which nothing has landed."""
    return {"ops": {step_of(asset): {"config": {"landed_only": True}}}}


def _keys(definition: dg.PartitionsDefinition[str], instance: Callable[[], dg.DagsterInstance]) -> Sequence[str]:
    if isinstance(definition, dg.DynamicPartitionsDefinition):
        return definition.get_partition_keys(dynamic_partitions_store=instance())
    return definition.get_partition_keys()
