"""What ends a driver that no signal of its launcher reaches: the end of its JVM."""

import os
import subprocess
import sys
from pathlib import Path

from lake_assets.wings.launch.cancellation import is_running
from lake_assets_tests.until import until

# A driver that says what ends it.
DRIVER = """\
import os, pathlib, signal, sys, time
from lake_assets.wings.launch import cancellation
folder = pathlib.Path(sys.argv[1])
def stop(*_):
    (folder / "stopped").touch()
    if len(sys.argv) == 2:
        sys.exit(3)
signal.signal(signal.SIGTERM, stop)
cancellation._WATCH_SECONDS = 0.02
if len(sys.argv) > 2:
    cancellation.GRACE_SECONDS = 0.02
cancellation._end_if(lambda: False)
(folder / "begun").write_text(str(os.getpid()))
while True:
    time.sleep(60)
"""
JVM = "import subprocess, sys; subprocess.call([sys.executable, '-c', *sys.argv[1:]])"


def test_a_driver_whose_jvm_was_killed_ends_in_order(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", JVM, DRIVER, os.fspath(tmp_path)]) as jvm:
        until((tmp_path / "begun").exists, "the driver begins")
        jvm.kill()
        assert not is_running(jvm.pid) or jvm.wait(120) < 0
    until((tmp_path / "stopped").exists, "the driver stops")


def test_a_driver_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", JVM, DRIVER, os.fspath(tmp_path), "goes on"]) as jvm:
        until(lambda: (tmp_path / "begun").exists() and bool((tmp_path / "begun").read_text()), "the driver begins")
        jvm.kill()
    driver = int((tmp_path / "begun").read_text())
    until(lambda: not is_running(driver), "the driver is killed")
