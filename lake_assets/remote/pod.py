"""The pod of a driver: its metadata and its spec, as Kubernetes has them.

Source: Kubernetes' API reference, PodSpec v1 core.
"""

import copy
from typing import Any

from lake_assets.config.kubernetes import Kubernetes
from lake_assets.errors import LauncherError
from lake_assets.remote.request import Request
from lake_assets.remote.supervise import GRACE_SECONDS

RUN_LABEL = "lake-assets/run"
COMMAND = ("python", "-m", "lake_assets.remote")
CONTEXT_LIMIT = 120_000  # characters of one variable: Linux takes 128 KiB

_STOP_SECONDS = int(GRACE_SECONDS) + 30  # of a pod that is deleted; the driver ends before


def pod_metadata(runs: Kubernetes, request: Request) -> dict[str, Any]:
    """Labels and annotations; the label of the run finds the pod again."""
    return {
        "labels": {**runs.labels, RUN_LABEL: request.run_id},
        "annotations": {**runs.annotations, "lake-assets/stream": request.stream},
    }


def pod_spec(runs: Kubernetes) -> dict[str, Any]:
    """The spec, without Pipes' variables. Secrets are references in it.

    Raises:
        LauncherError: `runs.pod_spec` has no list of containers.
    """
    spec: dict[str, Any] = copy.deepcopy(runs.pod_spec)
    containers = spec.setdefault("containers", [{}])
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise LauncherError("runs.pod_spec: containers is no list of mappings:", "write [{…}], or leave it out.")
    driver: dict[str, Any] = {"name": "driver", **containers[0]}
    driver |= {"image": runs.image, "command": list(COMMAND)}
    driver["env"] = [
        *driver.get("env", ()),
        *({"name": key, "value": value} for key, value in runs.environment.items()),
    ]
    driver["envFrom"] = [*driver.get("envFrom", ()), *map(_source, runs.env_from)]
    resources = runs.resources.model_dump(exclude_defaults=True)
    if resources:
        driver["resources"] = resources
    containers[0] = driver
    if runs.service_account:
        spec["serviceAccountName"] = runs.service_account
    spec.setdefault("terminationGracePeriodSeconds", _STOP_SECONDS)
    # A driver that is started again within its pod would report twice; Dagster retries runs itself.
    return spec | {"restartPolicy": "Never"}


def _source(variables: Any) -> dict[str, Any]:  # noqa: ANN401 - an entry of env_from
    if variables.secret:
        return {"secretRef": {"name": variables.secret}}
    return {"configMapRef": {"name": variables.config_map}}


def check_size(context: str) -> None:
    """Refuse a request that does not fit into a variable.

    Raises:
        LauncherError: it is too long.
    """
    if len(context) > CONTEXT_LIMIT:
        raise LauncherError(
            f"the request for the driver has {len(context):,} characters, and a pod takes {CONTEXT_LIMIT:,} of them:",
            "write runs.messages, a folder in a bucket, or set max_partitions_per_run of the stream.",
        )
