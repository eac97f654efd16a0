"""A driver on a worker of a cluster, by `spark-submit`: its command, its states, its cancellation.

Spark refuses a Python script in cluster mode on a standalone cluster, but not a class. `PythonRunner`, with which Spark
itself runs scripts on YARN and Kubernetes, is such a class: it starts Python with the arguments that follow.
"""

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import KUBERNETES, STANDALONE, SparkSubmit
from lake_assets.config.spark import MASTER
from lake_assets.errors import LauncherError
from lake_assets.launch.pipes import BucketMessages
from lake_assets.launch.received import Ended, Received
from lake_assets.launch.spark_submit import ENTRY, check_fit, spark_submit
from lake_assets.remote.bucket import CancelMark
from lake_assets.remote.supervise import GRACE_SECONDS, SETTLE_SECONDS
from lake_assets.spark.java import find_java

POLL_SECONDS = 0.5
SUBMIT_SECONDS = 30.0  # for `spark-submit` to print the id of a driver that is cancelled at once
CLOSE_SECONDS = 10.0  # for `spark-submit` to end
_KILL_SECONDS = 60.0

_ID = re.compile(r"Driver successfully submitted as (\S+)|Submitted application (\S+)")
_STATE = re.compile(r"State of (?:driver )?driver-\S+ is ([A-Z]+)")
_PLACE = re.compile(r"Driver running on (\S+)")
_PROBLEM = re.compile(r"ERROR \S+: (.*\S)|Exception in thread \S+ (.*\S)")
_CAUSE = re.compile(r"^Caused by: \S+: (.*\S)")
_RUNNER = "org.apache.spark.deploy.PythonRunner"
_CLIENT = "org.apache.spark.deploy.Client"
_MODULE = "lake_assets.remote"
_LOG4J = Path(__file__).with_name("submit_log4j2.properties")
_NETWORK = ("spark.rpc.", "spark.network.", "spark.authenticate", "spark.ssl.")
_OWN = ("PATH", "SPARK_HOME", "SPARK_CONF_DIR")
"""The variables of this process that `spark-submit` gets: on a standalone cluster it hands all of its own to the
driver, through the master, and this process may have secrets in others."""


class ClusterDriver:
    """A driver on a worker.

    Args:
        config: with the Spark settings.
        runs: the launcher, in cluster mode.
        received: what the driver has reported; takes the lines of `spark-submit`, in the thread that called `start`.

    Raises:
        LauncherError: the settings do not fit the launcher.
    """

    def __init__(self, config: LakeConfig, runs: SparkSubmit, received: Received) -> None:
        check_fit(config, runs)
        assert runs.messages is not None  # noqa: S101 - `check_fit` has seen it
        self.messages = BucketMessages(runs.messages)
        self._config = config
        self._runs = runs
        self._received = received
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._printed = _Printed()
        self._ended_at: float | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return f"driver {self._printed.id}" if self._printed.id else "driver of the run"

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks at it."""
        return POLL_SECONDS

    def start(self, variables: Mapping[str, str]) -> None:
        """Start `spark-submit`.

        Raises:
            LauncherError: there is none.
            SparkUnavailableError: there is no usable Java for it.
        """
        self._submission: ClusterSubmission = cluster_submission(self._config, self._runs, variables)
        mark = CancelMark.of(variables)
        assert mark is not None  # noqa: S101 - the messages are in a bucket
        self._mark = mark
        # In a session of its own, so that Ctrl-C of a terminal does not end it before the driver.
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            self._submission.command,
            env=dict(self._submission.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def has_ended(self) -> bool:
        """Return whether it has done its work, or the cluster has ended it.

        A driver whose JVM was ended notices that, and records what it had begun: it is given some seconds.
        """
        self._print()
        if self._received.is_complete:
            return True
        if self._process.poll() is None:
            return False
        self._ended_at = self._ended_at or time.monotonic()
        is_late = time.monotonic() > self._ended_at + SETTLE_SECONDS
        return not self._received.has_started or self._received.has_all or is_late

    def cancel(self, look: Callable[[], None]) -> None:
        """End it, after it has recorded what it had begun.

        Args:
            look: takes new messages.

        Raises:
            LauncherError: it has not ended, or the bucket cannot be reached.
        """
        try:
            self._mark.put()
            if self._received.has_started:
                self._await(self._is_over, GRACE_SECONDS, look)
        finally:
            try:
                if not self._is_over():
                    self._kill()
            finally:
                self._close()

    def ended(self) -> Ended:
        """Return how it ended, for the errors of partitions without an outcome.

        If `spark-submit` has lost the cluster, the driver may go on there: it is cancelled.
        """
        self._close()
        if not self._received.has_all and (self._printed.id or self._received.has_started):
            with self._received.warning(f"The {self.name} may go on"):
                self._mark.put()
        if self._printed.id is None:
            reason = f"spark-submit ended with code {self._process.returncode}"
            hint = "correct `runs` and `spark` of the config; the output of spark-submit, on stderr, says more."
            return Ended(f"{reason}: {self._printed.problem}" if self._printed.problem else reason, hint)
        where = f" on {self._printed.place}" if self._printed.place else ""
        problem = f": {self._printed.problem}" if self._printed.problem else ""
        return Ended(
            f"{self._printed.id}{where} is {self._printed.state or 'gone'}{problem}",
            "its own output, on its worker, says why; the page of the cluster's master shows it.",
        )

    def _is_over(self) -> bool:
        """Return whether there is nothing to end: the driver, or `spark-submit`, has reported the driver's end."""
        return self._received.has_all or self.has_ended()

    def _kill(self) -> None:
        """End a driver that does not end by itself.

        Raises:
            LauncherError: the cluster does not end it.
        """
        if not self._submission.is_standalone:
            raise LauncherError("it has not begun, or does not end:", "end it with the cluster's own command.")
        self._await(lambda: self._printed.id is not None or self._process.poll() is not None, SUBMIT_SECONDS)
        if self._printed.id is None:
            return
        try:
            subprocess.run(  # noqa: S603 - our own command
                self._submission.kill(self._printed.id),
                env=dict(self._submission.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_KILL_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise LauncherError(
                f"the cluster does not end it ({error}):", "end it on the page of the master."
            ) from error

    def _await(self, condition: Callable[[], bool], seconds: float, look: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            look()
            time.sleep(POLL_SECONDS)

    def _close(self) -> None:
        """End `spark-submit`, which only looks at the driver's state every ten seconds."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._print()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        with self._process.stdout as output:
            for line in output:
                self._printed.take(line)
                self._lines.put(line.rstrip("\n"))

    def _print(self) -> None:
        with suppress(Empty):
            while True:
                self._received.output(self._lines.get_nowait())


class _Printed:
    """What `spark-submit` has printed of a driver.

    Attributes:
        id: of the driver on a standalone cluster, of the application on YARN; None before.
        state: on a standalone cluster.
        place: its worker there.
        problem: the first error, or the first cause that Java tells of it.
    """

    def __init__(self) -> None:
        self.id: str | None = None
        self.state: str | None = None
        self.place: str | None = None
        self.problem: str | None = None
        self._has_cause = False

    def take(self, line: str) -> None:
        """Take a line."""
        self.id = self.id or _first(_ID, line)
        self.state = _first(_STATE, line) or self.state
        self.place = _first(_PLACE, line) or self.place
        self.problem = self.problem or _first(_PROBLEM, line)
        if not self._has_cause and (cause := _first(_CAUSE, line)) is not None:
            self.problem, self._has_cause = cause, True


def _first(pattern: re.Pattern[str], line: str) -> str | None:
    match = pattern.search(line)
    return None if match is None else next(group for group in match.groups() if group is not None)


@dataclass(frozen=True, slots=True)
class ClusterSubmission:
    """What `spark-submit` is given. No part of it has a secret of the config.

    Attributes:
        program: the path of `spark-submit`.
        master: of the cluster.
        settings: Spark's, of the driver.
        application: the arguments after the settings.
        environment: of `spark-submit`.
    """

    program: str
    master: str
    settings: Mapping[str, str]
    application: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def is_standalone(self) -> bool:
        """Whether the cluster is a standalone one."""
        return self.master.startswith(STANDALONE)

    @property
    def command(self) -> tuple[str, ...]:
        """Starts the driver."""
        return (self.program, "--deploy-mode", "cluster", *_conf(self.settings), *self.application)

    def kill(self, driver: str) -> tuple[str, ...]:
        """Return the command that ends a driver of a standalone cluster.

        Args:
            driver: its id.
        """
        network = {name: value for name, value in self.settings.items() if name.startswith(_NETWORK)}
        return (
            self.program,
            "--master",
            "local",
            *_conf(network),
            "--class",
            _CLIENT,
            "spark-internal",
            "kill",
            self.master,
            driver,
        )


def cluster_submission(config: LakeConfig, runs: SparkSubmit, variables: Mapping[str, str]) -> ClusterSubmission:
    """Return the submission of a driver.

    Args:
        config: with the Spark settings. They are validated to have no secrets, so they may be arguments.
        runs: the launcher.
        variables: more of the driver, such as Pipes' own.

    Raises:
        LauncherError: the settings do not fit the launcher, or there is no `spark-submit`.
        SparkUnavailableError: there is no usable Java for `spark-submit`.
    """
    check_fit(config, runs)
    program = spark_submit(runs)
    settings = {"spark.app.name": "lake-assets"} | config.spark.settings
    master, of_driver = settings[MASTER], dict(runs.environment) | dict(variables)
    home = os.fspath(find_java().home)
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Dlog4j2.configurationFile={_LOG4J.as_uri()}".lstrip()
    if master.startswith(STANDALONE):
        # JAVA_HOME would replace that of the worker.
        own = {name: value for name in _OWN if (value := os.environ.get(name))}
        environment = own | {"PATH": f"{home}/bin:{own.get('PATH', os.defpath)}", "SPARK_SUBMIT_OPTS": options}
        settings = {"spark.pyspark.python": sys.executable} | settings | _STANDALONE_SETTINGS
        application = ("--class", _RUNNER, _jar(program).as_uri(), "-m", "", _MODULE)
        return ClusterSubmission(program, master, settings, application, environment | of_driver)
    environment = dict(os.environ) | {"JAVA_HOME": home, "SPARK_SUBMIT_OPTS": options}
    if master.startswith(KUBERNETES):
        settings |= {f"spark.kubernetes.driverEnv.{name}": value for name, value in of_driver.items()}
        return ClusterSubmission(program, master, settings, (f"local://{ENTRY}",), environment)
    settings |= {f"spark.yarn.appMasterEnv.{name}": value for name, value in of_driver.items()} | _YARN_SETTINGS
    return ClusterSubmission(program, master, settings, (str(ENTRY),), environment)


# A cluster that starts a lost driver again would mix its messages with those of the first one; Dagster retries runs.
_STANDALONE_SETTINGS = {"spark.driver.supervise": "false", "spark.standalone.submit.waitAppCompletion": "true"}
_YARN_SETTINGS = {"spark.yarn.maxAppAttempts": "1"}


def _jar(program: str) -> Path:
    """Return a jar that is on the workers too: Spark wants one beside the class, and each driver gets a copy.

    Raises:
        LauncherError: the installation of Spark is not found.
    """
    homes = [Path(program).resolve().parents[1]]
    if home := os.environ.get("SPARK_HOME"):
        homes.insert(0, Path(home))
    if (pyspark := importlib.util.find_spec("pyspark")) is not None and pyspark.origin is not None:
        homes.append(Path(pyspark.origin).parent)
    for folder in homes:
        if found := sorted(folder.glob("jars/spark-tags_*.jar")):
            return found[0]
    raise LauncherError(f"{program} is not in an installation of Spark, which has a folder jars:", "set SPARK_HOME.")


def _conf(settings: Mapping[str, str]) -> list[str]:
    return [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
