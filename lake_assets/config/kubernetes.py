"""The launcher that starts drivers as pods of Kubernetes."""

from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from lake_assets.config.fields import FolderPath, Texts
from lake_assets.config.model import Model
from lake_assets.config.uris import DriverPath, S3Folder

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
