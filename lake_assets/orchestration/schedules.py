"""A schedule for each stream that has one in the config: refresh the newest partitions, all in one run."""

import datetime as dt
from typing import Any

import dagster as dg

from lake_assets.layout.times import TIME_TYPES
from lake_assets.orchestration.dagster_private import RANGE_END, RANGE_START, step_of
from lake_assets.orchestration.partitions import joined_key, partition_of, recent_keys
from lake_assets.orchestration.queued_runs import QueuedRuns, refresh_job
from lake_assets.streams.stream import OpenStream


def refresh_schedule(stream: OpenStream, asset: dg.AssetKey) -> dg.ScheduleDefinition | None:
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
        at, instance = context.scheduled_execution_time, context.instance
        keys = recent_keys(stream, instance, at, config.lookback)
        for name in keys:
            if not keys[name]:
                return dg.SkipReason(_why_none(stream, name, at))
        first, last = (joined_key({name: of_column[end] for name, of_column in keys.items()}) for end in (0, -1))
        ends = (partition_of(stream.config.columns, key) for key in (first, last))
        if QueuedRuns(stream, asset, instance).have(*ends):
            return dg.SkipReason("A queued run has all these partitions.")
        return dg.RunRequest(run_config=landed_only(asset), **run_range(first, last))

    return schedule


def _why_none(stream: OpenStream, column: str, at: dt.datetime) -> str:
    if stream.config.partitions[column].type in TIME_TYPES:
        return f"At {at:%Y-%m-%d %H:%M %Z} the stream's {column} is before its start or after its end."
    return (
        f"No {column} is known yet: add its values under `values` in the config, or its partitions in the UI "
        "(Backfill, Add partition); a sensor adds those that land."
    )


def run_range(first: str, last: str) -> dict[str, Any]:
    """Return the arguments of a `RunRequest` of one partition, or of all from the first key to the last."""
    return {"partition_key": first} if first == last else {"tags": {RANGE_START: first, RANGE_END: last}}


def landed_only(asset: dg.AssetKey) -> dict[str, object]:
    """Return the run config with which a run skips partitions in which nothing has landed."""
    return {"ops": {step_of(asset): {"config": {"landed_only": True}}}}
