"""A real Spark Connect server: that of the installed pyspark, which has its class and no script that starts it."""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from lake_assets.spark.java import find_java
from lake_assets_tests.servers.absent import started
from lake_assets_tests.servers.process import free_ports, running, start_with_retry

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server() -> Iterator[str]:
    """A server with two cores on a free port of 127.0.0.1; its URL.

    Raises:
        ServerStartError: it did not come up.
    """
    with ExitStack() as stack:
        yield start_with_retry(lambda: stack.enter_context(_connect_server()))


@contextmanager
def _connect_server() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-connect-"))
    [port] = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    conf = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {"JAVA_HOME": os.fspath(find_java().home), "PYSPARK_PYTHON": sys.executable}
    command = [str(submit), "--class", _SERVER, "--master", "local[2]", *conf, "spark-internal"]
    with running(command, folder=folder, ready=lambda: _answers(port), environment=environment, timeout=120):
        yield f"sc://127.0.0.1:{port}"


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def spark_connect() -> Iterator[str]:
    """The URL of one Spark Connect server for all tests of a run."""
    with ExitStack() as stack:
        yield started("Spark Connect", lambda: stack.enter_context(connect_server()))
