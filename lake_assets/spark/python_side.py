"""The JVM of this process's session: its start, its standard error, its end, and pyspark's state after that."""

import atexit
import importlib
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType

import psutil
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

_ENDED_SECONDS = 1.0  # for the rest of the pipe of a JVM that has ended; a worker of it may have the pipe's end too

_INCUBATOR = b"WARNING: Using incubator modules"
_LAST_LINES = 20  # of a JVM that ended while it started, in the error
_LAST_BYTES = 4096
_ALIVE_SECONDS = 0.01  # for the rest of the pipe of a JVM that lives


class JvmErrors:
    """Copies what a JVM writes to standard error to that of this process, while this one lives."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        # The end of the pipe for the JVM; the caller closes it when the JVM has it
        self.writer = os.fdopen(writer, "wb", buffering=0)
        self._last = b""
        self._copying = Thread(target=self._copy_all, args=(reader,), name="standard error of the JVM", daemon=True)
        self._copying.start()

    def wait(self, seconds: float = _ENDED_SECONDS) -> None:
        """Wait until everything is copied, at most this long."""
        self._copying.join(seconds)

    def last_lines(self) -> list[str]:
        """Return the last lines of a JVM that has ended."""
        self.wait()
        return self._last.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]

    def _copy_all(self, reader: int) -> None:
        with os.fdopen(reader, "rb") as errors:
            # Line by line up to the warning, which is among the first; then as it comes, as a progress bar does.
            for line in iter(errors.readline, b""):
                if _INCUBATOR in line:
                    break
                self._copy(line)
            while chunk := errors.read1():
                self._copy(chunk)

    def _copy(self, text: bytes) -> None:
        self._last = (self._last + text)[-_LAST_BYTES:]
        with suppress(OSError):  # nobody reads this process's errors; the pipe is read on, or the JVM would wait
            while text:
                text = text[os.write(2, text) :]


def start_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM of this process's classic sessions, unless it has one.

    What it writes to standard error goes to that of this process, without the warning of a module that Spark's own
    options ask for. If it ends while it starts, the notes of the PySparkRuntimeError are the last lines that it wrote.
    If the start is interrupted, the JVM is killed.
    """
    with SparkContext._lock:  # noqa: SLF001 - not public
        if SparkContext._gateway is None:  # noqa: SLF001
            SparkContext._ensure_initialized(gateway=_gateway(conf))  # noqa: SLF001


def _gateway(conf: Mapping[str, str]) -> JavaGateway:
    errors = JvmErrors()
    atexit.register(lambda: errors.wait(_ENDED_SECONDS if has_ended() else _ALIVE_SECONDS))
    # pyspark imports it at its first call of the JVM, for which this process waits now.
    Thread(target=_import, args=("pandas",), daemon=True).start()
    others = psutil.Process().children()
    try:
        with errors.writer as writer, _interrupts_kept():
            conf_of_jvm = SparkConf().setAll([*conf.items()])
            return launch_gateway(conf_of_jvm, {"stderr": writer})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        for line in errors.last_lines():
            error.add_note(line)
        raise
    except BaseException:
        # pyspark removes the folder in which it waits for the JVM's answer, and a JVM that cannot answer never ends.
        for process in psutil.Process().children():
            if process not in others and _is_jvm(process):
                process.kill()
                process.wait()
        raise


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Raise what a signal's handler has raised in the block once more at its end, if the block ends without it.

    The block forks, and Python ignores what is raised in the hooks of a fork, such as those of `logging`.
    """
    if threading.current_thread() is not threading.main_thread():  # others get no signals
        yield
        return
    raised: list[BaseException] = []
    all_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in all_handlers.items() if callable(handler)}

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handlers[signal.Signals(number)](number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    for number in handlers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for error in raised:
        raise error


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return "pyspark-shell" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _import(module: str) -> None:
    with suppress(ImportError):  # raised again, in the thread that needs it
        importlib.import_module(module)


def has_ended() -> bool:
    """Return whether the JVM of this process's session has ended; False if another process started it."""
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - not public
    return process is not None and process.poll() is not None


def clear_ended() -> bool:
    """Clear the session of a JVM that has ended, which pyspark would return again; returns whether there was one."""
    if not has_ended():
        return False
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        context._jsc = None  # noqa: SLF001 - otherwise stop() calls the JVM
        context.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    SQLContext._instantiatedContext = None  # noqa: SLF001
    return True


def has_session() -> bool:
    """Return whether a session runs in this process, started by anyone and in any thread."""
    clear_ended()
    context = SparkContext._active_spark_context  # noqa: SLF001 - the public function knows this thread's only
    return context is not None or SparkSession.getActiveSession() is not None


def stop_session(session: SparkSession) -> None:
    """Stop a session, also one whose JVM has ended or cannot be reached."""
    if clear_ended():
        return
    # None of a Spark Connect client. It ends up to a second after it is told to.
    context = SparkContext._active_spark_context  # noqa: SLF001
    accumulators = context and context._accumulatorServer  # noqa: SLF001
    if context:
        context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001
    try:
        session.stop()
    except (Py4JError, ConnectionError):
        logging.getLogger(__name__).debug("the session could not be stopped", exc_info=True)
    finally:
        if accumulators:
            Thread(target=accumulators.shutdown, daemon=True).start()
