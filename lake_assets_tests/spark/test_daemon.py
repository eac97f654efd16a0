"""The daemon of Spark's Python workers: they have the tasks' code, and end quietly when the JVM closes a connection."""

import socket
from pathlib import Path

import pytest

from lake_assets.spark import daemon
from lake_assets_tests.spark.processes import run_python

WORKER = """
import gc, sys
from lake_assets.spark.session import spark_config, start_session
session = start_session(spark_config(cores=2))
has = lambda _: ["lake_assets.parquet.task" in sys.modules, "duckdb" in sys.modules, gc.get_freeze_count() > 10_000]
print(session.sparkContext.parallelize([0], 1).mapPartitions(has).collect())
"""


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


@pytest.mark.soak
def test_workers_begin_with_the_code_of_the_tasks_which_their_garbage_collector_ignores(tmp_path: Path) -> None:
    run = run_python("-c", WORKER, folder=tmp_path)
    assert run.stdout.strip() == "[True, False, True]", run.stderr
