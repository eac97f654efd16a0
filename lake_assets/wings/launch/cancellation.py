"""What ends a driver on its launcher's machine from outside: the launcher's signal or end, or its JVM's end."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

DRIVER_FILE = "LAKE_ASSETS_DRIVER_FILE"
LAUNCHER = "LAKE_ASSETS_LAUNCHER"
"""Variables for the driver: the file for its process's number, and the number of the launcher's process."""

GRACE_SECONDS = 60.0  # for a driver that is to end: the ledger's rows, and files that are removed
_WATCH_SECONDS = 1.0


def is_running(process: int) -> bool:
    """Return whether a process with this number exists, and has not ended."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def announce() -> None:
    """Tell the launcher on this machine, if there is one, which process to cancel, and end with it."""
    file, launcher = os.environ.pop(DRIVER_FILE, None), os.environ.pop(LAUNCHER, None)
    if file is None or launcher is None:
        return
    Path(file).write_text(str(os.getpid()), encoding="ascii")
    number = int(launcher)
    _end_if(lambda: not is_running(number))


def _end_if(condition: Callable[[], bool]) -> None:
    """Terminate this process when the condition holds, or when Spark's JVM that started it has ended."""
    threading.Thread(target=_watch, args=(condition, os.getppid()), daemon=True).start()


def _watch(condition: Callable[[], bool], parent: int) -> None:
    while os.getppid() == parent and not condition():
        time.sleep(_WATCH_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
