"""The program beside a launcher: a cancellation reaches the driver, and nothing outlives the launcher."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lake_assets.remote import supervise
from lake_assets.remote.supervise import DRIVER_FILE, SUPERVISOR, is_running
from lake_assets_tests.until import until

pytestmark = pytest.mark.kill

# As `spark-submit`: a process whose child is the driver. It would end its child's work at a signal of its own.
SUBMIT = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("the parent got it", flush=True), sys.exit(9)))
sys.exit(subprocess.call([sys.executable, "-c", sys.argv[1]]))
"""
DRIVER = """\
import os, signal, sys, time
def stop(*_):
    print("cancelled", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
open(os.environ["LAKE_ASSETS_DRIVER_FILE"], "w").write(str(os.getpid()))
print("driver", os.getpid(), os.getppid(), flush=True)
time.sleep(600)
"""
SLEEP = "import os, time; print('driver', os.getpid(), os.getppid(), flush=True); time.sleep(600)"


def start(driver: str) -> "tuple[subprocess.Popen[str], int, int]":
    """The supervisor, and the numbers of the driver and of its parent."""
    command = [sys.executable, "-m", supervise.__name__, sys.executable, "-c", SUBMIT, driver]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    _, number, parent = process.stdout.readline().split()
    return process, int(number), int(parent)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancellation_reaches_the_driver_alone(number: signal.Signals) -> None:
    process, driver, _ = start(DRIVER)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=120)
    assert printed == "cancelled\n"
    assert process.returncode == 3
    assert not is_running(driver)


def test_without_a_driver_yet_everything_ends() -> None:
    process, driver, _ = start(SLEEP)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    until(lambda: not is_running(driver), "the driver ends")


def test_a_killed_launcher_cancels_the_driver(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-m", supervise.__name__, sys.executable, "-c", SUBMIT, DRIVER])
    shell = f"{command} > {tmp_path}/out & wait"
    launcher = subprocess.Popen(["bash", "-c", shell])
    out = tmp_path / "out"
    until(lambda: out.exists() and "\n" in out.read_text(), "the driver begins")
    launcher.kill()
    launcher.wait()
    until(lambda: "cancelled" in out.read_text(), "the driver is cancelled")


def test_the_exit_code_is_that_of_the_command() -> None:
    for code in ("3", "0"):
        command = [sys.executable, "-m", supervise.__name__, "sh", "-c", f"exit {code}"]
        assert subprocess.run(command, check=False).returncode == int(code)
    command = [sys.executable, "-m", supervise.__name__, "sh", "-c", "kill -9 $$"]
    assert subprocess.run(command, check=False).returncode == 137


def test_the_errors_of_the_command_are_copied_without_the_warning_of_the_jvm() -> None:
    lines = "WARNING: Using incubator modules: jdk.incubator.vector\nan error\n"
    script = f"printf '{lines}no line break' >&2"
    command = [sys.executable, "-m", supervise.__name__, "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "an error\nno line break")


@pytest.mark.more
def test_errors_of_a_process_that_outlives_the_command_do_not_keep_the_supervisor() -> None:
    command = [sys.executable, "-m", supervise.__name__, "sh", "-c", "echo first >&2; sleep 600 >/dev/null & echo $!"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.stderr == "first\n"


def test_the_entry_point_says_who_starts_it() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in (DRIVER_FILE, SUPERVISOR)}
    command = [sys.executable, "-m", "lake_assets.remote"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    text = "this program is started by a launcher of runs: see `runs` of the config, or --launcher."
    assert done.stderr == f"Error: {text}\n"
