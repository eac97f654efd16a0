"""A Spark Connect server whose client this process is: its URL, and whether it can be reached."""

import importlib
import os
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from lake_assets.errors import SparkUnavailableError

REMOTE = "spark.remote"

_PORT = 15002  # Spark's default
_SECONDS = 10.0  # for a connection; pyspark's client tries for ten minutes


def remote_url(settings: Mapping[str, str]) -> str | None:
    """The URL of the Spark Connect server that these settings, or the environment, name; None for a classic session."""
    return settings.get(REMOTE) or os.environ.get("SPARK_REMOTE")


def is_local(url: str) -> bool:
    """Whether pyspark starts the server in this process."""
    return url.startswith("local")


def check_client(url: str) -> None:
    """Check that this process can be a client of the server.

    Raises:
        SparkUnavailableError: packages of the client are missing, or nothing listens at the URL.
    """
    try:
        importlib.import_module("pyspark.sql.connect.session")
    except ImportError as error:
        raise SparkUnavailableError(
            f"packages of Spark Connect's client are missing ({' '.join(str(error).split())}):",
            "pip install 'lake-assets[connect]'.",
        ) from error
    if is_local(url):
        return
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORT
        socket.create_connection((host, port), _SECONDS).close()
    except (OSError, ValueError) as error:
        raise SparkUnavailableError(
            f"no Spark Connect server answers at {host_of(url)} ({error}):",
            f"start it, or correct {REMOTE} or SPARK_REMOTE.",
        ) from error


def host_of(url: str) -> str:
    """The URL without its parameters, which may have a token."""
    return url.partition("/;")[0]
