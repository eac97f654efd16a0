"""The launcher that starts drivers by `spark-submit`: on this machine, or on a worker of a cluster."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from lake_assets.config.fields import FolderPath, Texts
from lake_assets.config.model import Model
from lake_assets.config.uris import DriverPath, S3Folder

DEPLOY_MODE = "spark.submit.deployMode"
STANDALONE, KUBERNETES, YARN = "spark://", "k8s://", "yarn"
"""How the masters of clusters begin."""


class SparkSubmit(Model):
    """The run starts its driver by `spark-submit`."""

    launcher: Literal["spark_submit"] = Field(description="The name of this launcher.")
    command: FolderPath | None = Field(
        None, description="Path of `spark-submit`; that of `SPARK_HOME` when absent, else that of pyspark."
    )
    deploy_mode: Literal["client", "cluster"] = Field(
        "client",
        description="Where the driver executes: `client` is this machine, `cluster` a worker of the cluster that "
        "`spark: {master: …}` names.",
    )
    messages: S3Folder | None = Field(
        None,
        description="Folder for the request of a run and the driver's messages; required with `deploy_mode: cluster`.",
    )
    config: DriverPath | None = Field(
        None,
        description="With `deploy_mode: cluster`, the config where the driver reads it: a URI, or an absolute path on "
        "the workers. When absent, the URI that the launcher itself has read.",
    )
    environment: Texts = Field(
        default_factory=dict,
        description="With `deploy_mode: cluster`, variables of the driver, without secrets; it has those of its worker "
        "too.",
    )

    @property
    def is_in_cluster(self) -> bool:
        """Whether the driver executes on a worker."""
        return self.deploy_mode == "cluster"


def refusal_of_submission(runs: SparkSubmit, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """Why the launcher does not fit these Spark settings, and how to fix it; None if it fits."""
    if "spark.remote" in settings:
        return (
            "launcher spark_submit starts a driver of its own, and spark: remote names a Spark Connect server",
            "use launcher in_process, or master instead of remote",
        )
    mode = settings.get(DEPLOY_MODE)
    if mode is not None and (mode != "client" or runs.is_in_cluster):
        return (
            f"launcher spark_submit sets {DEPLOY_MODE} itself, and the config has {mode}",
            "remove it, and write runs.deploy_mode: client or cluster",
        )
    return _of_cluster(runs, settings) if runs.is_in_cluster else _of_client(runs)


def _of_client(runs: SparkSubmit) -> tuple[str, str] | None:
    for key in ("messages", "config", "environment"):
        if getattr(runs, key):
            return (
                f"runs.{key} is of a driver on a worker, and runs.deploy_mode is client",
                f"remove runs.{key}, or write runs.deploy_mode: cluster",
            )
    return None


def _of_cluster(runs: SparkSubmit, settings: Mapping[str, str]) -> tuple[str, str] | None:
    if runs.messages is None:
        return (
            "runs.messages is missing, and a driver on a worker reports through a bucket",
            "write runs.messages, a folder such as s3://bucket/messages",
        )
    master = settings.get("spark.master", "")
    if master != YARN and not master.startswith((STANDALONE, KUBERNETES)):
        return (
            f"runs.deploy_mode is cluster, and spark.master is {master or 'absent'}",
            "write the master of a cluster, such as spark: {master: spark://host:7077}, or runs.deploy_mode: client",
        )
    return None
