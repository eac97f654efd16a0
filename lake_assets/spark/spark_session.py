"""The Spark session: its settings, and the environment in which Spark starts.

`spark_config` returns a plain dict, for `start_session` and for Dagster's `LazyPySparkResource`. `prepare_environment`
sets the environment variables of the machine: which Java and which Python. Settings of the machine, in the file
`spark-defaults.conf` of SPARK_CONF_DIR or SPARK_HOME, hold before those of this package.
"""

import locale
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from lake_assets.base.errors import SparkUnavailableError
from lake_assets.base.machine import cache_folder, has_name, usable_cores
from lake_assets.config.spark import REMOTE, SHARED
from lake_assets.spark.cluster import check_client, end_lost_sessions, is_local, kept_session, limit_retries, remote_url
from lake_assets.spark.jvm import (
    CORRECT_JAVA_HOME,
    Java,
    clear_ended,
    find_java,
    has_session,
    sharing_options,
    start_jvm,
    stop_session,
)
from lake_assets.spark.shared_jvm import join_jvm
from lake_assets.spark.spark_errors import last_problem, refused_session, silence_loggers

logger = logging.getLogger(__name__)

LOG_LEVEL = "spark.log.level"
_TASK_TRIES = "2"  # of a local session; each try of a task that always fails takes time; a cluster's default is 4

_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")
_SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # DuckLake registers no INT96 column.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""The settings that every session needs."""

Sessions = Callable[[], SparkSession]
"""Returns the Spark session; called only if there is work for Spark."""

_VARIABLES = ("PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_LOCAL_DIRS")
_DEFAULT = re.compile(r"\s*(spark\.[^\s=:]+)\s*[=:\s]\s*(.*?)\s*")  # a line of spark-defaults.conf
_TEMPORARY = "-Djava.io.tmpdir="
_CORE = re.compile(r"spark-core_[\d.]+-((\d+\.\d+)\..+)\.jar")
_LOG4J = Path(__file__).with_name("log4j2.properties")
_SOCKET_FOLDER = 60  # bytes of its path: that of a socket has 107 at most, of which Spark takes 42
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
_TO_STANDARD_ERROR = "-XX:+DisplayVMOutputToStderr"  # why the JVM cannot start; standard output is a command's result
_DAEMON = "spark.python.daemon.module"
JVM_OPTIONS = "spark.driver.defaultJavaOptions"  # comes before the user's spark.driver.extraJavaOptions


def spark_config(
    *, app_name: str = "lake-assets", settings: Mapping[str, str] | None = None, transforms: bool = True
) -> dict[str, str]:
    """Return the Spark settings that this package needs, without those of the machine's `spark-defaults.conf`.

    The user's own are on top. Without `spark.master` the session is local, and tries a failing task
    `spark.task.maxFailures` times, by default twice. A Spark Connect server, by `spark.remote` or the environment
    variable `SPARK_REMOTE`, has its own master.

    Without `transforms` no row enters the JVM, and a local session's JVM compiles with its quick compiler only, which
    halves the processor time of its start. With them a session shares no JVM: its workers would keep the code of other
    processes.
    """
    if transforms or os.environ.get("SPARK_REMOTE"):
        settings = {name: value for name, value in (settings or {}).items() if (name, value) != (REMOTE, SHARED)}
    if remote_url(settings or {}):
        return _SQL_SETTINGS | dict(settings or {})  # a client sets nothing else of a server
    given = _given()[1]  # Spark reads the others itself
    master = {"spark.master": given.get("spark.master", "local[*]")}
    config = _SQL_SETTINGS | {
        "spark.app.name": app_name,
        "spark.python.worker.reuse": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    ours = shlex.join([_TO_STANDARD_ERROR, f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"])
    if not (os.environ.get("SPARK_HOME") or os.environ.get("SPARK_CONF_DIR")):
        # The user's own Spark has its own logging.
        config[JVM_OPTIONS] = ours
    config = _without(config, given) | master | dict(settings or {})
    is_ours = config.get(JVM_OPTIONS) == ours
    if is_ours and "log4j" not in config.get("spark.driver.extraJavaOptions", ""):
        # Each failed try of a task logs stack traces, and the error that is raised explains them.
        config.setdefault(LOG_LEVEL, given.get(LOG_LEVEL, "OFF"))
    if config["spark.master"].startswith("local"):
        config["spark.master"] = _with_tries(config["spark.master"], config.get("spark.task.maxFailures", _TASK_TRIES))
        local = {
            # Avoids questions of a firewall.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Adaptive execution joins small ones.
            "spark.sql.shuffle.partitions": str(2 * usable_cores()),
            # Spark's default is a folder in the current directory.
            "spark.sql.warehouse.dir": (cache_folder() / "warehouse").as_uri(),
        }
        local |= _sockets()
        if config.get(LOG_LEVEL) == "OFF":
            local[_DAEMON] = "lake_assets.spark.daemon"
        if is_ours and not transforms:
            config[JVM_OPTIONS] = f"{ours} {_QUICK_COMPILER}"
        return _without(local, given) | config
    return _without(config, {REMOTE: SHARED})  # a cluster has an application for each driver


def _without(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in given}


def _given() -> tuple[Path, Mapping[str, str]]:
    """Return the file of settings that Spark's scripts read on this machine, and its settings; none without a file."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    lines = file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else ()
    return file, {match[1]: match[2] for line in lines if (match := _DEFAULT.fullmatch(line))}


def _elsewhere() -> str:
    """Return where this machine has settings of Spark besides the config, for an error: a file, and variables."""
    file, given = _given()
    places = [str(file)] * bool(given) + [name for name in _VARIABLES if os.environ.get(name)]
    return "".join(f", or in {place}" for place in places)


def _refuse_other_spark() -> None:
    """Refuse a SPARK_HOME of another Spark than the installed pyspark, which cannot call its JVM."""
    if home := os.environ.get("SPARK_HOME"):
        cores = (_CORE.fullmatch(jar.name) for jar in Path(home, "jars").glob("spark-core_*.jar"))
        version, minor = next((core.groups() for core in cores if core), ("", ""))
        if not minor or not pyspark.__version__.startswith(f"{minor}."):
            what = f"is Spark {version}" if version else "has no Spark (no jars/spark-core_*.jar)"
            raise SparkUnavailableError(
                f"SPARK_HOME={home} {what}, and the installed pyspark is {pyspark.__version__}:",
                "unset SPARK_HOME, or let it name a Spark of pyspark's version.",
            )


def _sockets() -> dict[str, str]:
    """Return the settings by which the JVM and Python meet at a file, since Spark 4.1: TCP delays answers by 40 ms."""
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > _SOCKET_FOLDER:
        return {"spark.python.unix.domain.socket.enabled": "false"}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def _machine_options() -> list[str]:
    """Return the options by which a JVM takes user and temporary files of this process, and tell Spark the user.

    Java itself does not read TMPDIR, and Spark wants a user with a name and a home.
    """
    options = []
    if (folder := tempfile.gettempdir()) != "/tmp" and _TEMPORARY not in os.environ.get("JAVA_TOOL_OPTIONS", ""):  # noqa: S108
        options.append(f"{_TEMPORARY}{folder}")
    if has_name():
        return options
    os.environ.setdefault("SPARK_USER", str(os.getuid()))
    return [*options, f"-Duser.name={os.getuid()}", f"-Duser.home={cache_folder()}"]


def _with_tries(master: str, tries: str) -> str:
    """Let a local master try a failed task again, by a second number in its brackets; it ignores the setting."""
    cores = _LOCAL.fullmatch(master)
    return f"local[{cores[1] or 1}, {tries}]" if cores else master


def prepare_environment(conf: Mapping[str, str] | None = None) -> Java | None:
    """Set the environment variables of this process for a Spark session: JAVA_HOME, pyspark's two for Python, LC_ALL.

    A JAVA_HOME that cannot be used is replaced, with a warning. `start_session` calls this function. Call it before
    other code starts the session, such as Dagster's resource. It may be called again. Returns the Java that will run
    the driver; None if the driver's JVM, or a Spark Connect server, runs already.
    """
    conf = conf or {}
    # A worker with another Python than the driver's lacks packages, or refuses to run.
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    remote = remote_url(conf)
    if "PYSPARK_GATEWAY_PORT" in os.environ or (remote and not is_local(remote)):
        return None
    _refuse_other_spark()
    if conf.get("spark.master", "").startswith("local"):  # else the JVM ends where the host's name cannot be resolved
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    if locale.getencoding().lower() != "utf-8":  # else the JVM cannot name files with other letters than English ones
        os.environ["LC_ALL"] = "C.UTF-8"
    java = find_java()
    if java.instead_of:
        logger.warning(
            "%s: Spark is started with %s instead, from %s. %s",
            *(java.instead_of, java.home, java.origin, CORRECT_JAVA_HOME),
        )
    os.environ["JAVA_HOME"] = os.fspath(java.home)
    return java


def start_session(conf: Mapping[str, str]) -> SparkSession:
    """Start the Spark session with these settings, or return the one that runs in this process.

    With the setting `spark.remote` it is a client's session of a Spark Connect server. A process has either such
    sessions or a classic one.

    A session whose JVM has ended is replaced. With the log level OFF, pyspark does not log the errors that it raises.
    The start takes about 6 s, and 4 s with a class archive (see `class_sharing`).
    """
    clear_ended()
    remote = remote_url(conf)
    if conf.get(LOG_LEVEL, "OFF" if remote else None) == "OFF":
        silence_loggers()
    if remote:
        check_client(remote)
    shared = conf if conf.get(REMOTE) == SHARED else None
    conf = {name: value for name, value in conf.items() if shared is None or name != REMOTE}
    java = prepare_environment(conf)
    if java is not None and (options := [*_machine_options(), *sharing_options(java, conf)]):
        # First, so that the user's options override them.
        conf = {**conf, JVM_OPTIONS: f"{shlex.join(options)} {conf.get(JVM_OPTIONS, _given()[1].get(JVM_OPTIONS, ''))}"}
    try:
        if shared is not None:
            join_jvm(conf, shared)
        elif not remote:
            start_jvm(conf)
            if _DAEMON in conf and not has_session():
                _start_workers(SparkContext.getOrCreate(SparkConf().setAll([*conf.items()])))
        session = SparkSession.builder.config(map={**conf}).getOrCreate()
    except PySparkRuntimeError as error:
        last = "".join(f"\n{line}" for line in getattr(error, "__notes__", ()))
        raise SparkUnavailableError(
            f"Spark's JVM ended while it started, with JAVA_HOME={os.environ['JAVA_HOME']} ({error}):",
            f"correct `spark` in the config by what it wrote to standard error{_elsewhere()}.{last}",
        ) from error
    except (PySparkException, Py4JJavaError) as error:
        if not remote or isinstance(error, Py4JJavaError):
            raise SparkUnavailableError(
                f"Spark does not start with its settings: {last_problem(error)}:",
                f"correct them in the section `spark` of the config{_elsewhere()}.",
            ) from error
        end_lost_sessions()  # pyspark would return it again
        raise refused_session(remote, error) from error
    except (Py4JError, ConnectionError) as error:
        raise SparkUnavailableError(
            "Spark's JVM ended while it made the session, and its log is off:",
            f"set spark.log.level: ERROR, which shows why, and correct `spark` in the config{_elsewhere()}.",
        ) from error
    if remote:
        limit_retries(session)
    return session


def _start_workers(context: SparkContext) -> None:
    """Let the JVM start its Python workers while it makes the session, which takes as long."""

    def work() -> None:
        with suppress(Exception):  # of py4j or Spark; a job that has work for them raises it too
            context.parallelize([], context.defaultParallelism).mapPartitions(list).collect()

    Thread(target=work, name="start of Python workers", daemon=True).start()


def own_session(settings: Mapping[str, str], *, transforms: bool) -> AbstractContextManager[Sessions]:
    """Return a context with a function that starts the session at its first call; when it ends, that session stops.

    A session that ran in this process before is used, and stays. One that a Spark Connect server has ended is replaced.
    """
    return _session(lambda: start_session(spark_config(settings=settings, transforms=transforms)))


def submitted_session(settings: Mapping[str, str]) -> AbstractContextManager[Sessions]:
    """Return a context like `own_session`, for a driver that a cluster has submitted, as EMR Serverless does.

    Master, resources and the workers' Python are those of the submission. This package adds what its jobs need.
    """
    return _session(lambda: SparkSession.builder.config(map={**_SQL_SETTINGS, **settings}).getOrCreate())


@contextmanager
def _session(start: Callable[[], SparkSession]) -> Iterator[Sessions]:
    started: list[SparkSession] = []

    def session() -> SparkSession:
        started.append(start())
        return started[-1]

    others = has_session()
    try:
        yield kept_session(session)
    finally:
        if started and not others:
            stop_session(started[-1])
