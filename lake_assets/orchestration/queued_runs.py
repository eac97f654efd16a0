"""The runs of a stream. One that has not begun lists its partitions when it begins, so these need no other run.

Without this, sensors and schedules would add runs of the same partitions while nothing takes runs from the queue.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import Any

import dagster as dg

from lake_assets.base.errors import PartitionError
from lake_assets.config.layout.partition import Partition, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.orchestration.dagster_private import AssetJob, run_events
from lake_assets.orchestration.partition_keys import (
    BACKFILL,
    NEVER_BEGAN,
    PARTITION,
    RANGE_END,
    RANGE_START,
    StreamKeys,
    ValueOrder,
    dimension_key,
    step_of,
)
from lake_assets.streams.detection.requests import CellState
from lake_assets.streams.stream import OpenStream

# A run of these states has listed nothing. The state changes to STARTED before the run's first step.
_NOT_BEGUN = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING)
_CLOCK_SECONDS = 5.0  # by which clocks differ, and Dagster rounds
_PACE = 0.04  # seconds in which Dagster makes a run, for each of its partitions, where no run says it
_ENQUEUED = dg.DagsterEventType.PIPELINE_ENQUEUED  # when Dagster has made a run
_MEASURED = 50  # partitions of a run that says it; those of a smaller one take less time than the rest of the run
_MOST = 2_000  # newest runs that are read; a partition that only older ones have may have one run more
_ENDED: dict[dg.DagsterRunStatus, CellState] = {
    dg.DagsterRunStatus.SUCCESS: "done",
    dg.DagsterRunStatus.CANCELED: "done",
    dg.DagsterRunStatus.FAILURE: "failed",
}
LOST_SINCE = dt.timedelta(days=7)  # before now, of whose runs some may never have begun
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _ENDED]
_SENSOR, _SCHEDULE = "dagster/sensor_name", "dagster/schedule_name"  # tags of a run: what requested it
_NARROWING = {"partitions", "failed", "max"}  # options of a run that leave out partitions with new objects


def refresh_job(stream: str) -> str:
    """Return the name of the job of a stream's schedule."""
    return f"refresh_{stream}"


def schedule_of(job: str) -> str:
    """Return the name of a job's schedule."""
    return f"{job}_schedule"


def unfinished_runs(instance: dg.DagsterInstance) -> frozenset[str]:
    """Return the ids of the runs that have not ended."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED))
    return frozenset(record.dagster_run.run_id for record in records)


@dataclass(frozen=True, slots=True)
class _Run:
    id: str
    created: float  # Unix time
    span: tuple[Partition, Partition]  # the first and the last cell
    state: CellState
    began: float | None  # Unix time
    ended: float  # Unix time of its last change
    requester: str | None  # the sensor or schedule


class QueuedRuns:
    """The queued runs of a stream, read from Dagster at the first question.

    A sensor must ask after it has listed: a run that was still queued then lists later, and finds the same objects.
    """

    def __init__(self, stream: OpenStream, asset: dg.AssetKey, instance: dg.DagsterInstance) -> None:
        self._stream = stream
        self._asset = asset
        self._instance = instance
        self._order = ValueOrder(stream, instance)
        self._keys = StreamKeys(stream)
        self._changed: tuple[float, Sequence[_Run]] | None = None

    def have(self, first: Partition, last: Partition | None = None) -> bool:
        """Return whether one of the runs has a cell, or all between two in each column."""
        exact, ranges = self._spans
        return (first, last or first) in exact or any(self._is_inside(first, last or first, span) for span in ranges)

    def are_of(self, sensor: str) -> bool:
        """Return whether a sensor has requested one of the runs."""
        return any(run.requester == sensor for run in self._queued)

    def makes(self, sensor: str, seconds: float) -> int:
        """Return for how many partitions Dagster makes runs in so many seconds, as a sensor's newest run says it."""
        for run in self._runs(dg.RunsFilter(tags={_SENSOR: sensor}), 1):
            size = prod(
                self._number(axis, last) - self._number(axis, first) + 1
                for axis, (first, last) in enumerate(zip(run.span[0].values, run.span[1].values, strict=True))
            )
            queued = next((event.timestamp for event in run_events(self._instance, run.id, _ENQUEUED)), None)
            if queued is not None and size >= _MEASURED:
                return max(int(seconds * size / max(queued - run.created, 0.001)), _MEASURED)
        return int(seconds / _PACE)

    def newest(self, cell: Partition, since: float) -> CellState:
        """Return what became of the newest run of a cell that began after a Unix time, or will begin."""
        if self.have(cell):
            return "under way"
        for run in self._since(since):
            if (run.began is None or run.began >= since - _CLOCK_SECONDS) and self._is_inside(cell, cell, run.span):
                return run.state
        return "none"

    def failed(self, cell: Partition, since: float) -> Sequence["_Run"]:
        """Return the runs of a cell that failed or never began after its last success, the newest first.

        Of these only runs that were changed after a Unix time.
        """
        if all(run.state != "failed" for run in self._since(since)):
            return ()
        of_cell = (run for run in self._since(since) if self._is_inside(cell, cell, run.span))
        return [run for run in takewhile(lambda run: run.state != "done", of_cell) if run.state == "failed"]

    def lost(self, schedule: str, since: float) -> Iterator[tuple[Partition, Partition]]:
        """Yield the first and the last cell of each run of a schedule that never began, if no later run has them all.

        Only runs that were changed after a Unix time are read.
        """
        later: list[tuple[Partition, Partition]] = []
        for run in self._since(since):
            is_lost = run.requester == schedule and run.state == "failed" and run.began is None
            if is_lost and not any(self._is_inside(*run.span, span) for span in later):
                yield run.span
            later.append(run.span)

    @cached_property
    def _spans(self) -> tuple[set[tuple[Partition, Partition]], list[tuple[Partition, Partition]]]:
        """The first and the last cell of each of the runs, and those of runs of several."""
        exact = {run.span for run in self._queued}
        return exact, [span for span in exact if span[0] != span[1]]

    @cached_property
    def _queued(self) -> Sequence["_Run"]:
        return [*self._runs(dg.RunsFilter(statuses=_NOT_BEGUN))]

    def _since(self, since: float) -> Sequence["_Run"]:
        """The newest runs that were changed after a Unix time; they are read again for an earlier one."""
        if self._changed is None or since < self._changed[0]:
            after = dt.datetime.fromtimestamp(since - _CLOCK_SECONDS, dt.UTC)
            self._changed = since, [*self._runs(dg.RunsFilter(updated_after=after))]
        return self._changed[1]

    def _runs(self, filters: dg.RunsFilter, most: int = _MOST) -> Iterator["_Run"]:
        for record in self._instance.get_run_records(filters, limit=most):
            run = record.dagster_run
            ends = [run.tags.get(tag) or run.tags.get(PARTITION) for tag in (RANGE_START, RANGE_END)]
            if not self._is_refresh(run):
                continue
            try:
                first, last = (self._keys.cell(end or "") for end in ends)
            except PartitionError:  # a run of the job without partitions, or of an earlier config
                continue
            state: CellState = _ENDED.get(run.status, "under way")
            if run.status == dg.DagsterRunStatus.CANCELED and not run.tags.keys().isdisjoint((NEVER_BEGAN, BACKFILL)):
                state = "failed"  # nobody has cancelled it for what landed: Dagster cancels the runs of a backfill
            requester = run.tags.get(_SENSOR) or run.tags.get(_SCHEDULE)
            created = record.create_timestamp.timestamp()
            changed = record.update_timestamp.timestamp()
            yield _Run(run.run_id, created, (first, last), state, record.start_time, changed, requester)

    def _is_refresh(self, run: dg.DagsterRun) -> bool:
        """Return whether a run refreshes all of its partitions of the stream."""
        step = step_of(self._asset)
        is_of_asset = self._asset in (run.asset_selection or ()) or run.job_name == refresh_job(self._stream.name)
        config: dict[str, Any] = dict(run.run_config)
        options = config.get("ops", {}).get(step, {}).get("config", {})
        has_step = run.step_keys_to_execute is None or step in run.step_keys_to_execute
        return is_of_asset and has_step and not any(options.get(option) for option in _NARROWING)

    def _is_inside(self, first: Partition, last: Partition, span: tuple[Partition, Partition]) -> bool:
        return all(
            begin == of_first == of_last == end
            or (
                self._number(axis, begin) <= self._number(axis, of_first)
                and self._number(axis, of_last) <= self._number(axis, end)
            )
            for axis, (begin, of_first, of_last, end) in enumerate(
                zip(span[0].values, first.values, last.values, span[1].values, strict=True)
            )
        )

    def _number(self, axis: int, value: PartitionValue) -> float:
        """The number of a value in Dagster's order of the column; of one that Dagster does not have, it is NaN."""
        column = self._keys.columns[axis]
        if value is not None and column.type in TIME_TYPES:
            kind = TIME_TYPES[column.type]
            return kind.number(kind.start(value))
        return self._order.of(column.name).get(dimension_key(column, column.text(value)), float("nan"))


def job_schedule(
    job: dg.JobDefinition | AssetJob, cron: str, time_zone: str, status: str = "running", description: str | None = None
) -> dg.ScheduleDefinition:
    """Return the schedule `<job>_schedule`: a tick requests a run of the job, unless one of its runs is queued."""
    name = schedule_of(job.name)

    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        of_schedule = dg.RunsFilter(statuses=_NOT_BEGUN, tags={_SCHEDULE: name})
        # A context that a test builds may have no instance.
        queued = context.instance.get_run_records(of_schedule, limit=1) if context.instance_ref else ()
        return (
            dg.SkipReason(f"The run {queued[0].dagster_run.run_id} of this schedule is queued.")
            if queued
            else dg.RunRequest()
        )

    return dg.ScheduleDefinition(
        name=name,
        execution_fn=tick,
        job=job,
        cron_schedule=cron,
        execution_timezone=time_zone,
        description=description,
        default_status=dg.DefaultScheduleStatus(status.upper()),
    )
