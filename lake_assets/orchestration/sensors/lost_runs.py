"""A sensor that fails the runs whose processes are gone, so that Dagster tries them again.

A run of Dagster's default launcher is a process beside the code server. If it dies, the code server fails the run. If
the code server has died too (a reboot, a redeploy, too little memory), nobody does: the run would stay "started" until
`max_runtime_seconds`, and keep its place among those that may run at once. Sensors execute on the code server, so this
one sees the processes of its machine, or of its container.
"""

import time

import dagster as dg
import psutil

from lake_assets.layout.texts import count
from lake_assets.orchestration.dagster_private import fail_run, is_requested, runs_of_server

INTERVAL_SECONDS = 15
START_SECONDS = 60.0  # in which the process of a run begins; one that comes later finds that its run has ended
REQUEST_SECONDS = 20.0  # in which the daemon asks the code server for that process; a killed daemon does not
_CLOCK_SECONDS = 2.0  # by which the system's time of a process's beginning may differ from the clock


def lost_runs_sensor(lake: str) -> dg.SensorDefinition:
    """Return the sensor `<lake>_lost_runs`; one of a config is enough, as it looks at all runs of the code location."""

    @dg.sensor(
        name=f"{lake}_lost_runs",
        minimum_interval_seconds=INTERVAL_SECONDS - 1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails runs whose processes are gone, so that Dagster tries them again.",
    )
    def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        lost = [
            (run.run_id, pid)
            for run, pid, at in runs_of_server(context)
            if _is_lost(pid, at, START_SECONDS if is_requested(run) else REQUEST_SECONDS)
        ]
        failed = [run_id for run_id, pid in lost if fail_run(context.instance, run_id, _reason(pid))]
        for run_id in failed:
            context.log.warning(f"the process of run {run_id} is gone: the run has failed")
        if not failed:
            return dg.SkipReason("No lost runs.")
        gone = "its process is gone" if len(failed) == 1 else "their processes are gone"
        return dg.SkipReason(f"{count(len(failed), 'run')} failed, because {gone}.")

    return lost_runs


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
