"""The Python workers of a cluster: each must have this package, in the version of the driver.

A worker that lacks the package gets it from the driver, once for each session. One that has another version is an
error: the values of a job may not load there, or mean something else. So each task compares the versions before it
loads anything of its job.
"""

import importlib.util
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from lake_assets.base.errors import WorkerError
from lake_assets.base.events import report
from lake_assets.spark.remote import awaiting_executors
from lake_assets.version import VERSION

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

    That is 0 for a local session, whose workers are those of this process. `at_most` is seconds for the job of this
    check; None for as long as there are executors. Raises WorkerError if a worker has another version of this package,
    or lacks a package that it needs.
    """
    if spark in _cores:
        return _cores[spark]
    if isinstance(spark, SparkSession) and str(spark.sparkContext.master).partition("[")[0] == "local":
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
            importlib.import_module("lake_assets.spark.task.task")
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
