"""A real Spark Connect server: that of the installed pyspark, which has its class and no script that starts it."""

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from dev.servers.absent import started
from dev.servers.process import free_ports, listens, retried, running
from lake_assets.spark.jvm import find_java

TOKEN = f"token-of-the-server-{secrets.token_hex(8)}"

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@retried
def connect_server(
    *, python: str = sys.executable, port: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A server with two cores on 127.0.0.1, which wants a token; its URL, with the token.

    Args:
        python: runs its Python workers.
        port: a free one if None.
        settings: more of Spark's settings.
    """
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-connect-"))
    port = port or free_ports(1)[0]
    conf = {"spark.ui.enabled": "false", **(settings or {})}
    command = connect_command(port, conf.pop("spark.master", "local[2]"), conf)
    environment = {
        "JAVA_HOME": os.fspath(find_java().home),
        "PYSPARK_PYTHON": python,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN,
    }
    with running(command, folder=folder, ready=lambda: listens(port), environment=environment, timeout=120):
        yield f"sc://localhost:{port}/;token={TOKEN}"


def connect_command(port: int, master: str, settings: Mapping[str, str]) -> list[str]:
    """A server on 127.0.0.1, which wants the token of the variable `SPARK_CONNECT_AUTHENTICATE_TOKEN`.

    Args:
        port: that it listens on.
        master: of its jobs: `local[2]`, or a cluster's.
        settings: more of Spark's settings.
    """
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **settings,
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = [option for name, value in conf.items() for option in ("--conf", f"{name}={value}")]
    return [str(submit), "--class", _SERVER, "--master", master, *options, "spark-internal"]


@pytest.fixture(scope="session")
def spark_connect() -> Iterator[str]:
    """The URL of one Spark Connect server for all tests of a run."""
    with started("Spark Connect", connect_server()) as url:
        yield url
