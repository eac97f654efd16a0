"""A sensor for runs that nobody else ends: those whose processes are gone, and those that never began.

A run of Dagster's default launcher is a process beside the code server. If it dies, the code server fails the run. If
the code server has died too (a reboot, a redeploy, too little memory), nobody does: the run would stay "started" until
`max_runtime_seconds`, and keep its place among those that may run at once. Sensors execute on the code server, so this
one sees the processes of its machine, or of its container. It fails such runs, so that Dagster tries them again.

A run may end before it begins: Dagster drops it from the queue while the code location has an error, or cannot launch
it. Nothing of its partitions was tried, but Dagster would show all of them as failed, because it planned them. So this
sensor reports such a run as cancelled, and its partitions keep the status that they had. A tag says that no person did
that: the sensor or schedule that requested the run requests it again.
"""

import datetime as dt
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg
import psutil

from lake_assets.base.texts import count
from lake_assets.orchestration.dagster_private import cancel_run, fail_run, run_events
from lake_assets.orchestration.queued_runs import LOST_SINCE, refresh_job
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.streams.detection.cursor import time_of

INTERVAL_SECONDS = 15
BUDGET_SECONDS = 20.0  # of one tick; the next one goes on
START_SECONDS = 60.0  # in which the process of a run begins; one that comes later finds that its run has ended
REQUEST_SECONDS = 20.0  # in which the daemon asks the code server for that process; a killed daemon does not
END_SECONDS = 300.0  # in which Dagster launches a run that it has made, and tries a failed one again
_CLOCK_SECONDS = 2.0  # by which the system's time of a process's beginning may differ from the clock
_UNDER_WAY = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)
_READ = 500  # runs of one query
_RETRIED = "dagster/auto_retry_run_id"  # a tag of a run that Dagster has tried again, by a run that plans the same


def lost_runs_sensor(lake: str, streams: Collection[StreamSpecs]) -> dg.SensorDefinition:
    """Return the sensor `<lake>_lost_runs`; one of a config is enough, as it looks at all runs of the code location."""
    jobs = {refresh_job(specs.stream.name): specs.table.key for specs in streams}

    @dg.sensor(
        name=f"{lake}_lost_runs",
        minimum_interval_seconds=INTERVAL_SECONDS - 1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Ends runs whose processes are gone, or that never began.",
    )
    def lost_runs(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor, until = _Cursor.of(context.cursor), time.monotonic() + BUDGET_SECONDS
        failed = list(_fail_lost(context, cursor, until))
        dropped = list(_cancel_dropped(context, jobs, cursor, until))
        texts = []
        if failed:
            gone = "its process is gone" if len(failed) == 1 else "their processes are gone"
            texts.append(f"{count(len(failed), 'run')} failed, because {gone}.")
        if dropped:
            texts.append(f"{count(len(dropped), 'run')} never began.")
        return dg.SensorResult(
            skip_reason=" ".join(texts) or "No lost runs.", cursor=f"{cursor.ended.isoformat()} {cursor.run}"
        )

    return lost_runs


@dataclass
class _Cursor:
    """How far a tick has come."""

    ended: dt.datetime  # the last change of the runs that were looked at
    run: str = ""  # the last one whose process was looked for, if the budget ended there

    @classmethod
    def of(cls, text: str | None) -> "_Cursor":
        """Return the cursor of a text; a new one if it cannot be read."""
        time, _, run = (text or "").partition(" ")
        ended = time_of(time)
        return cls(dt.datetime.now(dt.UTC) - LOST_SINCE) if ended is None else cls(ended, run)


def _fail_lost(context: dg.SensorEvaluationContext, cursor: _Cursor, until: float) -> Iterator[str]:
    """Fail the runs whose processes are gone, from the cursor on; yields their ids."""
    after, cursor.run = cursor.run, ""
    for run, pid, at in runs_of_server(context, after or None):
        seconds = START_SECONDS if is_requested(run) else REQUEST_SECONDS
        if _is_lost(pid, at, seconds) and _fail(context.instance, run.run_id, _reason(pid)):
            context.log.warning(f"the process of run {run.run_id} is gone: the run has failed")
            yield run.run_id
        if time.monotonic() > until:
            cursor.run = run.run_id
            return


def runs_of_server(
    context: dg.SensorEvaluationContext, after: str | None = None
) -> Iterator[tuple[dg.DagsterRun, int | None, float]]:
    """Yield the runs under way of a sensor's code server, each with its process and a Unix time of that.

    They come newest first, those after a run if its id is given. The process is None from the request of a run, which
    the time is of, until the new process has said its number.
    """
    launcher = context.instance_ref and context.instance_ref.run_launcher_data
    # Other launchers set no such tag, as Dagster's daemon asks them whether a run lives. The default one sets it when
    # it asks the code server for a process, right after the run is "starting".
    is_default = launcher is not None and launcher.class_name == dg.DefaultRunLauncher.__name__
    for record in context.instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY), cursor=after):
        run = record.dagster_run
        is_launched = is_requested(run) or (is_default and run.status == dg.DagsterRunStatus.STARTING)
        if is_launched and _location(run.remote_job_origin) == _location(context.code_location_origin):
            kinds = dg.DagsterEventType.RUN_STARTING, dg.DagsterEventType.ENGINE_EVENT
            begun = [(_pid(entry), entry.timestamp) for entry in run_events(context.instance, run.run_id, *kinds)]
            if begun:
                yield run, *next((event for event in begun if event[0]), begun[-1])


def is_requested(run: dg.DagsterRun) -> bool:
    """Return whether Dagster's default launcher has asked the code server for the process of a run."""
    return ".dagster/grpc_info" in run.tags


def _pid(entry: dg.EventLogEntry) -> int | None:
    """Return the process that an event of a run names; None if it names none."""
    pid = getattr(entry.get_dagster_event().event_specific_data, "metadata", {}).get("pid")
    return int(pid.text) if isinstance(pid, dg.TextMetadataValue) and pid.text else None


def _fail(instance: dg.DagsterInstance, run_id: str, why: str) -> bool:
    """Fail a run; returns False if it has ended meanwhile."""
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return False
    fail_run(instance, run, why)
    return True


def _cancel_dropped(
    context: dg.SensorEvaluationContext, jobs: Mapping[str, dg.AssetKey], cursor: _Cursor, until: float
) -> Iterator[str]:
    """Report the runs that never began as cancelled, from the cursor on; yields their ids.

    `jobs` has the assets of jobs whose runs do not name them.
    """
    instance, location, ours = context.instance, _location(context.code_location_origin), set(jobs.values())
    statuses = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.NOT_STARTED)
    filters = dg.RunsFilter(statuses=statuses, updated_after=cursor.ended)
    is_open = False
    for record in instance.get_run_records(filters, limit=_READ, order_by="update_timestamp", ascending=True):
        run = record.dagster_run
        of_job = {jobs[run.job_name]} if run.job_name in jobs else set[dg.AssetKey]()
        assets = run.asset_selection or of_job
        is_ours = not ours.isdisjoint(assets) and _location(run.remote_job_origin) == location
        has_begun = _has_begun(record) if is_ours else True
        if has_begun is False:
            cancel_run(instance, run, _DROPPED, assets)
            context.log.warning(f"run {run.run_id} never began")
            yield run.run_id
        is_open = is_open or has_begun is None
        if not is_open:
            cursor.ended = record.update_timestamp
        if time.monotonic() > until:
            return


def _location(origin: object) -> str | None:
    return getattr(origin, "location_name", None)


def _has_begun(record: dg.RunRecord) -> bool | None:
    """Return whether a run has begun, or Dagster has tried it again; None if it may have yet to do so."""
    if record.start_time is not None or _RETRIED in record.dagster_run.tags:
        return True
    run, age = record.dagster_run, time.time() - record.update_timestamp.timestamp()
    is_made = run.status == dg.DagsterRunStatus.NOT_STARTED or run.is_complete_and_waiting_to_retry
    return None if is_made and age < END_SECONDS else False


_DROPPED = (
    "This run never began, for the reason above. Nothing of its partitions was tried: they keep the status that they "
    "had. If a sensor or schedule requested the run, it requests it again; if not, re-execute it."
)


def _is_lost(pid: int | None, at: float, seconds: float) -> bool:
    return time.time() - at > seconds if pid is None else not _is_alive(pid, at)


def _is_alive(pid: int, at: float) -> bool:
    """Return whether the process that had this number at a moment still executes."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= at + _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return False


def _reason(pid: int | None) -> str:
    gone = f"The process {pid} of this run is gone" if pid else "No process of this run has begun"
    return (
        f"{gone}: its code server or Dagster's daemon was killed, or their machine or container was restarted. What "
        "the run has committed is in the lake. Dagster tries the run again if `run_retries` are enabled in "
        "dagster.yaml; if not, re-execute it."
    )
