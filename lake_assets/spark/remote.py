"""A Spark Connect server whose client this process is: its URL, and whether it can be reached."""

import importlib
import json
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lake_assets.base.errors import (
    LakeAssetsError,
    SessionLostError,
    SparkUnavailableError,
    SparkUnreachableError,
    install,
)
from lake_assets.base.events import report
from lake_assets.config.spark import REMOTE, without_parameters

Result = TypeVar("Result")

_PORT = 15002  # Spark's default
_SECONDS = 10.0  # for a connection
_TRIES, _PAUSE = 28, 5000  # retries, and milliseconds between the later ones; together two minutes


def remote_url(settings: Mapping[str, str]) -> str | None:
    """Return the URL of the Spark Connect server that settings or environment name; None for a classic session."""
    return settings.get(REMOTE) or os.environ.get("SPARK_REMOTE")


def is_local(url: str) -> bool:
    """Return whether pyspark starts the server in this process."""
    return url.startswith("local")


def check_client(url: str) -> None:
    """Check that this process can be a client of the server.

    Raises SparkUnreachableError if nothing listens at the URL, and SparkUnavailableError for what no retry mends.
    """
    try:
        importlib.import_module("pyspark.sql.connect.session")
    except ImportError as error:
        raise SparkUnavailableError(
            f"packages of Spark Connect's client are missing ({' '.join(str(error).split())}):",
            f"{install('connect')}.",
        ) from error
    if is_local(url):
        return
    try:
        parts = urlsplit(without_parameters(url))
        host, port = parts.hostname or "", parts.port or _PORT
        socket.create_connection((host, port), _SECONDS).close()
        _await_answer(url)
    except (OSError, ValueError) as error:
        is_wrong = isinstance(error, ValueError | socket.gaierror)
        kind = SparkUnavailableError if is_wrong else SparkUnreachableError
        raise kind(
            f"no Spark Connect server answers at {without_parameters(url)} ({error}):",
            f"start it, or correct {REMOTE} or SPARK_REMOTE.",
        ) from error


def _await_answer(url: str) -> None:
    """Wait until what listens at a URL answers as a server of gRPC does, or raise TimeoutError.

    pyspark would wait for ten minutes.
    """
    grpc: Any = importlib.import_module("grpc")
    channel = importlib.import_module("pyspark.sql.connect.client").DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(_SECONDS)
    except grpc.FutureTimeoutError:
        raise TimeoutError("what listens there does not answer as one") from None
    finally:
        channel.close()


def is_client(spark: SparkSession) -> bool:
    """Return whether the session is one of a Spark Connect server's client."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


@contextmanager
def interrupted_on_server(spark: SparkSession, tag: str) -> Iterator[None]:
    """Let the server stop the jobs of the block if it is interrupted; they would go on without their client.

    The tag is that of this block alone, so no other job of the session, and no other client, is interrupted. In a
    classic session nothing is done here. pyspark 4.2 interrupts the job itself. pyspark 4.0 does so only when nothing
    refers to the call any more, but the error of an interrupt does; with Dagster the job would go on.
    """
    if not is_client(spark):
        yield
        return
    spark.addTag(tag)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):  # a job that failed has ended
            with suppress(Exception), _without_retries(spark):
                spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


@contextmanager
def _without_retries(spark: SparkSession) -> Iterator[None]:
    """Let requests of the block fail at once if the server is away, because the interrupt is to end soon."""
    policies = spark.client.get_retry_policies()
    spark.client.set_retry_policies([])
    try:
        yield
    finally:
        spark.client.set_retry_policies(policies)


def limit_retries(spark: SparkSession) -> None:
    """Let a client try to reach a server that is away for two minutes, every five seconds.

    Spark's own rule is ten minutes, in pauses of up to one.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - of the extra `connect`

    spark.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES, max_backoff=_PAUSE)])


def end_lost_sessions() -> None:
    """End the client's sessions of this process, which their server no longer has, so that new ones can start."""
    from pyspark.sql.connect.session import SparkSession as Client  # noqa: PLC0415 - of the extra `connect`

    for session in {Client.getActiveSession(), Client._get_default_session()} - {None}:  # noqa: SLF001 - not public
        assert session is not None  # noqa: S101 - see above
        session.release_session_on_close = False  # the server would be asked for what it has not
        session.stop()


def kept_session(sessions: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
    """Return a function that keeps the session of its first call, and asks for another only when that has stopped."""
    started: list[SparkSession] = []

    def session() -> SparkSession:
        if not started or has_stopped(started[-1]):
            started.append(sessions())
        return started[-1]

    return session


def in_a_session(sessions: Callable[[], SparkSession], work: Callable[[SparkSession], Result]) -> Result:
    """Return the result of some work; if a server has lost its session, it is repeated once in a new one."""
    try:
        return work(sessions())
    except SessionLostError as error:
        report_retry(error)
        return work(sessions())


def report_retry(error: LakeAssetsError) -> None:
    """Report that a job is repeated after an error."""
    report("retry", step="job", retry=1, kind=type(error).__name__, message=error.problem.rstrip(":"))


def has_stopped(spark: SparkSession) -> bool:
    """Return whether the session is a client's and was ended in this process."""
    client: Any = spark
    return is_client(spark) and bool(client.is_stopped)


WAIT_SECONDS = 300.0  # a cluster that first starts a machine for an executor takes minutes
_LOOK_SECONDS = 10.0  # between two looks; a job that ends before the first one has no look
_RETRY_SECONDS = 5.0  # seconds for the server's page
_UI_PORT = "4040"  # Spark's default


@contextmanager
def awaiting_executors(spark: SparkSession, at_most: float | None = None) -> Iterator[None]:
    """End the jobs in the block if the session has no executor for `WAIT_SECONDS`, or after `at_most` seconds.

    Spark itself waits for ever, for example after the master of a standalone cluster has forgotten the application. A
    job that waits for others on busy executors goes on. Whether a Spark Connect server has executors is on its page; if
    this process cannot read the page, the job goes on too. Jobs that are ended raise SparkUnreachableError.
    """
    ended, over = threading.Event(), threading.Event()
    watching = threading.Thread(target=_watch, args=(spark, ended, over, at_most), daemon=True)
    watching.start()
    try:
        yield
    except Exception as error:
        if not over.is_set():
            raise
        raise SparkUnreachableError(
            f"the Spark cluster has executed no task for {at_most or WAIT_SECONDS:g} seconds:",
            "start workers with free cores and memory, which its master's page lists. If that page lacks the "
            "application, start the Spark Connect server again, or this process.",
        ) from error
    finally:
        ended.set()


def _watch(spark: SparkSession, ended: threading.Event, over: threading.Event, at_most: float | None) -> None:
    begun = since = time.monotonic()  # since when there is no executor
    while not ended.wait(_LOOK_SECONDS):
        now = time.monotonic()
        if at_most is None and _has_executors(spark) is not False:
            since = now
        if now - begun >= (at_most or WAIT_SECONDS) and now - since >= (at_most or WAIT_SECONDS):
            over.set()
            with suppress(Exception):  # the job goes on; the next look tries again
                _end_jobs(spark)


def _end_jobs(spark: SparkSession) -> None:
    if is_client(spark):
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def _has_executors(spark: SparkSession) -> bool | None:
    """Return whether the session has an executor; None if that is unknown, or the session has no cluster."""
    try:
        return _of_server(spark) if is_client(spark) else _of_driver(spark)
    except (PySparkException, Py4JError, OSError, ValueError):  # Spark ends, or the server's page is elsewhere
        return None


def _of_driver(spark: SparkSession) -> bool | None:
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return None
    jvm: Any = context._jsc  # noqa: SLF001 - Python has no list of executors
    return len(jvm.sc().statusTracker().getExecutorInfos()) > 1  # the driver is one


def _of_server(spark: SparkSession) -> bool | None:
    if str(spark.conf.get("spark.master", "local")).startswith("local"):
        return None
    host, port = spark.conf.get("spark.driver.host"), spark.conf.get("spark.ui.port", _UI_PORT)
    address = f"http://{host}:{port}/api/v1/applications/{spark.conf.get('spark.app.id')}/executors"
    with urllib.request.urlopen(address, timeout=_RETRY_SECONDS) as answer:
        return any(executor["id"] != "driver" and executor["isActive"] for executor in json.load(answer))
