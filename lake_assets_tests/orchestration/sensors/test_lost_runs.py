"""Which process of a run is gone; `test_daemon.py` has what happens to its run."""

import subprocess
import sys
import time
from collections.abc import Iterator

import dagster as dg
import pytest

from lake_assets.orchestration.sensors import lost_runs
from lake_assets.orchestration.sensors.lost_runs import _is_alive
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.until import until
from lake_assets_tests.world import World


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_a_process_is_alive_until_it_ends(process: subprocess.Popen[bytes]) -> None:
    at = time.time()
    assert _is_alive(process.pid, at)
    process.kill()
    until(lambda: not _is_alive(process.pid, at), "it ends")  # also before its parent has asked for its exit code
    process.wait()
    assert not _is_alive(process.pid, at)


def test_a_later_process_of_the_same_number_is_another_one(process: subprocess.Popen[bytes]) -> None:
    assert not _is_alive(process.pid, time.time() - 60)


def test_a_tick_counts_the_lost_runs(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED))
    ticks = Ticks(local_world, instance, sensor="test_lost_runs")
    assert ticks.evaluate().skip_message == "No lost runs."
    monkeypatch.setattr(lost_runs, "runs_of_server", lambda _: [(run, None, 0.0)])

    assert ticks.evaluate().skip_message == "1 run failed, because its process is gone."
