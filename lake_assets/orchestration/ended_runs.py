"""A sensor for each lake, by which the checks of a run that ended too early keep their results from before.

When Dagster makes a run, it plans each check for each partition of the run. If a check is still planned when the run
has ended, Dagster shows it as skipped, or as an execution that failed, and hides the result from before. The code of a
run repeats that result (`evaluations.Evaluator.not_run`), and cannot if it never began or was killed.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status

from lake_assets.checks.run import checks_of, is_by_partition
from lake_assets.orchestration.evaluations import Evaluator
from lake_assets.streams.stream import OpenStream

ENDED = (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)
INTERVAL_SECONDS = 30
OVERLAP = dt.timedelta(minutes=1)  # of two looks: clocks differ, and a run's end takes a moment to be stored
RESULTS = 1_000  # of one tick, to which Dagster gives a minute

Results = Iterator[tuple[dg.DagsterRun, dg.DagsterEvent]]
Keyed = tuple[OpenStream, dg.AssetKey]  # a stream, and the key of its asset


def ended_runs_sensor(lake: str, streams: Sequence[Keyed]) -> dg.SensorDefinition | None:
    """The sensor `<lake>_checks`; None where no stream of the lake has checks.

    A result is stored as one of the run that ended, in the place that Dagster planned for it, so it never hides the
    result of a newer run. If an older run is still under way, the sensor looks again until that run has ended.
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
        since = dt.datetime.fromisoformat(context.cursor) if context.cursor else now
        look = _Look(context.instance, since - OVERLAP)
        repeated = 0
        for run, event in look.results(streams):
            context.instance.report_dagster_event(event, run.run_id)
            repeated += 1
            if repeated == RESULTS:
                break
        is_over = repeated < RESULTS and not look.has_deferred
        reason = f"{len(look.runs):,} runs were cancelled or failed; {repeated:,} results of checks are repeated."
        return dg.SensorResult(skip_reason=reason, cursor=(now if is_over else since).isoformat())

    return checks


class _Look:
    """One look at the runs that were cancelled, or failed, after a moment."""

    def __init__(self, instance: dg.DagsterInstance, since: dt.datetime) -> None:
        self.instance = instance
        runs = instance.get_runs(dg.RunsFilter(statuses=ENDED, updated_after=since))
        self.runs: Mapping[str, dg.DagsterRun] = {run.run_id: run for run in runs}
        self.has_deferred = False  # whether a result depends on a run that is still under way

    def results(self, streams: Sequence[Keyed]) -> Results:
        """What the runs leave unsaid. Each result must be stored before the next is asked for."""
        for stream, asset in streams if self.runs else ():
            for name in checks_of(stream):
                yield from self._of_check(stream, asset, name)

    def _of_check(self, stream: OpenStream, asset: dg.AssetKey, name: str) -> Results:
        key = dg.AssetCheckKey(asset, name)
        storage = self.instance.event_log_storage
        newest = storage.get_latest_asset_check_execution_by_key([key]).get(key)
        planned: dict[str, list[str | None]] = defaultdict(list)
        if newest is not None and newest.status == Status.PLANNED and newest.run_id in self.runs:
            planned[newest.run_id].append(None)
        if is_by_partition(stream, name):
            for info in storage.get_asset_check_partition_info([key]):
                is_planned = info.latest_execution_status == Status.PLANNED and info.latest_planned_run_id in self.runs
                # What the run has committed, the result from before says nothing of.
                is_old = info.latest_check_event_storage_id > (info.latest_materialization_storage_id or 0)
                if is_planned and is_old and info.partition_key is not None:
                    planned[info.latest_planned_run_id].append(info.partition_key)
        for run_id, keys in planned.items():
            run = self.runs[run_id]
            if not self._has_failed(run, stream):
                evaluator = Evaluator(stream, asset, self.instance, run_id, ())
                for evaluation in self._of_run(evaluator, name, keys):
                    yield run, _event(run, stream, evaluation)

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

    def _has_failed(self, run: dg.DagsterRun, stream: OpenStream) -> bool:
        """Whether the step of the checks failed by itself, which Dagster shows, and must."""
        if run.status != dg.DagsterRunStatus.FAILURE:
            return False
        failures = self.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
        return any(entry.step_key == f"check_{stream.name}" for entry in failures)


def _event(run: dg.DagsterRun, stream: OpenStream, evaluation: dg.AssetCheckEvaluation) -> dg.DagsterEvent:
    return dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
        job_name=run.job_name,
        step_key=f"check_{stream.name}",
        event_specific_data=evaluation,
    )
