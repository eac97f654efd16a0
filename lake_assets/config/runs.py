"""Where the driver of a run executes."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.config.fields import FolderPath, short_for
from lake_assets.config.kubernetes import Kubernetes
from lake_assets.config.launchers import Launcher
from lake_assets.config.model import Model


class InProcess(Model):
    """The run is the driver itself: Dagster's process, or that of the command."""

    launcher: Literal["in_process"] = Field(description="The name of this launcher.")


class SparkSubmit(Model):
    """The run starts its driver by `spark-submit`, in client mode."""

    launcher: Literal["spark_submit"] = Field(description="The name of this launcher.")
    command: FolderPath | None = Field(
        None, description="Path of `spark-submit`; that of `SPARK_HOME` when absent, else that of pyspark."
    )


ElsewhereRuns = EmrServerless | Kubernetes
"""The launchers whose drivers have no file of the launcher's machine."""

RemoteRuns = SparkSubmit | ElsewhereRuns
"""The launchers that start a driver."""

AnyRuns = InProcess | RemoteRuns
_ByLauncher = Annotated[AnyRuns, Field(discriminator="launcher")]
Runs = Annotated[_ByLauncher, BeforeValidator(short_for("launcher"), json_schema_input_type=Launcher | _ByLauncher)]
"""A launcher with its options, or its name."""

CONFIG_MISSING = (
    "runs.config is missing, and the driver has no file of this machine",
    "write runs.config, the URI or the path of this config for the driver, such as s3://bucket/lake.yaml",
)
"""What is wrong with a config of a file whose driver executes elsewhere, and how to fix it."""


def refusal(runs: AnyRuns, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """Why a launcher does not fit these Spark settings, and how to fix it; None if it fits."""
    if isinstance(runs, EmrServerless):
        return _of_emr_serverless(settings)
    if not isinstance(runs, SparkSubmit):
        return None
    if "spark.remote" in settings:
        return (
            "launcher spark_submit starts a driver of its own, and spark: remote names a Spark Connect server",
            "use launcher in_process, or master instead of remote",
        )
    if settings.get("spark.submit.deployMode", "client") != "client":
        mode = settings["spark.submit.deployMode"]
        return (
            f"launcher spark_submit starts its driver in client mode, and spark.submit.deployMode is {mode}",
            "remove it, because a standalone cluster runs no Python driver, and others could not report to the run",
        )
    return None


def _of_emr_serverless(settings: Mapping[str, str]) -> tuple[str, str] | None:
    for name in ("spark.remote", "spark.master", "spark.submit.deployMode"):
        if name in settings:
            return (
                f"launcher emr_serverless runs Spark in its application, and the config has {name}",
                "remove it: the application is the cluster",
            )
    return None
