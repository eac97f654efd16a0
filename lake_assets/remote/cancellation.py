"""What ends a driver from outside: its supervisor's end, or its JVM's end."""

import os
import signal
import threading
import time
from collections.abc import Callable

from lake_assets.remote.supervise import DRIVER_FILE, SUPERVISOR, is_running

_WATCH_SECONDS = 1.0


def announce() -> None:
    """Give the supervisor, if there is one, this process to cancel, and end with it."""
    file, supervisor = os.environ.pop(DRIVER_FILE, None), os.environ.pop(SUPERVISOR, None)
    if file is None or supervisor is None:
        return
    with open(file, "w", encoding="ascii") as opened:  # noqa: PTH123 - one word
        opened.write(str(os.getpid()))
    number = int(supervisor)
    _end_if(lambda: not is_running(number))


def _end_if(condition: Callable[[], bool]) -> None:
    """Terminate this process when the condition holds, or when Spark's JVM that started it has ended."""
    threading.Thread(target=_watch, args=(condition, os.getppid()), daemon=True).start()


def _watch(condition: Callable[[], bool], parent: int) -> None:
    while os.getppid() == parent and not condition():
        time.sleep(_WATCH_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
