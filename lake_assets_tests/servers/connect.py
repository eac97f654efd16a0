"""A real Spark Connect server: that of the installed pyspark, which has its class and no script that starts it."""

import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from lake_assets.spark.java import find_java
from lake_assets_tests.servers.absent import started
from lake_assets_tests.servers.process import free_ports, running, start_with_retry

TOKEN = f"token-of-the-server-{secrets.token_hex(8)}"

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(
    *, python: str = sys.executable, port: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A server with two cores on 127.0.0.1, which wants a token; its URL, with the token.

    Args:
        python: runs its Python workers.
        port: a free one if None.
        settings: more of Spark's settings.

    Raises:
        ServerStartError: it did not come up.
    """
    with ExitStack() as stack:
        yield start_with_retry(lambda: stack.enter_context(_connect_server(python, port, settings or {})))


@contextmanager
def _connect_server(python: str, given: int | None, more: Mapping[str, str]) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-connect-"))
    port = given or free_ports(1)[0]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **more,
    }
    conf = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {
        "JAVA_HOME": os.fspath(find_java().home),
        "PYSPARK_PYTHON": python,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN,
    }
    master = settings.pop("spark.master", "local[2]")
    command = [str(submit), "--class", _SERVER, "--master", master, *conf, "spark-internal"]
    with running(command, folder=folder, ready=lambda: _answers(port), environment=environment, timeout=120):
        yield f"sc://localhost:{port}/;token={TOKEN}"


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def spark_connect() -> Iterator[str]:
    """The URL of one Spark Connect server for all tests of a run."""
    with ExitStack() as stack:
        yield started("Spark Connect", lambda: stack.enter_context(connect_server()))
