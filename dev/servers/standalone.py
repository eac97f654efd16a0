"""A real standalone cluster of Spark: a master and a worker of the installed pyspark, whose scripts it lacks."""

import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
import pytest

from dev.servers.absent import started
from dev.servers.process import free_ports, retried, running
from lake_assets.spark.jvm import find_java

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_HOST = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"


@retried
def standalone_cluster() -> Iterator[str]:
    """A master with one worker of two cores, on free ports of 127.0.0.1; the master's URL."""
    port, web, worker_web = free_ports(3)
    url = f"spark://{_HOST}:{port}"
    folders = [Path(tempfile.mkdtemp(prefix=f"lake-assets-{name}-")) for name in ("master", "worker")]
    with ExitStack() as stack:
        for command, folder, workers in (
            (master_command(port, web), folders[0], 0),
            (worker_command(url, worker_web, folders[1], cores=2), folders[1], 1),
        ):
            started_now = running(
                command,
                folder=folder,
                ready=lambda workers=workers: (found := live_workers(web)) is not None and len(found) >= workers,  # type: ignore[misc]
                environment=cluster_environment(),
                timeout=120,
            )
            stack.enter_context(started_now)
        yield url


def cluster_environment() -> dict[str, str]:
    """The variables of a master or a worker: this environment's Java and Python, and little memory."""
    return {
        "JAVA_HOME": os.fspath(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
    }


def master_command(port: int, web: int) -> list[str]:
    """A master on 127.0.0.1; `web` is the port of its page."""
    return [str(_CLASS), f"{_DEPLOY}.master.Master", "--host", _HOST, "--port", str(port), "--webui-port", str(web)]


def worker_command(master: str, web: int, folder: Path, *, cores: int) -> list[str]:
    """A worker of the master with this URL, with a gigabyte for executors.

    Args:
        master: `spark://host:port`.
        web: the port of its page.
        folder: for the logs and files of its executors.
        cores: of its executors together.
    """
    options = {"--host": _HOST, "--webui-port": web, "--cores": cores, "--memory": "1g", "--work-dir": folder}
    split = [str(part) for option in options.items() for part in option]
    return [str(_CLASS), f"{_DEPLOY}.worker.Worker", *split, master]


def live_workers(web: int) -> list[int] | None:
    """The ports of the pages of a master's live workers; None while it does not answer.

    Args:
        web: the port of the master's page.
    """
    try:
        with urllib.request.urlopen(f"http://{_HOST}:{web}/json/", timeout=5) as answer:
            workers = json.load(answer)["workers"]
    except (OSError, ValueError):
        return None
    return [urlsplit(worker["webuiaddress"]).port or 0 for worker in workers if worker["state"] == "ALIVE"]


@pytest.fixture(scope="session")
def standalone() -> Iterator[str]:
    """The URL of the master of one standalone cluster for all tests of a run."""
    with started("Spark standalone", standalone_cluster()) as url:
        yield url
