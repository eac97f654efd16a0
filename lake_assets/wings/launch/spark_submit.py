"""A driver on this machine, by `spark-submit` in client mode."""

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lake_assets.base.errors import LauncherError
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import REMOTE, SparkSubmit, launcher_refusal
from lake_assets.spark.cluster import remote_url
from lake_assets.spark.jvm import JvmErrors, find_java, sharing_options
from lake_assets.spark.spark_session import JVM_OPTIONS, spark_config
from lake_assets.wings.launch import cancellation
from lake_assets.wings.launch.cancellation import DRIVER_FILE, GRACE_SECONDS, LAUNCHER, is_running
from lake_assets.wings.launch.pipes import Ended, FileMessages

ENTRY = Path(cancellation.__file__).with_name("__main__.py")

SETTLE_SECONDS = 15.0  # for a driver whose JVM was killed
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Submission:
    """A command, and what it needs in its environment. Neither has a secret."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def submission(config: LakeConfig, runs: SparkSubmit, *, transforms: bool) -> Submission:
    """Return the command that starts a driver for the config's Spark settings.

    Its settings have no secrets, so they may be arguments.
    """
    check_fit(config, runs)
    settings = config.spark.settings
    conf = spark_config(settings=settings, transforms=transforms)
    program, java = spark_submit(runs), find_java()
    if options := sharing_options(java, conf):
        conf[JVM_OPTIONS] = f"{shlex.join(options)} {conf.get(JVM_OPTIONS, '')}"
    arguments = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    environment = {
        "JAVA_HOME": os.fspath(java.home),
        "PYSPARK_PYTHON": conf.get("spark.pyspark.python", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return Submission((program, "--deploy-mode", "client", *arguments, str(ENTRY)), environment)


def check_fit(config: LakeConfig, runs: SparkSubmit) -> None:
    """Refuse Spark settings that do not fit the launcher, also of the environment."""
    settings = config.spark.settings
    remote = {REMOTE: url} if (url := remote_url(settings)) else {}
    if (reason := launcher_refusal(runs, settings | remote)) is not None:
        raise LauncherError(f"{reason[0]}:", f"{reason[1]}.")


def spark_submit(runs: SparkSubmit) -> str:
    """Return the path of `spark-submit`: that of the config, of `SPARK_HOME`, or of pyspark."""
    if runs.command:
        path, origin = Path(runs.command), "runs.command"
    elif home := os.environ.get("SPARK_HOME"):
        path, origin = Path(home) / "bin" / "spark-submit", "SPARK_HOME"
    else:
        pyspark = importlib.util.find_spec("pyspark")
        assert pyspark is not None  # noqa: S101 - the package requires it
        assert pyspark.origin is not None  # noqa: S101
        path, origin = Path(pyspark.origin).parent / "bin" / "spark-submit", "the package pyspark"
    if not os.access(path, os.X_OK):
        raise LauncherError(
            f"{path}, from {origin}, is not a program:", "write the path of spark-submit as runs.command."
        )
    return str(path)


class SubmittedDriver:
    """A driver on this machine, which the JVM of `spark-submit` starts.

    A signal to the JVM would stop Spark first, and the driver would record the failure of a job, not a cancelled run.
    So the signal goes to the driver, which ends Spark itself.
    """

    name = "driver of the run"
    poll_seconds = _POLL_SECONDS

    def __init__(self, submission: Submission) -> None:
        self.messages = FileMessages()
        self._submission = submission
        self._settled: float | None = None  # when a driver that has outlived its JVM is not waited for any longer

    def start(self, variables: Mapping[str, str]) -> None:
        """Start `spark-submit`."""
        self._file, self._errors = self.messages.folder / "driver", JvmErrors()
        own = {DRIVER_FILE: str(self._file), LAUNCHER: str(os.getpid())}
        with self._errors.writer as errors:
            # In a session of its own, so that Ctrl-C of a terminal reaches the driver by this process only.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._submission.command,
                stdin=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **self._submission.environment, **variables, **own},
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Return whether it has ended; a driver whose JVM has ended first records what it had begun."""
        if self._process.poll() is None:
            return False
        if self._settled is None:
            self._settled = time.monotonic() + SETTLE_SECONDS
        driver = self._driver()
        return driver is None or not is_running(driver) or time.monotonic() > self._settled

    def cancel(self, look: Callable[[], None]) -> None:  # noqa: ARG002 - the launcher's form
        """End the driver, which has some time to record what it had begun; without one yet, all that was started."""
        driver = self._driver()
        with suppress(ProcessLookupError):
            if driver is None:
                os.killpg(self._process.pid, signal.SIGTERM)
            else:
                os.kill(driver, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while not self.has_ended():
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        self._errors.wait()

    def ended(self) -> Ended:
        """Return how it ended."""
        self._errors.wait()
        code = self._process.returncode
        return Ended(f"exit code {code if code >= 0 else 128 - code}")

    def _driver(self) -> int | None:
        number = self._file.read_text(encoding="ascii") if self._file.exists() else ""
        return int(number) if number else None
