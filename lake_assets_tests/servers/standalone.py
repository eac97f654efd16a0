"""A real standalone cluster of Spark: a master and a worker of the installed pyspark, whose scripts it lacks."""

import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from lake_assets.spark.java import find_java
from lake_assets_tests.servers.absent import started
from lake_assets_tests.servers.process import free_ports, running, start_with_retry

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_HOST = "127.0.0.1"


@contextmanager
def standalone_cluster() -> Iterator[str]:
    """A master with one worker of two cores, on free ports of 127.0.0.1; the master's URL.

    Raises:
        ServerStartError: one of them did not come up.
    """
    with ExitStack() as stack:
        yield start_with_retry(lambda: stack.enter_context(_cluster()))


@contextmanager
def _cluster() -> Iterator[str]:
    port, web, worker_web = free_ports(3)
    url = f"spark://{_HOST}:{port}"
    environment = {
        "JAVA_HOME": os.fspath(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    folders = [Path(tempfile.mkdtemp(prefix=f"lake-assets-{name}-")) for name in ("master", "worker")]
    master = [f"--host={_HOST}", f"--port={port}", f"--webui-port={web}"]
    worker = [f"--host={_HOST}", f"--webui-port={worker_web}", "--cores=2", "--memory=1g", f"--work-dir={folders[1]}"]
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        for command, folder, workers in (
            ([f"{deploy}.master.Master", *_split(master)], folders[0], 0),
            ([f"{deploy}.worker.Worker", *_split(worker), url], folders[1], 1),
        ):
            started_now = running(
                [str(_CLASS), *command],
                folder=folder,
                ready=lambda workers=workers: _workers(web) >= workers,  # type: ignore[misc]
                environment=environment,
                timeout=120,
            )
            stack.enter_context(started_now)
        yield url


def _split(options: list[str]) -> list[str]:
    """The options as the classes' parser takes them: name and value apart."""
    return [part for option in options for part in option.split("=", 1)]


def _workers(web: int) -> int:
    """The number of the master's live workers; -1 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{_HOST}:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return -1


@pytest.fixture(scope="session")
def standalone() -> Iterator[str]:
    """The URL of the master of one standalone cluster for all tests of a run."""
    with ExitStack() as stack:
        yield started("Spark standalone", lambda: stack.enter_context(standalone_cluster()))
