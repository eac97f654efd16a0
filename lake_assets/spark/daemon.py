"""pyspark's daemon, which forks the Python workers of a local session, with the tasks' code and without tracebacks.

The daemon imports the code of the tasks once, and its workers share that memory; their garbage collector ignores it.
An executor starts a daemon for each environment, and each session of a Spark Connect server has its own. Spark ends
none of them before the executor ends (SPARK-54055). So a daemon that has had no worker for a while ends itself; for
another task of the session the JVM starts a new one.

After a task has failed, the JVM closes the connections of workers that it will not use again. pyspark's own daemon
prints a traceback for each, although the worker only ends. The setting `spark.python.daemon.module` has this module.
"""

import gc
import importlib
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path


def _compiled_first() -> None:
    """Let Python import the installed pyspark, and not the zip files in it, which Spark puts first on the path.

    They have no compiled modules, so each daemon would compile them again, which takes half a second.
    """
    zips = [place for place in sys.path if place.endswith(".zip")]
    installed = PathFinder.find_spec("pyspark", [place for place in sys.path if place not in zips])
    if installed is not None and installed.origin is not None:
        folder = Path(installed.origin).parent
        sys.path.sort(key=lambda place: place.endswith(".zip") and folder in Path(place).parents)


_compiled_first()
from pyspark import daemon  # noqa: E402 - the path comes first

_TASK = "lake_assets.spark.task.work"
IDLE_SECONDS = 30.0  # without a worker; Spark itself ends a worker that has had no task for a minute
LOOK_SECONDS = 5.0  # between two looks for workers

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve tasks until the JVM closes the connection; returns the exit code."""
    try:
        return _worker(sock, authenticated)
    except (ConnectionError, EOFError):
        return 1


def end_when_idle() -> None:
    """Let this process end in order once it has had no child process for a while; its children have no such timer."""
    seen = time.monotonic()

    def look(*_: object) -> None:
        nonlocal seen
        with suppress(ChildProcessError):  # pyspark lets the system reap the children
            os.waitpid(-1, os.WNOHANG)
            seen = time.monotonic()
        if time.monotonic() > seen + IDLE_SECONDS:
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)


def main() -> None:
    """Fork workers until the JVM closes standard input, or none is needed for a while."""
    with suppress(Exception):  # a task that needs it raises the error
        importlib.import_module(_TASK)
    os.environ.setdefault("POLARS_MAX_THREADS", "4")  # of each worker; it would begin one for each core
    # pyspark's workers collect garbage after each task, which takes 20 ms for what has been imported.
    gc.freeze()
    daemon.worker = worker
    end_when_idle()
    daemon.manager()


if __name__ == "__main__":
    main()
