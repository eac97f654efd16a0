"""The daemon of Spark's Python workers: they have the tasks' code, and end quietly when the JVM closes a connection."""

import os
import socket
from pathlib import Path

import pytest

from lake_assets.spark import daemon
from lake_assets_tests.spark.processes import run_python


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def worker(*_: object) -> int:
        raise error

    monkeypatch.setattr(daemon, "_worker", worker)
    with socket.socket() as sock:
        return daemon.worker(sock, authenticated=True)


def test_a_worker_whose_connection_is_closed_ends_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ConnectionResetError(), BrokenPipeError(), EOFError()):
        assert failing(error, monkeypatch) == 1
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError(), monkeypatch)


# A daemon that ends soon, as the module of a session's daemons.
SOON = """
from lake_assets.spark import daemon
daemon.IDLE_SECONDS, daemon.LOOK_SECONDS = 0.5, 0.1
daemon.main()
"""
SESSION = """
import os, psutil
from lake_assets.spark.spark_session import spark_config, start_session
settings = {"spark.python.daemon.module": "soon", "spark.python.worker.reuse": "false"}
session = start_session(spark_config(settings={"spark.master": "local[1]", **settings}))
parent = lambda _: [__import__("os").getppid()]
tried = []
for _ in range(2):
    tried += session.sparkContext.parallelize([0], 1).mapPartitions(parent).collect()
    psutil.wait_procs([psutil.Process(tried[-1])] if psutil.pid_exists(tried[-1]) else [], timeout=120)
    tried.append(psutil.pid_exists(tried[-1]))
print(tried[1], tried[3], tried[0] != tried[2])
"""


@pytest.mark.more
def test_a_daemon_without_workers_ends_and_the_next_task_of_the_session_has_another(tmp_path: Path) -> None:
    (tmp_path / "soon.py").write_text(SOON, "utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    run = run_python("-c", SESSION, folder=tmp_path, environment={"PYTHONPATH": path})
    assert run.stdout.strip() == "False False True", run.stderr


STARTED = """
import gc, os, psutil, pyspark, sys, time
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.spark.spark_session import spark_config, start_session
session = start_session(spark_config(settings={"spark.master": "local[2]"}))
def daemons():
    return [p.pid for p in psutil.Process().children(recursive=True) if "lake_assets.spark.daemon" in p.cmdline()]
pause, limit = pause_between(0.1, 0.1), Limit(seconds=60)
begun = poll(lambda: len(daemons()) == 3, pause=pause, limit=limit)  # the daemon, and a worker for each core
start_session({})  # finds it
def look(rows):
    has = ["lake_assets.spark.task.work" in sys.modules, "duckdb" in sys.modules, gc.get_freeze_count() > 10_000]
    return [(os.getpid(), sys.modules["pyspark"].__file__, has) for _ in rows]
pids, files, has = zip(*session.sparkContext.parallelize([0, 1], 2).mapPartitions(look).collect())
print(begun, {*pids} <= {*daemons()}, len(daemons()), {*files} == {pyspark.__file__}, *has[0])
"""


@pytest.mark.more
def test_a_session_begins_workers_with_the_compiled_pyspark_and_the_code_of_the_tasks(tmp_path: Path) -> None:
    """Their garbage collector ignores that code, and DuckDB is not in it."""
    run = run_python("-c", STARTED, folder=tmp_path)
    assert run.stdout.strip() == "True True 3 True True False True", run.stderr
