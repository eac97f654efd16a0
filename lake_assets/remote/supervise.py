"""A program between a launcher and `spark-submit`, which forwards a cancellation to the driver.

`spark-submit` is a JVM that starts the driver's Python. A signal to the JVM stops Spark first, and the driver would
record the failure of a job, not a cancelled run. So the signal goes to the driver's Python, which ends Spark itself.
Without a driver yet, everything that was started is ended. If the launcher is killed, its run is cancelled too.

This module imports only Python's own library, and a file that does so too, because it starts beside the launcher for
each run.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from lake_assets.spark.jvm_errors import JvmErrors

DRIVER_FILE = "LAKE_ASSETS_DRIVER_FILE"
SUPERVISOR = "LAKE_ASSETS_SUPERVISOR"
"""Variables for the driver: the file for its process's number, and the number of the supervisor's process."""

GRACE_SECONDS = 60.0  # for a cancelled driver: the ledger's rows, and files that are removed
WAIT_SECONDS = GRACE_SECONDS + 30  # of a launcher for the driver of a cancelled run; the supervisor kills it before
SETTLE_SECONDS = 15.0  # for a driver whose JVM was killed
_POLL_SECONDS = 0.1


def is_running(process: int) -> bool:
    """Return whether a process with this number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(command: Sequence[str]) -> int:
    """Run the command until it ends; returns its exit code."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's form
        asked.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    parent = os.getppid()
    with tempfile.TemporaryDirectory(prefix="lake-assets-") as folder:
        file = Path(folder) / "driver"
        errors = JvmErrors()
        environment = os.environ | {DRIVER_FILE: str(file), SUPERVISOR: str(os.getpid())}
        # In a session of its own, so that Ctrl-C of a terminal reaches the driver by this program only.
        with subprocess.Popen(  # noqa: S603 - the launcher's command
            command, stdin=subprocess.DEVNULL, stderr=errors.writer, env=environment, start_new_session=True
        ) as process:
            errors.writer.close()
            code = _supervise(process, asked, parent, file)
            errors.wait()
            return code


def _supervise(process: "subprocess.Popen[bytes]", asked: Sequence[int], parent: int, file: Path) -> int:
    deadline: float | None = None
    while True:
        try:
            code = process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        else:
            _settle(file)
            return code if code >= 0 else 128 - code
        if deadline is None and (asked or os.getppid() != parent):
            deadline = time.monotonic() + GRACE_SECONDS
            _cancel(process, file)
        if deadline is not None and time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)


def _settle(file: Path) -> None:
    """Wait for a driver whose JVM has ended before it: it notices that, and records what it had begun."""
    driver = file.read_text(encoding="ascii") if file.exists() else ""
    deadline = time.monotonic() + SETTLE_SECONDS
    while driver and is_running(int(driver)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _cancel(process: "subprocess.Popen[bytes]", file: Path) -> None:
    driver = file.read_text(encoding="ascii") if file.exists() else ""
    try:
        if driver:
            os.kill(int(driver), signal.SIGTERM)
        else:
            os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it ends just now


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
