"""A sensor for each lake that keeps the earlier results of checks when a run ended too early to make them.

When Dagster makes a run, it plans each check for each partition of the run. If a check is still planned when the run
has ended, Dagster shows it as skipped, or as an execution that failed, and hides the earlier result. The code of a
run repeats that result (`evaluations.Evaluator.not_run`), but not if the run never began or was killed.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from lake_assets.checks.run import checks_of, is_by_partition
from lake_assets.detection.packing import time_of
from lake_assets.layout.texts import count
from lake_assets.orchestration import dagster_private
from lake_assets.orchestration.evaluations import Evaluator, step_of_checks
from lake_assets.streams.stream import OpenStream

INTERVAL_SECONDS = 30
OVERLAP = dt.timedelta(minutes=1)  # of two scans: clocks differ, and a run's end takes a moment to be stored
_BROKEN_OFF = (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)
RESULTS = 1_000  # of one tick, to which Dagster gives a minute

Keyed = tuple[OpenStream, dg.AssetKey]  # a stream, and the key of its asset


def ended_runs_sensor(lake: str, streams: Sequence[Keyed]) -> dg.SensorDefinition | None:
    """Return the sensor `<lake>_checks`; None where no stream of the lake has checks.

    A result is stored as one of the run that ended, in the position that Dagster planned for it, so it never hides the
    result of a newer run. If an older run is still under way, the sensor scans again until that run has ended.
    """
    streams = [(stream, asset) for stream, asset in streams if checks_of(stream)]
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
        scan = _Scan(context.instance, since - OVERLAP)
        repeated = 0
        for run, step, evaluation in scan.results(streams):
            dagster_private.store_result(context.instance, run, step, evaluation)
            repeated += 1
            if repeated == RESULTS:
                break
        is_over = repeated < RESULTS and not scan.has_deferred
        reason = f"{count(len(scan.runs), 'run')} cancelled or failed; {count(repeated, 'result')} of checks repeated."
        return dg.SensorResult(skip_reason=reason, cursor=(now if is_over else since).isoformat())

    return checks


def _broken_off_runs(instance: dg.DagsterInstance, since: dt.datetime) -> Mapping[str, dg.DagsterRun]:
    """Return the runs that were cancelled or failed after a moment, by their ids."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_BROKEN_OFF, updated_after=since))
    return {record.dagster_run.run_id: record.dagster_run for record in records}


class _Scan:
    """The runs that were cancelled, or failed, after a moment, and the results that they left out."""

    def __init__(self, instance: dg.DagsterInstance, since: dt.datetime) -> None:
        self.instance = instance
        self.runs = _broken_off_runs(instance, since)
        self.has_deferred = False  # whether a result depends on a run that is still under way

    def results(self, streams: Sequence[Keyed]) -> Iterator[tuple[dg.DagsterRun, str, dg.AssetCheckEvaluation]]:
        """Yield the results with their runs and steps. Each must be stored before the next is read."""
        for stream, asset in streams if self.runs else ():
            step = step_of_checks(stream.name)
            for name in checks_of(stream):
                plans = dagster_private.plans_of_runs(
                    self.instance,
                    dg.AssetCheckKey(asset, name),
                    self.runs,
                    by_partition=is_by_partition(stream, name),
                )
                for run_id, keys in plans.items():
                    run = self.runs[run_id]
                    # A step of checks that failed by itself is shown by Dagster, and must be.
                    if dagster_private.has_failed_step(self.instance, run, step):
                        continue
                    evaluator = Evaluator(stream, asset, self.instance, run_id, ())
                    for evaluation in self._of_run(evaluator, name, keys):
                        yield run, step, evaluation

    def _of_run(self, evaluator: Evaluator, name: str, keys: Sequence[str | None]) -> Iterator[dg.AssetCheckEvaluation]:
        free = evaluator.free(name, keys)
        self.has_deferred = self.has_deferred or len(free) < len(keys)
        if not is_by_partition(evaluator.stream, name):
            yield from evaluator.repeated(name, free)
            return
        evaluations = list(evaluator.repeated(name, [key for key in free if key is not None]))
        yield from evaluations
        if evaluations or (None in free and evaluator.has_result(name)):
            yield from evaluator.total(name)
