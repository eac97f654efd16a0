"""pyspark's daemon, which forks the Python workers of a local session, with the tasks' code and without tracebacks.

The daemon imports the code of the tasks once, and its workers share that memory; their garbage collector ignores it.
After a task has failed, the JVM closes the connections of workers that it will not use again. pyspark's own daemon
prints a traceback for each, although the worker only ends. The setting `spark.python.daemon.module` has this module.
"""

import gc
import importlib
import socket
from contextlib import suppress

from pyspark import daemon

_TASK = "lake_assets.parquet.task"

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve tasks until the JVM closes the connection; returns the exit code."""
    try:
        return _worker(sock, authenticated)
    except (ConnectionError, EOFError):
        return 1


if __name__ == "__main__":
    with suppress(Exception):  # a task that needs it raises the error
        importlib.import_module(_TASK)
    # pyspark's workers collect garbage after each task, which takes 20 ms for what has been imported.
    gc.freeze()
    daemon.worker = worker
    daemon.manager()
