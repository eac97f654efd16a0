"""What ends a driver that no signal of its launcher reaches: the launcher's mark, or the end of its JVM."""

import os
import subprocess
import sys
from pathlib import Path

from lake_assets.remote.supervise import is_running
from lake_assets_tests.until import until

# A driver that says what ends it; its mark is a file, and cannot be read while another file is there.
DRIVER = """\
import logging, pathlib, signal, sys, time
from lake_assets.errors import LauncherError
from lake_assets.remote import cancellation
folder = pathlib.Path(sys.argv[1])
logging.basicConfig(filename=folder / "log", format="%(message)s")
def is_cancelled():
    if (folder / "away").exists():
        with (folder / "asked").open("a") as asked:
            asked.write(".")
        raise LauncherError("the bucket is away:", "come back.")
    return (folder / "cancel").exists()
def stop(*_):
    (folder / "stopped").touch()
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
cancellation._WATCH_SECONDS = 0.02
cancellation.end_when_cancelled(is_cancelled)
(folder / "begun").write_text("")
time.sleep(60)
"""
JVM = "import subprocess, sys; subprocess.call([sys.executable, '-c', *sys.argv[1:]])"


def test_a_driver_ends_when_its_run_is_marked_and_warns_once_while_it_cannot_see_that(tmp_path: Path) -> None:
    (tmp_path / "away").touch()
    with subprocess.Popen([sys.executable, "-c", DRIVER, os.fspath(tmp_path)]) as driver:
        until(lambda: (tmp_path / "asked").exists() and len((tmp_path / "asked").read_text()) > 2, "it asks")
        assert driver.poll() is None
        (tmp_path / "cancel").touch()
        (tmp_path / "away").unlink()
        assert driver.wait(120) == 3
    (warning,) = (tmp_path / "log").read_text().splitlines()
    assert warning == "The driver cannot see whether its run is cancelled: the bucket is away: come back."


def test_a_driver_whose_jvm_was_killed_ends_in_order(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", JVM, DRIVER, os.fspath(tmp_path)]) as jvm:
        until((tmp_path / "begun").exists, "the driver begins")
        jvm.kill()
        assert not is_running(jvm.pid) or jvm.wait(120) < 0
    until((tmp_path / "stopped").exists, "the driver stops")
