"""The command that starts a driver on a worker of a cluster, by `spark-submit`.

Spark refuses a Python script in cluster mode on a standalone cluster, but not a class. `PythonRunner`, with which Spark
itself runs scripts on YARN and Kubernetes, is such a class: it starts Python with the arguments that follow.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import MASTER
from lake_assets.config.spark_submit import KUBERNETES, STANDALONE, SparkSubmit
from lake_assets.errors import LauncherError
from lake_assets.remote.spark_submit import ENTRY, check_fit, spark_submit
from lake_assets.spark.java import find_java

_RUNNER = "org.apache.spark.deploy.PythonRunner"
_CLIENT = "org.apache.spark.deploy.Client"
_MODULE = "lake_assets.remote"
_LOG4J = Path(__file__).with_name("submit_log4j2.properties")
_NETWORK = ("spark.rpc.", "spark.network.", "spark.authenticate", "spark.ssl.")
_OWN = ("PATH", "SPARK_HOME", "SPARK_CONF_DIR")
"""The variables of this process that `spark-submit` gets: on a standalone cluster it hands all of its own to the
driver, through the master, and this process may have secrets in others."""


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
        """The command that ends a driver of a standalone cluster.

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
    """The submission of a driver.

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
    """A jar that is on the workers too, since Spark wants one beside the class. Each driver gets a copy: a small one.

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
