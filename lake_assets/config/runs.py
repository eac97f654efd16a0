"""Where the driver of a run executes, and the keys of each launcher."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lake_assets.config.fields import FolderPath, Texts, short_for
from lake_assets.config.model import Model
from lake_assets.config.modes import Launcher
from lake_assets.config.uris import DriverPath, S3Folder, S3Object

_DEPLOY_MODE = "spark.submit.deployMode"


class SparkSubmit(Model):
    """The run starts its driver by `spark-submit`."""

    launcher: Literal["spark_submit"] = Field(description="The name of this launcher.")
    command: FolderPath | None = Field(
        None, description="Path of `spark-submit`; that of `SPARK_HOME` when absent, else that of pyspark."
    )


class EmrServerless(Model):
    """The run starts its driver as a job run of an EMR Serverless application.

    There are no keys: the launcher has the credential chain, and the driver its execution role.
    """

    launcher: Literal["emr_serverless"] = Field(description="The name of this launcher.")
    application_id: str = Field(pattern=r"^[0-9a-z]{1,64}$", description="The application, as `00f5q3k2abcdef01`.")
    execution_role: str = Field(
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$", description="ARN of the driver's role."
    )
    region: str = Field(pattern=r"^[a-z]{2,}(-[a-z]+)+-[0-9]+$", description="The application's region.")
    entry_point: S3Object = Field(
        description="The driver's script in a bucket: a copy of `lake_assets/remote/__main__.py`."
    )
    archive: S3Object | None = Field(
        None, description="The packed Python environment in a bucket; the application's image has one when absent."
    )
    messages: S3Folder = Field(description="Folder for the request of a run and the driver's messages.")
    config: DriverPath | None = Field(
        None,
        description="The config where the driver reads it: a URI, or an absolute path in the image. When absent, the "
        "URI that the launcher itself has read.",
    )
    logs: S3Folder | None = Field(None, description="Folder for the job's logs; the application's own when absent.")
    environment: Texts = Field(
        default_factory=dict,
        description="Variables of the driver, without secrets; `EMR.secret@NAME` is a secret of Secrets Manager.",
    )
    tags: Texts = Field(default_factory=dict, description="Tags of the job run.")
    timeout_minutes: int | None = Field(
        None, ge=5, le=1_000_000, description="Minutes after which the job run is ended; 12 hours when absent."
    )


class InProcess(Model):
    """The run is the driver itself: Dagster's process, or that of the command."""

    launcher: Literal["in_process"] = Field(description="The name of this launcher.")


RemoteRuns = SparkSubmit | EmrServerless
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
    """Return why a launcher does not fit these Spark settings, and how to fix it; None if it fits."""
    if isinstance(runs, EmrServerless):
        for name in ("spark.remote", "spark.master", _DEPLOY_MODE):
            if name in settings:
                return (
                    f"launcher emr_serverless runs Spark in its application, and the config has {name}",
                    "remove it: the application is the cluster",
                )
    elif isinstance(runs, SparkSubmit):
        if "spark.remote" in settings:
            return (
                "launcher spark_submit starts a driver of its own, and spark: remote names a Spark Connect server",
                "use launcher in_process, or master instead of remote",
            )
        if settings.get(_DEPLOY_MODE, "client") != "client":
            return (
                f"launcher spark_submit executes the driver on this machine, and {_DEPLOY_MODE} is another",
                f"remove {_DEPLOY_MODE}",
            )
    return None
