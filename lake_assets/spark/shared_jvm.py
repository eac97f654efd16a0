"""One JVM of Spark for all processes of a user on this machine: `spark: {remote: shared}`.

The first process starts it, the others connect to it by py4j, and it ends after the last one, however that ends. For
this its standard input is a named pipe that each process holds open for writing: the JVM of pyspark ends itself at the
end of its input, and the system closes what a process held. Processes with other settings, credentials, versions or
Pythons have another JVM.

Source of the rule: `org.apache.spark.api.python.PythonGatewayServer`, and the Linux manual, fifo(7).
"""

import array
import fcntl
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import pyspark
from filelock import FileLock
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from lake_assets.base.errors import SparkUnavailableError
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.version import VERSION

_ALIVE, _ADDRESS, _LOCK, _ERRORS = "alive", "address", "lock", "errors"  # files of a JVM's folder
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_LAST_LINES = 20  # of what a JVM wrote that ended while it started
_TICK = pause_between(0.02, 0.04)
_ANSWER = Limit(seconds=10.0)  # for a JVM that lives to read a byte
_END = Limit(seconds=30.0)  # for one that does not, to end
_CANCEL_SECONDS = 2.0

# What tasks read in the environment, beside the settings of their job. The tasks of all processes have the JVM's.
_OF_TASKS = re.compile(
    r"(?:AWS|AZURE|BOTO|CLOUDSDK|GCS|GOOGLE|JAVA|JDK|LAKE|LC|MALLOC|OMP|POLARS|PYSPARK|PYTHON|SPARK|SSL|S3)_?\w*"
    r"|\w*(?:PROXY|proxy|CA_BUNDLE)|HOME|LANG|LD_LIBRARY_PATH|PATH|TMPDIR|TZ|USER"
)
_OWN = {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "PYTHONHASHSEED"}  # pyspark sets them in each driver


_children: list[subprocess.Popen[bytes]] = []
"""The JVMs that this process has started; the processes of others may need them."""


class SharedJvm:
    """The JVM, as far as this process is concerned; in the place of the process that pyspark would have started."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe  # for writing

    def poll(self) -> int | None:
        """Return None while the JVM lives, as `subprocess.Popen` does."""
        if self._pipe < 0:
            return 0
        ends = select.poll()
        ends.register(self._pipe, 0)
        return 0 if ends.poll(0) else None  # POLLERR: nobody reads it

    def leave(self) -> None:
        """Let the JVM end, unless other processes need it."""
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)


def shared_jvm() -> SharedJvm | None:
    """Return the shared JVM of this process's session; None if it has none."""
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - not public
    return process if isinstance(process, SharedJvm) else None


def join_jvm(conf: Mapping[str, str], key: Mapping[str, str]) -> None:
    """Let this process's classic session be one of the shared JVM for the settings `key`, unless it has another JVM.

    The JVM starts with `conf`, which also has options that differ between processes, such as that of a class archive.
    If it ends while it starts, the notes of the PySparkRuntimeError are the last lines that it wrote. Raises
    SparkUnavailableError if its folder cannot be made.
    """
    with SparkContext._lock:  # noqa: SLF001 - not public
        if SparkContext._gateway is not None or _PORT in os.environ:  # noqa: SLF001
            return
        _children[:] = [child for child in _children if child.poll() is None]
        gateway = _joined(_folder(key), conf)
        handler = signal.getsignal(signal.SIGINT)
        settings = SparkConf(_jvm=gateway.jvm).setAll([*conf.items()])
        jvm: Any = gateway.jvm
        of_all = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate(settings._jconf))  # noqa: SLF001
        context = SparkContext(conf=settings, gateway=gateway, jsc=of_all)
        # With accumulators the JVM would call a task's process at its end, and wait for one that is stopped.
        context._javaAccumulator = None  # noqa: SLF001
        accumulators: Any = context._accumulatorServer  # noqa: SLF001
        context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001
        threading.Thread(target=accumulators.shutdown, daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)  # pyspark's cancels the jobs of all


def leave_jvm() -> None:
    """End this process's part in a shared JVM, if it has one, whose session goes on; `clear_ended` clears the rest."""
    if (jvm := shared_jvm()) is None:
        return
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    jvm.leave()
    with suppress(Exception):  # of py4j, whose connections may be broken
        gateway.close(keep_callback_server=True)
        gateway._gateway_client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)  # noqa: SLF001


def cancel(tag: str) -> None:
    """Cancel the jobs of the shared JVM with a tag; an interrupted call has the connection of this thread."""
    context = SparkContext._active_spark_context  # noqa: SLF001

    def work() -> None:
        with suppress(Exception):
            if context is not None:
                context.cancelJobsWithTag(tag)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_CANCEL_SECONDS)


def _folder(key: Mapping[str, str]) -> Path:
    """Return the folder of the JVM for these settings, among this machine's temporary files."""
    environment = sorted(item for item in os.environ.items() if _OF_TASKS.fullmatch(item[0]) and item[0] not in _OWN)
    settings = sorted(item for item in key.items() if item[0] != "spark.app.name")
    text = repr((settings, environment, sys.executable, VERSION, pyspark.__version__))
    parent = Path(tempfile.gettempdir(), f"lake-assets-{os.getuid()}")
    for folder in (parent, result := parent / f"spark-{sha256(text.encode()).hexdigest()[:16]}"):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:  # it has the key of the JVM
            raise SparkUnavailableError(
                f"the folder {folder} of the shared Spark is open to other users:",
                "set TMPDIR to another folder, or let this user alone read it (chmod 700), if this user made it.",
            )
    return result


def _joined(folder: Path, conf: Mapping[str, str]) -> JavaGateway:
    """Return the gateway of the JVM of a folder, which is started if there is none; others wait for it."""
    with FileLock(folder / _LOCK), ExitStack() as undo:
        pipe = _pipe_of_living(folder)
        pipe = _started(folder, conf) if pipe is None else pipe
        undo.callback(os.close, pipe)
        gateway = _connected(folder, pipe)
        undo.pop_all()
        return gateway


def _opened(folder: Path) -> int | None:
    """Return the pipe to the JVM of a folder, open for writing; None if nobody reads it."""
    try:
        return os.open(folder / _ALIVE, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def _pipe_of_living(folder: Path) -> int | None:
    """Return the pipe to the JVM of a folder; None if there is no JVM, or it is about to end, which is awaited.

    A JVM that lives reads a byte from it. One that has seen its end before does not read again.
    """
    if (pipe := _opened(folder)) is None:
        return None
    jvm = SharedJvm(pipe)
    with suppress(BrokenPipeError):
        os.write(pipe, b"\n")
        if poll(lambda: not _unread(pipe) or jvm.poll() is not None, pause=_TICK, limit=_ANSWER) and jvm.poll() is None:
            return pipe
    os.close(pipe)

    def has_ended() -> bool:
        if (again := _opened(folder)) is not None:
            os.close(again)
        return again is None

    poll(has_ended, pause=_TICK, limit=_END)
    return None


def _unread(pipe: int) -> int:
    """Return how many bytes of a pipe nobody has read."""
    number = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, number)
    return number[0]


def _started(folder: Path, conf: Mapping[str, str]) -> int:
    """Start the JVM of a folder; returns the pipe to it, open for writing."""
    for name in (_ALIVE, _ADDRESS):
        (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / _ALIVE, 0o600)
    with ExitStack() as undo:
        with os.fdopen(os.open(folder / _ALIVE, os.O_RDONLY | os.O_NONBLOCK)) as reader:
            pipe = os.open(folder / _ALIVE, os.O_WRONLY)
            undo.callback(os.close, pipe)
            os.set_blocking(reader.fileno(), True)  # the JVM waits for its input
            process = _spark_submit(folder, conf, reader)
        undo.callback(_kill, process)
        poll(lambda: process.poll() is not None or (folder / _ADDRESS).is_file(), pause=_TICK)
        if process.poll() is not None:
            error = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            for line in (folder / _ERRORS).read_text("utf-8", errors="replace").splitlines()[-_LAST_LINES:]:
                error.add_note(line)
            raise error
        undo.pop_all()
    _children.append(process)
    return pipe


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _spark_submit(folder: Path, conf: Mapping[str, str], reader: IO[str]) -> subprocess.Popen[bytes]:
    """Start Spark's own script with the gateway of pyspark, as pyspark does."""
    environment = {
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": os.fspath(folder / _ADDRESS),
    }
    command = [os.fspath(Path(_find_spark_home(), "bin", "spark-submit"))]
    command += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    with (folder / _ERRORS).open("wb") as errors:
        # In a session of its own: it outlives this process, and no key of a terminal ends it.
        return subprocess.Popen(  # noqa: S603 - the installed Spark
            command, stdin=reader, stdout=subprocess.DEVNULL, stderr=errors, env=environment, start_new_session=True
        )


def _connected(folder: Path, pipe: int) -> JavaGateway:
    """Return a gateway to the JVM of a folder, whose address pyspark takes from the environment."""
    with (folder / _ADDRESS).open("rb") as file:
        port, length = (int.from_bytes(file.read(4), "big") for _ in range(2))
        os.environ |= {_PORT: str(port), _SECRET: file.read(length).decode()}
    try:
        gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    gateway.proc = SharedJvm(pipe)
    return gateway
