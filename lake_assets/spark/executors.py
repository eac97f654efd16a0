"""Executors of a cluster: a job that has none for minutes is ended, and fails with that reason."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lake_assets.errors import SparkUnreachableError
from lake_assets.spark.remote import is_client

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
