"""A driver by `spark-submit`: a cancellation reaches the driver, and nothing outlives the launcher."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from lake_assets.wings.launch.cancellation import DRIVER_FILE, LAUNCHER, is_running
from lake_assets.wings.launch.pipes import Received
from lake_assets.wings.launch.spark_submit import Submission, SubmittedDriver
from lake_assets_tests.until import until
from lake_assets_tests.wings.launch.requests import request

pytestmark = pytest.mark.kill

# As `spark-submit`: a process whose child is the driver. It would end its child's work at a signal of its own.
SUBMIT = """\
import os, pathlib, signal, subprocess, sys, time
pathlib.Path("submit").write_text(str(os.getpid()))
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path("parent got it").touch(), sys.exit(9)))
sys.exit(subprocess.call([sys.executable, "-c", sys.argv[1]]))
"""
DRIVER = """\
import os, pathlib, signal, sys, time
from lake_assets.wings.launch import cancellation
cancellation._WATCH_SECONDS = 0.02
def stop(*_):
    pathlib.Path("cancelled").touch()
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
cancellation.announce()
pathlib.Path("begun").write_text(str(os.getpid()))
time.sleep(600)
"""
SLOW = "import os, pathlib, time; pathlib.Path('begun').write_text(str(os.getpid())); time.sleep(600)"
LAUNCH = """\
import sys, time
from lake_assets_tests.wings.launch.test_spark_submit import DRIVER, SUBMIT, submitted
with submitted(sys.executable, "-c", SUBMIT, DRIVER):
    time.sleep(600)
"""


@contextmanager
def submitted(*command: str) -> Iterator[SubmittedDriver]:
    """A driver that a command has started."""
    driver = SubmittedDriver(Submission(command, {}))
    with driver.messages.opened(request("r"), Received([], lambda _: None)) as variables:
        driver.start(variables)
        yield driver


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for file in tmp_path.glob("begun"):
        if is_running(number := int(file.read_text())):
            os.kill(number, signal.SIGKILL)


def number(name: str) -> int:
    """The number that a process has written when it began."""
    file = Path(name)
    until(lambda: file.exists() and bool(file.read_text()), f"{name} is written")
    return int(file.read_text())


def ended(*command: str) -> str:
    """How the driver of a command ended."""
    with submitted(*command) as driver:
        until(driver.has_ended, "the command ends")
        return driver.ended().reason


def test_a_cancellation_reaches_the_driver_alone() -> None:
    with submitted(sys.executable, "-c", SUBMIT, DRIVER) as driver:
        process = number("begun")
        assert not driver.has_ended()
        driver.cancel(lambda: None)
        assert driver.ended().reason == "exit code 3"

    assert Path("cancelled").exists()
    assert not Path("parent got it").exists()
    assert not is_running(process)


def test_without_a_driver_yet_everything_ends() -> None:
    with submitted(sys.executable, "-c", SUBMIT, SLOW) as driver:
        process = number("begun")
        driver.cancel(lambda: None)

    until(lambda: not is_running(process), "the driver ends")
    assert Path("parent got it").exists()


def test_a_driver_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.wings.launch.spark_submit.GRACE_SECONDS", 0)
    with submitted(sys.executable, "-c", SUBMIT, DRIVER.replace("sys.exit(3)", "pass")) as driver:
        process = number("begun")
        driver.cancel(lambda: None)
        assert driver.ended().reason == "exit code 137"

    until(lambda: not is_running(process), "the driver ends")


def test_a_driver_whose_jvm_was_killed_is_waited_for() -> None:
    with submitted(sys.executable, "-c", SUBMIT, DRIVER) as driver:
        process = number("begun")
        os.kill(number("submit"), signal.SIGKILL)
        until(driver.has_ended, "the driver ends")
        assert not is_running(process)
        assert driver.ended().reason == "exit code 137"

    assert Path("cancelled").exists()


def test_a_killed_launcher_cancels_the_driver() -> None:
    with subprocess.Popen([sys.executable, "-c", LAUNCH]) as launcher:
        number("begun")
        psutil.Process(launcher.pid).kill()
        until(Path("cancelled").exists, "the driver is cancelled")  # its launcher is not reaped before


def test_the_exit_code_is_that_of_the_command() -> None:
    assert [ended("sh", "-c", f"exit {code}") for code in (3, 0)] == ["exit code 3", "exit code 0"]


def test_the_errors_of_the_command_are_copied_without_the_warning_of_the_jvm(
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines = "WARNING: Using incubator modules: jdk.incubator.vector\nan error\n"

    ended("sh", "-c", f"printf '{lines}no line break' >&2")

    assert capfd.readouterr() == ("", "an error\nno line break")


@pytest.mark.more
def test_errors_of_a_process_that_outlives_the_command_do_not_keep_the_launcher(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ended("sh", "-c", "echo first >&2; sleep 600 >/dev/null & echo $! > begun")

    assert capfd.readouterr().err == "first\n"


def test_the_entry_point_says_who_starts_it() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in (DRIVER_FILE, LAUNCHER)}
    command = [sys.executable, "-m", "lake_assets.wings.launch"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    text = "this program is started by a launcher of runs: see `runs` of the config, or --launcher."
    assert done.stderr == f"Error: {text}\n"
