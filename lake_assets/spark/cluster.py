"""A session whose work runs elsewhere: a client of a Spark Connect server, executors to wait for, their Python workers.

Each worker must have this package, in the version of the driver. One that lacks the package gets it from the driver,
once for each session. One that has another version is an error: the values of a job may not load there, or mean
something else. So each task compares the versions before it loads anything of its job.
"""

import importlib
import importlib.util
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lake_assets.base.errors import (
    LakeAssetsError,
    SessionLostError,
    SparkUnavailableError,
    SparkUnreachableError,
    WorkerError,
    install,
)
from lake_assets.base.events import report
from lake_assets.config.spark import REMOTE, SHARED, without_parameters
from lake_assets.spark.shared_jvm import cancel, shared_jvm
from lake_assets.version import VERSION

Result = TypeVar("Result")

_PORT = 15002  # Spark's default
_SECONDS = 10.0  # for a connection
_TRIES, _PAUSE = 28, 5000  # retries, and milliseconds between the later ones; together two minutes


def remote_url(settings: Mapping[str, str]) -> str | None:
    """Return the URL of the Spark Connect server that settings or environment name; None for a classic session."""
    url = settings.get(REMOTE)
    return None if url == SHARED else url or os.environ.get("SPARK_REMOTE")


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
    """Let a server, or a shared JVM, stop the jobs of the block if it is interrupted; they would go on without it.

    The tag is that of this block alone, so no other job of the session, and no other client, is interrupted. In other
    sessions nothing is done here. pyspark 4.2 interrupts the job itself. pyspark 4.0 does so only when nothing
    refers to the call any more, but the error of an interrupt does; with Dagster the job would go on.
    """
    if shared_jvm() is not None:
        context, is_interrupted = spark.sparkContext, False
        context.addJobTag(tag)
        try:
            yield
        except BaseException as error:
            is_interrupted = not isinstance(error, Exception)
            raise
        finally:
            if is_interrupted:  # this thread's connection still has the answer of its call to come
                cancel(tag)
            else:
                with suppress(Py4JError, ConnectionError):  # the JVM has ended
                    context.removeJobTag(tag)
        return
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
    return work(sessions())  # outside of the block: the lost session is no cause of what is raised now


def report_retry(error: LakeAssetsError) -> None:
    """Report that a job is repeated after an error."""
    report("retry", step="job", retry=1, kind=type(error).__name__, message=error.problem.rstrip(":"))


def has_stopped(spark: SparkSession) -> bool:
    """Return whether the session is a client's and was ended in this process, or one of a shared JVM that has ended."""
    if (jvm := shared_jvm()) is not None:
        return jvm.poll() is not None
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


In = TypeVar("In")
Out = TypeVar("Out")

_PACKAGE = Path(__file__).parents[1]
_WIDE = 10_000  # rows; more than the cores of any session
_REFUSAL = re.compile(r"lake-assets (?:\S+ runs here, but|lacks a package) ")
_INSTALL = "install lake-assets there, with the extras of this machine, so that the packages of both are the same."
_cores: WeakKeyDictionary[object, int] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker reports."""

    host: str
    version: str | None  # of this package there; None if it lacks the package
    error: str | None  # why the code of the tasks cannot be imported there; None if it can
    tries: str  # of the task before the one that reports


def portable_work(work: Callable[[Iterator[In]], Iterator[Out]]) -> Callable[[Iterable[In]], Iterator[Out]]:
    """Return the work of a task as a function that any worker can load, and that refuses one with another version.

    `worker_refusal` finds the texts that it raises.
    """
    load, pickled, ours = cloudpickle.loads, cloudpickle.dumps(work), VERSION  # type: ignore[no-untyped-call]

    # Pickled by value, because it is defined here: it must not need this package.
    def checked(items: Iterable[In]) -> Iterator[Out]:
        import socket  # noqa: PLC0415 - of the worker

        try:
            from lake_assets.version import VERSION as THEIRS  # noqa: PLC0415 - of the worker
        except ImportError as error:
            theirs = "no lake-assets" if (error.name or "") == "lake_assets" else "an older lake-assets"
        else:
            theirs = f"lake-assets {THEIRS}"
        if theirs != f"lake-assets {ours}":
            raise RuntimeError(f"lake-assets {ours} runs here, but {theirs} on the worker at {socket.gethostname()}")
        try:
            todo = load(pickled)
        except ImportError as error:
            raise RuntimeError(
                f"lake-assets lacks a package on the worker at {socket.gethostname()} ({error})"
            ) from None
        yield from todo(items)

    checked.__annotations__ = {}  # pickled too, and its type variables are of this module
    return checked


def prepare_workers(spark: SparkSession, at_most: float | None = None) -> int:
    """Check the workers of a session once, and send them this package if they lack it; returns how many tasks they run.

    That is 0 for a local session, whose workers have this process's Python. `at_most` is seconds for the job of this
    check; None for as long as there are executors. Raises WorkerError if a worker has another version of this package,
    or lacks a package that it needs.
    """
    if spark in _cores:
        return _cores[spark]
    if isinstance(spark, SparkSession) and str(spark.sparkContext.master).partition("[")[0] == "local":
        # Without PYSPARK_PYTHON, and in a virtual environment that is not activated, Spark would start another Python.
        spark.sparkContext.pythonExec = sys.executable
        return 0
    with awaiting_executors(spark, at_most):
        workers = _workers(spark)
    for worker in workers:
        report_tries(worker.host, int(worker.tries))
    if any(worker.version is None for worker in workers):
        _send(spark)
    for worker in workers:
        _refuse(worker)
    _cores[spark] = len(workers)  # by Spark's own choice of partitions
    return len(workers)


def report_tries(host: str, tries: int) -> None:
    """Report that Spark tried a task again, if it did."""
    if tries:
        why = f"a task of Spark failed, or its executor was lost; its next try, on {host}, succeeded"
        report("retry", step="job", retry=tries, kind="task", message=why)


def _workers(spark: SparkSession) -> Sequence[Worker]:
    """Return what the workers report, one for each task of a job that Spark divides as it likes."""

    def look() -> tuple[str, str | None, str | None, str]:
        import importlib  # noqa: PLC0415 - of the worker
        import socket  # noqa: PLC0415

        from pyspark import TaskContext  # noqa: PLC0415

        version, error = None, None
        try:
            version = importlib.import_module("lake_assets.version").VERSION
            for tasks in ("work", "table_reader"):
                importlib.import_module(f"lake_assets.spark.task.{tasks}")
        except ImportError as raised:
            if raised.name == "lake_assets.version":
                version = "an older version"
            elif version is not None:
                error = str(raised)
        context = TaskContext.get()
        return socket.gethostname(), version, error, str(context.attemptNumber() if context else 0)

    def of_rows(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow  # noqa: PLC0415 - of the worker

        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([text], pyarrow.string()) for text in look()], names=names)

    def of_items(_: Iterable[int]) -> Iterator[tuple[str, str | None, str | None, str]]:
        yield look()

    names = [field.name for field in fields(Worker)]
    if isinstance(spark, SparkSession):
        rows: Any = spark.sparkContext.range(_WIDE).mapPartitions(of_items).collect()
    else:
        rows = spark.range(_WIDE).mapInArrow(of_rows, ", ".join(f"{name} string" for name in names)).collect()
    return [Worker(*row) for row in rows]


def _refuse(worker: Worker) -> None:
    if worker.version is not None and worker.version != VERSION:
        theirs = worker.version if worker.version[:1].isdigit() else "an older version"
        raise WorkerError(
            f"lake-assets {VERSION} runs here, but {theirs} on the worker at {worker.host}:",
            f"install lake-assets {VERSION} there, or remove it there, and the run sends its own.",
        )
    if worker.error is not None:
        raise WorkerError(f"lake-assets lacks a package on the worker at {worker.host} ({worker.error}):", _INSTALL)


def worker_refusal(text: str) -> WorkerError | None:
    """Return the error for a text that a function of `portable_work` raised on a worker; None for any other text."""
    if not _REFUSAL.match(text):
        return None
    if "lacks" in text:
        return WorkerError(f"{text}:", _INSTALL)
    return WorkerError(f"{text}:", "install the driver's version on every worker. Then run it again.")


def _send(spark: SparkSession) -> None:
    """Send this package to all workers of the session, present and later ones."""
    if isinstance(spark, SparkSession):
        # The driver serves the file as long as the session lives.
        folder = tempfile.mkdtemp(dir=spark.sparkContext._temp_dir)  # noqa: SLF001
        spark.sparkContext.addPyFile(os.fspath(_zipped(Path(folder))))
        return
    with tempfile.TemporaryDirectory() as name:
        spark.addArtifacts(os.fspath(_zipped(Path(name))), pyfile=True)


def _zipped(folder: Path) -> Path:
    """Return a zip of this package in a folder, with the byte code that Python has cached for it."""
    file = folder / f"lake_assets-{VERSION}.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_PACKAGE.rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            name = path.relative_to(_PACKAGE.parent)
            archive.write(path, name)
            cached = Path(importlib.util.cache_from_source(os.fspath(path))) if path.suffix == ".py" else None
            if cached is not None and cached.is_file():
                archive.write(cached, name.with_suffix(".pyc"))
    return file
