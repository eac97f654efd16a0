"""The section `spark` of the config: where Spark runs, and its settings."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

from lake_assets.config.fields import TEMPLATE, FolderPath, Model, TextsByKey, as_text, short_for
from lake_assets.config.modes import Launcher
from lake_assets.config.uris import DriverPath, S3Folder, S3Object

# Names that Spark itself redacts (spark.redaction.regex), and those of Azure's keys.
_SECRET = re.compile(
    r"secret|passw(?:or)?d|passphrase|token|(?:access|account|api|private)[._-]?key|azure\.sas", re.IGNORECASE
)
# The location of a secret, or whether there is one, but not the secret.
_REFERENCE = re.compile(r"\.kubernetes\.\w+\.(?:secrets|secretKeyRef)\.|(?:file|path|provider|enabled)$", re.IGNORECASE)
_SECRET_IN_VALUE = re.compile(rf"(?:{_SECRET.pattern})[\w.-]*=|://[^/\s:@]+:[^/\s@]+@", re.IGNORECASE)

_MAX_LENGTH = 10_000


def _refuse_secrets(settings: Mapping[str, str]) -> None:
    """Refuse settings with a secret, and very long ones."""
    for name, value in settings.items():
        if len(value) > _MAX_LENGTH:
            raise ValueError(f"{name} has more than {_MAX_LENGTH} characters: write it in spark-defaults.conf")
        if (_SECRET.search(name) and not _REFERENCE.search(name)) or _SECRET_IN_VALUE.search(value):
            raise ValueError(
                f"{name} has a secret, and Dagster shows Spark's settings: remove it, and set it in "
                "spark-defaults.conf, in the environment of driver and workers, or use the credential chain"
            )


MASTER, REMOTE = "spark.master", "spark.remote"
"""The names of two of Spark's settings, which are keys of the section too."""
SHARED = "shared"
"""The `remote` that is no server: one Spark for all processes of this machine."""

_KEYS = MappingProxyType({MASTER: "master", REMOTE: "remote"})

_Setting = Annotated[str, BeforeValidator(as_text, json_schema_input_type=str | bool | int | float)]


class Spark(Model):
    """Where Spark runs: here, on a cluster by `master`, or on a Spark Connect server by `remote`.

    With `remote: shared` the processes of this machine share one Spark, which the first one starts.

    Beside these two keys, the section takes any of Spark's settings by its name, such as `spark.driver.memory: 4g`.
    They override the package's own, and are texts without secrets, because Spark's pages and Dagster's UI show them.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _Setting]

    master: str | None = Field(
        None,
        min_length=1,
        description="Master of the session: `local[4]`, `spark://host:7077`, `k8s://https://host:6443`, `yarn`; all "
        "cores of this machine when absent. The same as `spark.master`.",
    )
    remote: SecretStr | None = Field(
        None,
        description="URL of a Spark Connect server in place of a master: `sc://host:15002/;token=${SPARK_TOKEN}`. Or "
        "`shared`: one Spark for all processes of this machine. The same as `spark.remote`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_its_short_name(cls, data: object) -> object:
        """Return the data with `master` and `remote` in place of Spark's own names for them."""
        if not isinstance(data, Mapping):
            return data
        short: dict[Any, object] = dict(data)
        for name, key in _KEYS.items():
            if name in short:
                if key in short:
                    raise ValueError(f"{key} and {name} are the same setting: remove one of them")
                short[key] = short.pop(name)
        return short

    @field_validator("remote")
    @classmethod
    def _has_the_form_of_a_url(cls, remote: SecretStr | None) -> SecretStr | None:
        url = remote.get_secret_value() if remote is not None else TEMPLATE
        if TEMPLATE in url or url.startswith("local") or url == SHARED:
            return remote
        # The text is not repeated, because it may have a token.
        error = ValueError(
            f"not the URL of a Spark Connect server: write sc://host:port, or sc://host:port/;token=…, or {SHARED}"
        )
        try:
            parts = urlsplit(url)
            is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            raise error from None
        path, *parameters = parts.path.split(";")
        if parts.scheme != "sc" or not is_complete or path not in {"", "/"} or parts.query or parts.fragment:
            raise error
        if parameters != [""] and any(parameter.count("=") != 1 for parameter in parameters):
            raise error
        return remote

    @model_validator(mode="after")
    def _settings_are_spark_settings(self) -> Self:
        for name in self._others:
            if "." not in name:
                raise ValueError(f"unknown key {name}: write master, remote, or a setting of Spark by its whole name")
        _refuse_secrets(self._others)
        if self.master is not None:
            _refuse_secrets({MASTER: self.master})
        is_shared = self.remote is not None and self.remote.get_secret_value() == SHARED
        if is_shared and not (self.master or "local").startswith("local"):
            raise ValueError(
                f"remote: {SHARED} is a Spark of this machine, and master a cluster: remove remote, or write local[4]"
            )
        if self.master is not None and self.remote is not None and not is_shared:
            raise ValueError(
                "a session has a master or a remote: remove master if a Spark Connect server runs the jobs, which has "
                "a master of its own, and remote if this process is the driver"
            )
        return self

    @property
    def _others(self) -> dict[str, str]:
        return self.__pydantic_extra__ or {}

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings by their whole names; the URL of a server has its token."""
        return self._with_remote(self.remote.get_secret_value() if self.remote is not None else None)

    @property
    def shown_settings(self) -> dict[str, str]:
        """The settings for eyes and files: the URL of a server has no token and no other parameter."""
        url = self.remote.get_secret_value() if self.remote is not None else None
        return self._with_remote(None if url is None else without_parameters(url))

    def _with_remote(self, remote: str | None) -> dict[str, str]:
        named = {MASTER: self.master, REMOTE: remote}
        return {name: value for name, value in named.items() if value is not None} | self._others


def without_parameters(url: str) -> str:
    """Return the URL of a Spark Connect server for messages: `sc://host:15002` without its token and parameters."""
    return url.partition(";")[0].rstrip("/")


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
        description="The driver's script in a bucket: a copy of `lake_assets/wings/launch/__main__.py`."
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
    environment: TextsByKey = Field(
        default_factory=dict,
        description="Variables of the driver, without secrets; `EMR.secret@NAME` is a secret of Secrets Manager.",
    )
    tags: TextsByKey = Field(default_factory=dict, description="Tags of the job run.")
    timeout_minutes: int | None = Field(
        None, ge=5, le=1_000_000, description="Minutes after which the job run is ended; 12 hours when absent."
    )


class InProcess(Model):
    """The run is the driver itself: Dagster's process, or that of the command."""

    launcher: Literal["in_process"] = Field(description="The name of this launcher.")


AnyRuns = InProcess | SparkSubmit | EmrServerless
_ByLauncher = Annotated[AnyRuns, Field(discriminator="launcher")]
Runs = Annotated[_ByLauncher, BeforeValidator(short_for("launcher"), json_schema_input_type=Launcher | _ByLauncher)]
"""A launcher with its options, or its name."""


CONFIG_MISSING = (
    "runs.config is missing, and the driver has no file of this machine",
    "write runs.config, the URI or the path of this config for the driver, such as s3://bucket/lake.yaml",
)
"""What is wrong with a config of a file whose driver executes elsewhere, and how to fix it."""


def launcher_refusal(runs: AnyRuns, settings: Mapping[str, str]) -> tuple[str, str] | None:
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
                "launcher spark_submit starts a driver of its own, and spark: remote names another",
                "use launcher in_process, or master instead of remote",
            )
        if settings.get(_DEPLOY_MODE, "client") != "client":
            return (
                f"launcher spark_submit executes the driver on this machine, and {_DEPLOY_MODE} is another",
                f"remove {_DEPLOY_MODE}",
            )
    return None
