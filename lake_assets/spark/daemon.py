"""pyspark's daemon, which forks the Python workers of a local session, without needless tracebacks.

After a task has failed, the JVM closes the connections of workers that it will not use again. pyspark's own daemon
prints a traceback for each, although the worker only ends. The setting `spark.python.daemon.module` has this module.
"""

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve tasks until the JVM closes the connection; returns the exit code."""
    try:
        return _worker(sock, authenticated)
    except (ConnectionError, EOFError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
