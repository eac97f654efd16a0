"""A driver as a pod: its spec, its log, its end; Kubernetes' API as a launcher needs it.

Source of the spec: Kubernetes' API reference, PodSpec v1 core.
"""

import copy
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster_pipes import (
    DAGSTER_PIPES_CONTEXT_ENV_VAR,
    PIPES_PROTOCOL_VERSION_FIELD,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
)

from lake_assets.config.runs import Kubernetes
from lake_assets.errors import DriverLostError, LauncherError, MissingExtraError, install
from lake_assets.launch.pipes import BucketMessages, context_of, variables
from lake_assets.launch.received import Ended, Received
from lake_assets.remote.request import Request
from lake_assets.remote.supervise import GRACE_SECONDS

RUN_LABEL = "lake-assets/run"
COMMAND = ("python", "-m", "lake_assets.remote")
CONTEXT_LIMIT = 120_000  # characters of one variable: Linux takes 128 KiB
POLL_SECONDS = 2.0
CANNOT_START = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "RunContainerError"}
)
"""Reasons of a waiting container that a person has to mend; those of dagster-k8s, and a missing secret."""

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LEAST_WAIT = 60.0  # for a deleted pod, beyond its own grace period
_STOP_SECONDS = int(GRACE_SECONDS) + 30  # of a pod that is deleted; the driver ends before
_MARK = f'"{PIPES_PROTOCOL_VERSION_FIELD}"'


class PodDriver:
    """A driver as a pod, whose messages are lines of its log, or objects of a bucket.

    Args:
        runs: the launcher.
        request: for the driver.
        received: takes a warning if the pod stays, and the driver's own output, if its messages are in the pod's log.

    Raises:
        MissingExtraError: the extra is not installed.
        LauncherError: there is no usable kubeconfig, or `runs.pod_spec` is not one.
    """

    name = "driver of the run"

    def __init__(self, runs: Kubernetes, request: Request, received: Received) -> None:
        self._runs = runs
        self._request = request
        self._received = received
        self._spec = pod_spec(runs)
        self._pod = _Pod(runs, request.options.run_id)
        container = self._spec["containers"][0]["name"]
        self.messages = (
            BucketMessages(runs.messages) if runs.messages else _LogMessages(self._pod, container, received.output)
        )

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks at it."""
        return POLL_SECONDS

    def start(self, variables: Mapping[str, str]) -> None:
        """Create the pod.

        Raises:
            LauncherError: the API refuses.
            DriverLostError: the API does not answer.
        """
        runs, request = self._runs, self._request
        self._spec["containers"][0]["env"] += [{"name": name, "value": value} for name, value in variables.items()]
        metadata = {
            # A step that Dagster tries again has the same run.
            "name": f"lake-assets-{request.options.run_id}-{uuid.uuid4().hex[:8]}",
            "labels": {**runs.labels, RUN_LABEL: request.options.run_id},
            "annotations": {**runs.annotations, "lake-assets/stream": request.stream},
        }
        try:
            self._pod.create({"metadata": metadata, "spec": self._spec})
        except BaseException:
            self._remove(wait=True)
            raise

    def has_ended(self) -> bool:
        """Return whether the pod has ended, or is gone.

        Raises:
            LauncherError: it cannot start, or the API refuses.
        """
        pod = self._pod.found()
        if pod is None or _is_over(pod):
            return True
        self._pod.check_can_start(pod)
        return False

    def cancel(self, look: Callable[[], None]) -> None:  # noqa: ARG002 - the launcher's form
        """Remove the pod, after the driver has recorded what it had begun."""
        self._remove(wait=True)
        if isinstance(self.messages, _LogMessages):
            self.messages.is_read = True  # it is gone with the pod

    def ended(self) -> Ended:
        """Return how it ended. The pod is removed."""
        pod, namespace = self._pod.found(), self._pod.namespace
        if pod is None:
            ended = Ended(f"its pod in namespace {namespace} is gone: it has ended", "see the cluster's events.")
        else:
            reason = f"pod {pod.metadata.name} in namespace {namespace}: {_reason(pod) or 'it has ended'}"
            ended = Ended(reason, "the driver's output, in the run's logs, says why.")
        self._remove(wait=False)
        return ended

    def _remove(self, *, wait: bool) -> None:
        with self._received.warning("The driver's pod stays"):
            self._pod.remove(wait=wait)


class _LogMessages:
    """The request in a variable of the pod, and the messages of one run as lines of its log."""

    def __init__(self, pod: "_Pod", container: str, output: Callable[[str], None]) -> None:
        self._pod = pod
        self._container = container
        self._output = output
        self.is_read = False

    @contextmanager
    def opened(self, request: Request, received: Received) -> Iterator[dict[str, str]]:  # noqa: ARG002 - the launcher's form
        """Yield Pipes' variables for the driver, the request among them.

        Raises:
            LauncherError: it is too long for one.
        """
        found = variables(
            {PipesDefaultContextLoader.DIRECT_KEY: context_of(request)},
            {PipesDefaultMessageWriter.STDIO_KEY: PipesDefaultMessageWriter.STDERR},
        )
        if (size := len(found[DAGSTER_PIPES_CONTEXT_ENV_VAR])) > CONTEXT_LIMIT:
            raise LauncherError(
                f"the request for the driver has {size:,} characters, and a pod takes {CONTEXT_LIMIT:,} of them:",
                "write runs.messages, a folder in a bucket, or set max_partitions_per_run of the stream.",
            )
        yield found

    def new(self) -> Iterator[str]:
        """Yield the messages, as they arrive, until the log ends; the log is read once.

        Raises:
            LauncherError: the driver cannot start, or the API refuses.
            DriverLostError: the pod is gone before its log is read, or the API does not answer.
        """
        if self.is_read or not self._pod.has_started():
            return
        self.is_read = True
        for line in self._pod.log(self._container):
            if line.startswith("{") and _MARK in line:
                yield line
            else:
                self._output(line)


class _Pod:
    """The pod of one run, by Kubernetes' API.

    Args:
        runs: the launcher.
        run_id: the pod's label.

    Raises:
        MissingExtraError: the package kubernetes is not installed.
        LauncherError: there is no usable kubeconfig.
    """

    def __init__(self, runs: Kubernetes, run_id: str) -> None:
        try:
            from kubernetes import client, config  # noqa: PLC0415 - an extra
            from urllib3.exceptions import HTTPError  # noqa: PLC0415 - of that package
        except ImportError as error:
            raise MissingExtraError("runs: kubernetes needs dagster-k8s:", f"{install('kubernetes')}.") from error
        self._refused: type[Exception] = client.ApiException
        self._away: type[Exception] = HTTPError
        try:
            if runs.kubeconfig is None and runs.context is None and _is_in_cluster():
                configuration = client.Configuration()
                config.load_incluster_config(client_configuration=configuration)
                api = client.ApiClient(configuration)
                own = _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
            else:
                api = config.new_client_from_config(runs.kubeconfig, runs.context)
                own = _namespace_of(config, runs)
        except (config.ConfigException, OSError) as error:
            raise LauncherError(
                f"there is no usable kubeconfig ({error}):", "set runs.kubeconfig and runs.context, or KUBECONFIG."
            ) from error
        self._core = client.CoreV1Api(api)
        self._run_id = run_id
        self.namespace: str = runs.namespace or own

    def found(self) -> Any:  # noqa: ANN401 - kubernetes' V1Pod
        """Return the pod; None if there is none.

        Raises:
            LauncherError: the API refuses.
            DriverLostError: the API does not answer.
        """
        selector = f"{RUN_LABEL}={self._run_id}"
        pods = self._call(
            "list pods", lambda: self._core.list_namespaced_pod(self.namespace, label_selector=selector)
        ).items
        return pods[-1] if pods else None

    def create(self, body: dict[str, Any]) -> None:
        """Create it; raises as `found`."""
        self._call("create the pod", lambda: self._core.create_namespaced_pod(self.namespace, body))

    def has_started(self) -> bool:
        """Return whether the driver's container has started, or has ended already.

        Raises:
            LauncherError: it cannot start, or the API refuses.
            DriverLostError: the pod is gone, or the API does not answer.
        """
        pod = self.found()
        if pod is None:
            raise DriverLostError("the pod of the driver is gone:", "see the cluster's events.")
        self.check_can_start(pod)
        state = _state(pod)
        return _is_over(pod) or (state is not None and state.waiting is None)

    def check_can_start(self, pod: Any) -> None:  # noqa: ANN401 - kubernetes' V1Pod
        """Fail a pod that cannot start until somebody acts.

        Raises:
            LauncherError: it does.
        """
        state = _state(pod)
        if state is not None and state.waiting is not None and state.waiting.reason in CANNOT_START:
            where = f"pod {pod.metadata.name} in namespace {self.namespace}"
            raise LauncherError(
                f"the driver of the run did not start ({where}: {_reason(pod)}):",
                "correct `runs` of the config, or what it names.",
            )

    def log(self, container: str) -> Iterator[str]:
        """Yield the lines of a container's log while it runs.

        Raises:
            LauncherError: the API refuses.
            DriverLostError: the API does not answer, or the connection ends in the middle of the log.
        """
        pod = self.found()
        if pod is None:
            return
        name = pod.metadata.name
        doing = f"read the log of the pod {name}"
        stream = self._call(
            doing,
            lambda: self._core.read_namespaced_pod_log(
                name, self.namespace, container=container, follow=True, _preload_content=False
            ),
        )
        lines = iter(stream)
        while (line := self._call(doing, lambda: next(lines, None))) is not None:
            yield line.decode(errors="replace").rstrip("\n")

    def remove(self, *, wait: bool) -> None:
        """Delete it, if there is one; with `wait`, until its driver has ended, which records what it had begun.

        Raises:
            LauncherError: the API refuses.
            DriverLostError: the API does not answer.
        """
        pod = self.found()
        if pod is None:
            return
        name, grace = pod.metadata.name, pod.spec.termination_grace_period_seconds or 0
        self._call(f"delete the pod {name}", lambda: self._delete(name))
        deadline = time.monotonic() + grace + _LEAST_WAIT
        while wait and self.found() is not None and time.monotonic() < deadline:
            time.sleep(min(POLL_SECONDS, 1))

    def _delete(self, name: str) -> None:
        try:
            self._core.delete_namespaced_pod(name, self.namespace)
        except self._refused as error:
            if getattr(error, "status", None) != 404:
                raise

    def _call(self, doing: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - kubernetes' objects
        """Return the result of a call of the API.

        Raises:
            LauncherError: the API refuses.
            DriverLostError: the API does not answer; a retry may succeed.
        """
        try:
            return call()
        except self._refused as error:
            text = f"{error.status} {error.reason}: {_message(error)}"  # type: ignore[attr-defined] # kubernetes' own
            raise LauncherError(
                f"Kubernetes, namespace {self.namespace}, refuses to {doing} ({text}):",
                "correct `runs` of the config, or the rights of the launcher's account.",
            ) from error
        except self._away as error:
            raise DriverLostError(
                f"Kubernetes' API does not answer ({error}):", "check the network, and the server of the kubeconfig."
            ) from error


def _is_in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and _NAMESPACE_FILE.exists()


def _namespace_of(config: Any, runs: Kubernetes) -> str:  # noqa: ANN401 - a module
    contexts, current = config.list_kube_config_contexts(runs.kubeconfig)
    chosen = next((entry for entry in contexts if entry["name"] == runs.context), current)
    namespace: str = chosen["context"].get("namespace") or "default"
    return namespace


def _message(error: Any) -> str:  # noqa: ANN401 - kubernetes' error
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return "no message"


def _is_over(pod: Any) -> bool:  # noqa: ANN401 - kubernetes' V1Pod
    return pod.status.phase in ("Succeeded", "Failed")


def _state(pod: Any) -> Any:  # noqa: ANN401 - kubernetes' V1ContainerState
    """Return the state of the driver's container; None before it has one."""
    statuses = pod.status.container_statuses or []
    return statuses[0].state if statuses else None


def _reason(pod: Any) -> str:  # noqa: ANN401 - kubernetes' V1Pod
    """Return why a pod has ended or does not start: of its driver's container, or of the whole pod."""
    state = _state(pod)
    if state is not None and state.terminated is not None:
        return f"{state.terminated.reason or 'ended'}, exit code {state.terminated.exit_code}"
    if state is not None and state.waiting is not None:
        return ": ".join(filter(None, (state.waiting.reason, state.waiting.message)))
    return ": ".join(filter(None, (pod.status.reason, pod.status.message)))


def pod_spec(runs: Kubernetes) -> dict[str, Any]:
    """Return the spec, without Pipes' variables. Secrets are references in it.

    Raises:
        LauncherError: `runs.pod_spec` has no list of containers.
    """
    spec: dict[str, Any] = copy.deepcopy(runs.pod_spec)
    containers = spec.setdefault("containers", [{}])
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise LauncherError("runs.pod_spec: containers is not a list of mappings:", "write [{…}], or leave it out.")
    driver: dict[str, Any] = {"name": "driver", **containers[0]}
    driver |= {"image": runs.image, "command": list(COMMAND)}
    driver["env"] = [
        *driver.get("env", ()),
        *({"name": key, "value": value} for key, value in runs.environment.items()),
    ]
    driver["envFrom"] = [*driver.get("envFrom", ()), *map(_source, runs.env_from)]
    if resources := runs.resources.model_dump(exclude_defaults=True):
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
