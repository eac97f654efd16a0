"""Where the driver of a run executes, and the keys of each launcher."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeGuard

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from lake_assets.config.fields import FolderPath, Texts, short_for
from lake_assets.config.model import Model
from lake_assets.config.modes import Launcher
from lake_assets.config.uris import DriverPath, S3Folder, S3Object

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
    """Return why the launcher does not fit these Spark settings, and how to fix it; None if it fits."""
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


_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = rf"^{_LABEL}(\.{_LABEL})*$"  # of an object of Kubernetes

Spec = dict[str, JsonValue]
"""A mapping as Kubernetes has it."""


class VariablesFrom(Model):
    """The variables of a secret or of a config map."""

    secret: str | None = Field(
        None, pattern=_NAME, max_length=253, description="Name of a secret, whose keys are variables."
    )
    config_map: str | None = Field(
        None, pattern=_NAME, max_length=253, description="Name of a config map, whose keys are variables."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.secret is None) == (self.config_map is None):
            raise ValueError("an entry of env_from has one name: write secret, or config_map")
        return self


class Resources(Model):
    """CPU and memory of the driver's container."""

    requests: Texts = Field(default_factory=dict, description="What is reserved, as `{cpu: 2, memory: 4Gi}`.")
    limits: Texts = Field(default_factory=dict, description="What the container may take at most.")


class Kubernetes(Model):
    """The run starts its driver as a pod."""

    launcher: Literal["kubernetes"] = Field(description="The name of this launcher.")
    image: str = Field(min_length=1, pattern=r"^[^\s]+$", description="Image of the driver, with this package.")
    namespace: str | None = Field(
        None,
        pattern=rf"^{_LABEL}$",
        description="Namespace of the pod; that of this process when absent.",
    )
    service_account: str | None = Field(None, pattern=_NAME, max_length=253, description="Service account of the pod.")
    config: DriverPath | None = Field(
        None,
        description="The config where the driver reads it: a URI, or an absolute path in the pod. When absent, the URI "
        "that the launcher itself has read.",
    )
    messages: S3Folder | None = Field(
        None, description="Folder for the request of a run and the driver's messages; the pod's log when absent."
    )
    env_from: tuple[VariablesFrom, ...] = Field((), description="Secrets and config maps with variables of the driver.")
    environment: Texts = Field(default_factory=dict, description="Variables of the driver, without secrets.")
    resources: Resources = Field(Resources(), description="CPU and memory of the driver's container.")
    labels: Texts = Field(default_factory=dict, description="Labels of the pod.")
    annotations: Texts = Field(default_factory=dict, description="Annotations of the pod.")
    pod_spec: Spec = Field(
        default_factory=dict,
        description="More of the pod's `spec`, as Kubernetes has it. The first of its containers is the driver.",
    )
    kubeconfig: FolderPath | None = Field(
        None, description="File of the API's address and credentials; the cluster's own in a pod, else the usual file."
    )
    context: str | None = Field(None, min_length=1, description="Context of that file; its current one when absent.")


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


RemoteRuns = SparkSubmit | EmrServerless | Kubernetes
"""The launchers that start a driver."""

AnyRuns = InProcess | RemoteRuns
_ByLauncher = Annotated[AnyRuns, Field(discriminator="launcher")]
Runs = Annotated[_ByLauncher, BeforeValidator(short_for("launcher"), json_schema_input_type=Launcher | _ByLauncher)]
"""A launcher with its options, or its name."""


def is_elsewhere(runs: AnyRuns) -> TypeGuard[RemoteRuns]:
    """Return whether the driver has no file of the launcher's machine."""
    return isinstance(runs, EmrServerless | Kubernetes) or (isinstance(runs, SparkSubmit) and runs.is_in_cluster)


CONFIG_MISSING = (
    "runs.config is missing, and the driver has no file of this machine",
    "write runs.config, the URI or the path of this config for the driver, such as s3://bucket/lake.yaml",
)
"""What is wrong with a config of a file whose driver executes elsewhere, and how to fix it."""


def refusal(runs: AnyRuns, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why a launcher does not fit these Spark settings, and how to fix it; None if it fits."""
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
