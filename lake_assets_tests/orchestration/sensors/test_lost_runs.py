"""Which process of a run is gone; `test_daemon.py` has what happens to its run."""

import subprocess
import sys
import time

import pytest

from lake_assets.orchestration.sensors.lost_runs import _is_alive


@pytest.fixture
def process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_a_process_is_alive_until_it_ends(process: subprocess.Popen[bytes]) -> None:
    at = time.time()
    assert _is_alive(process.pid, at)
    process.kill()
    deadline = time.monotonic() + 10
    while _is_alive(process.pid, at):  # also before its parent has asked for its exit code
        assert time.monotonic() < deadline
    process.wait()
    assert not _is_alive(process.pid, at)


def test_a_later_process_of_the_same_number_is_another_one(process: subprocess.Popen[bytes]) -> None:
    assert not _is_alive(process.pid, time.time() - 60)
    process.kill()
    process.wait()
