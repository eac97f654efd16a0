"""A driver on this machine, by `spark-submit` in client mode."""

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import SparkSubmit, refusal
from lake_assets.config.spark import REMOTE
from lake_assets.errors import LauncherError
from lake_assets.launch.pipes import FileMessages
from lake_assets.launch.received import Ended
from lake_assets.remote import supervise
from lake_assets.spark.class_sharing import sharing_options
from lake_assets.spark.java import find_java
from lake_assets.spark.remote import remote_url
from lake_assets.spark.session import JVM_OPTIONS, spark_config

ENTRY = Path(supervise.__file__).with_name("__main__.py")

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
    command = (sys.executable, "-m", supervise.__name__, program, "--deploy-mode", "client", *arguments, str(ENTRY))
    return Submission(command, environment)


def check_fit(config: LakeConfig, runs: SparkSubmit) -> None:
    """Refuse Spark settings that do not fit the launcher, also of the environment."""
    settings = config.spark.settings
    remote = {REMOTE: url} if (url := remote_url(settings)) else {}
    if (reason := refusal(runs, settings | remote)) is not None:
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
    """A driver on this machine."""

    name = "driver of the run"
    poll_seconds = _POLL_SECONDS

    def __init__(self, config: LakeConfig, runs: SparkSubmit, *, transforms: bool) -> None:
        self.messages = FileMessages()
        self._submission = submission(config, runs, transforms=transforms)

    def start(self, variables: Mapping[str, str]) -> None:
        """Start `spark-submit` under its supervisor."""
        environment = {**os.environ, **self._submission.environment, **variables}
        self._process = subprocess.Popen(self._submission.command, env=environment)  # noqa: S603 - our own command

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return self._process.poll() is not None

    def cancel(self, look: Callable[[], None]) -> None:  # noqa: ARG002 - the launcher's form
        """End it by the supervisor, which gives it time to record what it had begun."""
        self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(supervise.WAIT_SECONDS)

    def ended(self) -> Ended:
        """Return how it ended."""
        return Ended(f"exit code {self._process.returncode}")
