"""Where the driver of a run executes."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeGuard

from pydantic import BeforeValidator, Field

from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.config.fields import short_for
from lake_assets.config.kubernetes import Kubernetes
from lake_assets.config.launchers import Launcher
from lake_assets.config.model import Model
from lake_assets.config.spark_submit import SparkSubmit, refusal_of_submission


class InProcess(Model):
    """The run is the driver itself: Dagster's process, or that of the command."""

    launcher: Literal["in_process"] = Field(description="The name of this launcher.")


RemoteRuns = SparkSubmit | EmrServerless | Kubernetes
"""The launchers that start a driver."""

AnyRuns = InProcess | RemoteRuns
_ByLauncher = Annotated[AnyRuns, Field(discriminator="launcher")]
Runs = Annotated[_ByLauncher, BeforeValidator(short_for("launcher"), json_schema_input_type=Launcher | _ByLauncher)]
"""A launcher with its options, or its name."""


def is_elsewhere(runs: AnyRuns) -> TypeGuard[RemoteRuns]:
    """Whether the driver has no file of the launcher's machine."""
    return isinstance(runs, EmrServerless | Kubernetes) or (isinstance(runs, SparkSubmit) and runs.is_in_cluster)


CONFIG_MISSING = (
    "runs.config is missing, and the driver has no file of this machine",
    "write runs.config, the URI or the path of this config for the driver, such as s3://bucket/lake.yaml",
)
"""What is wrong with a config of a file whose driver executes elsewhere, and how to fix it."""


def refusal(runs: AnyRuns, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """Why a launcher does not fit these Spark settings, and how to fix it; None if it fits."""
    if isinstance(runs, EmrServerless):
        return _of_emr_serverless(settings)
    return refusal_of_submission(runs, settings) if isinstance(runs, SparkSubmit) else None


def _of_emr_serverless(settings: Mapping[str, str]) -> tuple[str, str] | None:
    for name in ("spark.remote", "spark.master", "spark.submit.deployMode"):
        if name in settings:
            return (
                f"launcher emr_serverless runs Spark in its application, and the config has {name}",
                "remove it: the application is the cluster",
            )
    return None
