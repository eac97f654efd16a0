"""The schedules of a stream: its newest partitions are refreshed in one run, and the batches of its buffer uploaded."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lake_assets.base.errors import LakeAssetsError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.orchestration.dagster_private import UserFailure
from lake_assets.orchestration.partition_keys import (
    RANGE_END,
    RANGE_START,
    StreamKeys,
    ValueOrder,
    joined_key,
    keys_by_dimension,
    partition_key,
)
from lake_assets.orchestration.queued_runs import LOST_SINCE, QueuedRuns, job_schedule, refresh_job, schedule_of
from lake_assets.streams.detection.run_plan import RunTarget, runs_of
from lake_assets.streams.pending import due_again
from lake_assets.streams.stream import OpenStream

MOST, RUNS = 100, 25  # partitions of a run of older ones that failed, and such runs of a tick


def refresh_schedule(stream: OpenStream, asset: dg.AssetKey) -> dg.ScheduleDefinition | None:
    """Return the schedule `refresh_<stream>_schedule` with its job `refresh_<stream>`; None if the config has none.

    A tick requests one run over the current partition and the `lookback` ones before it, for every value of the other
    column. The run lists them and reads those that have changed; a partition that has never landed is skipped. Older
    ones whose runs failed by what passes, or never began, are requested too. A tick has no run key, so the next one of
    the same day is another run. If Dagster evaluates a tick twice, it finds the run by its scheduled time.
    """
    config = stream.config.schedule
    if config is None:
        return None
    job = dg.define_asset_job(
        refresh_job(stream.name),
        selection=dg.AssetSelection.assets(asset).without_checks(),  # the asset's step makes them
        description=f"Ingest what has landed in the newest partitions of {stream.name}, and check them. "
        f"refresh_{stream.name}_schedule launches it with its partitions; launched by hand, it needs them from you.",
    )

    @dg.schedule(
        name=schedule_of(job.name),
        job=job,
        cron_schedule=config.cron,
        execution_timezone=config.time_zone or stream.config.time_zone,
        default_status=dg.DefaultScheduleStatus(config.status.upper()),
        description=f"Refreshes the newest partitions of {stream.name}; an unchanged one costs a listing.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        # A context that a test builds may have no instance, and then there are no queued runs.
        at, instance = context.scheduled_execution_time, context.instance if context.instance_ref else None
        of_stream = StreamKeys(stream)
        keys = of_stream.recent(instance, at, config.lookback)
        runs = None if instance is None else QueuedRuns(stream, asset, instance)
        older = [] if runs is None else _older_runs(context, stream, runs, keys)
        for name in keys:
            if not keys[name]:
                return older or dg.SkipReason(_why_none(stream, name, at))
        first, last = (joined_key({name: of_column[end] for name, of_column in keys.items()}) for end in (0, -1))
        if runs is not None and runs.have(*map(of_stream.cell, (first, last))):
            return older or dg.SkipReason("A queued run has all these partitions.")
        run_key = f"newest:{at.isoformat()}" if older else None  # Dagster wants one of each of several
        return [dg.RunRequest(run_key=run_key, **run_range(first, last)), *older]

    return schedule


def _older_runs(
    context: dg.ScheduleEvaluationContext, stream: OpenStream, runs: QueuedRuns, newest: Mapping[str, Sequence[str]]
) -> list[dg.RunRequest]:
    """Return runs of older partitions: those of runs that never began, and those of `due_again`."""
    of_stream, order, at = StreamKeys(stream), ValueOrder(stream, context.instance), context.scheduled_execution_time

    def is_older(*cells: Partition) -> bool:
        return any(key not in newest[name] for cell in cells for name, key in keys_by_dimension(cell).items())

    lost = runs.lost(schedule_of(refresh_job(stream.name)), (at - LOST_SINCE).timestamp())
    targets = [RunTarget(*span) for span in lost if is_older(*span) and not runs.have(*span)]
    try:
        failed = dict.fromkeys(map(of_stream.cell_of, due_again(stream, at, MOST * RUNS)))
    except LakeAssetsError as error:
        context.log.warning(f"Older partitions that failed are looked for at the next tick: {error}")
        failed = {}
    cells = [RunTarget.of(cell, 0) for cell in failed if is_older(cell) and not runs.have(cell)]
    most = stream.config.max_partitions_per_run or MOST
    targets += runs_of(cells, order.position, most=most, max_runs=RUNS)
    return [run_request(target, at.isoformat()) for target in targets[:RUNS]]


def drain_schedule(stream: OpenStream) -> dg.ScheduleDefinition | None:
    """Return the schedule, with its job `drain_<stream>`, that uploads the stream's buffer; None if it has none.

    It is on from the start. Dagster must run on the machine that has the buffer. If an output is away, or batches have
    expired, the run fails with the reason; the batches stay.
    """
    options = stream.config.landing
    if options is None or options.buffer is None:
        return None

    @dg.op(name=f"drain_{stream.name}_buffer", description="Uploads the batches in the landing buffer, oldest first.")
    def upload(context: dg.OpExecutionContext) -> None:
        from lake_assets.wings.land.drain import drain  # noqa: PLC0415 - a wing

        drained = drain(stream.name, stream.config)
        context.log.info(
            f"{drained.uploaded:,} uploaded, {drained.pending:,} pending, {drained.deleted:,} deleted after retention"
        )
        problems = list(drained.errors)
        if drained.expired:
            problems.append(
                f"{drained.expired:,} batches have been pending for longer than the retention of "
                f"{options.buffer.retention_days if options.buffer else 0:g} days, and are kept."
            )
        if problems:
            # The next tick of the schedule is the retry.
            raise UserFailure("\n".join(problems))

    @dg.job(name=f"drain_{stream.name}", description=f"Upload the batches in the landing buffer of {stream.name}.")
    def job() -> None:
        upload()

    return job_schedule(job, options.drain, "UTC")


def _why_none(stream: OpenStream, column: str, at: dt.datetime) -> str:
    if column in stream.config.partitions and stream.config.partitions[column].type in TIME_TYPES:
        return f"At {at:%Y-%m-%d %H:%M %Z} the stream's {column} is before its start or after its end."
    return (
        f"No {column} is known yet: add its values under `values` in the config, or its partitions in the UI "
        "(Backfill, Add partition); a sensor adds those that land."
    )


def run_request(target: RunTarget, at: str, assets: Sequence[dg.AssetKey] | None = None) -> dg.RunRequest:
    """Return the run of a target that a tick requests.

    `at` is the time of the tick, and `assets` are those of the run, if the tick's job has others too. The run key has
    that time: Dagster starts no run for a key that it has seen, also if that run never began. It notes the requests of
    a tick before it makes their runs, and so goes on with them after a restart.
    """
    first, last = partition_key(target.first), partition_key(target.last)
    key = f"{first if first == last else f'{first}...{last}'}:{at}"
    checks = None if assets is None else list[dg.AssetCheckKey]()  # the asset's step makes them: they need no plan
    return dg.RunRequest(run_key=key, asset_selection=assets, asset_check_keys=checks, **run_range(first, last))


def run_range(first: str, last: str) -> dict[str, Any]:
    """Return the arguments of a `RunRequest` of one partition, or of all from the first key to the last."""
    return {"partition_key": first} if first == last else {"tags": {RANGE_START: first, RANGE_END: last}}
