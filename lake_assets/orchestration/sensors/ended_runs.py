"""A sensor for each lake that keeps the earlier results of checks when a run ended too early to make them.

When Dagster makes a run, it plans each check for each partition of the run. If a check is still planned when the run
has ended, Dagster shows it as skipped, or as an execution that failed, and hides the earlier result. The code of a
run repeats that result (`evaluations.Evaluator.not_run`), but not if the run never began or was killed.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from lake_assets.checks.check_run import checks_of, is_by_partition
from lake_assets.detection.packing import time_of
from lake_assets.layout.texts import count
from lake_assets.orchestration import dagster_private
from lake_assets.orchestration.checks.evaluations import Evaluator, step_of_checks
from lake_assets.orchestration.translator import StreamSpecs

INTERVAL_SECONDS = 30
OVERLAP = dt.timedelta(minutes=1)  # of two scans: clocks differ, and a run's end takes a moment to be stored
_BROKEN_OFF = (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)
RESULTS = 1_000  # of one tick, to which Dagster gives a minute


def ended_runs_sensor(lake: str, streams: Sequence[StreamSpecs]) -> dg.SensorDefinition | None:
    """Return the sensor `<lake>_checks`; None where no stream of the lake has checks.

    A result is stored as one of the run that ended, in the position that Dagster planned for it, so it never hides the
    result of a newer run. If an older run is still under way, the sensor scans again until that run has ended.
    """
    streams = [each for each in streams if checks_of(each.stream)]
    if not streams:
        return None

    @dg.sensor(
        name=f"{lake}_checks",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Repeats the newest results of checks that a run did not make because it was cancelled or killed.",
    )
    def checks(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = dt.datetime.now(dt.UTC)
        since = time_of(context.cursor) or now
        filters = dg.RunsFilter(statuses=_BROKEN_OFF, updated_after=since - OVERLAP)
        runs = {record.dagster_run.run_id: record.dagster_run for record in context.instance.get_run_records(filters)}
        repeated, has_deferred = 0, False
        for run, step, evaluation in _left_out(context.instance, runs, streams if runs else ()):
            if evaluation is None:
                has_deferred = True
                continue
            dagster_private.store_result(context.instance, run, step, evaluation)
            repeated += 1
            if repeated == RESULTS:
                break
        is_over = repeated < RESULTS and not has_deferred
        reason = "No cancelled or failed runs."
        if runs:
            reason = f"{count(len(runs), 'run')} cancelled or failed; {count(repeated, 'result')} of checks repeated."
        return dg.SensorResult(skip_reason=reason, cursor=(now if is_over else since).isoformat())

    return checks


def _left_out(
    instance: dg.DagsterInstance, runs: Mapping[str, dg.DagsterRun], streams: Sequence[StreamSpecs]
) -> Iterator[tuple[dg.DagsterRun, str, dg.AssetCheckEvaluation | None]]:
    """Yield the results that runs left out, with their steps; None for those that a run under way will make.

    Each must be stored before the next is read.
    """
    for specs in streams:
        stream, asset, step = specs.stream, specs.table.key, step_of_checks(specs.stream.name)
        for name in checks_of(stream):
            check, by_partition = dg.AssetCheckKey(asset, name), is_by_partition(stream, name)
            for run_id, keys in dagster_private.plans_of_runs(instance, check, runs, by_partition=by_partition).items():
                run = runs[run_id]
                # A step of checks that failed by itself is shown by Dagster, and must be.
                if dagster_private.has_failed_step(instance, run, step):
                    continue
                evaluator = Evaluator(stream, asset, instance, run_id, ())
                free = evaluator.free(name, keys)
                if len(free) < len(keys):
                    yield run, step, None
                for evaluation in evaluator.repeated(name, free):
                    yield run, step, evaluation
