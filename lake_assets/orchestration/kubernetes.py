"""The driver of a run as a pod, by dagster-k8s's client of Dagster Pipes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from lake_assets.config.kubernetes import Kubernetes
from lake_assets.errors import LauncherError, is_interrupt
from lake_assets.orchestration.dagster_private import StepContext
from lake_assets.orchestration.pipes_messages import BucketReader, PassingHandler, PassingReader
from lake_assets.remote import pods
from lake_assets.remote.pod import check_size, pod_metadata, pod_spec
from lake_assets.remote.pods import Pods
from lake_assets.remote.received import Ended, Received
from lake_assets.remote.request import Request

_LENGTH = 500  # of an error of dagster-k8s, which repeats the pod's log


def run_pod(context: StepContext, runs: Kubernetes, request: Request, received: Received) -> Ended:
    """Start a driver, and wait for its end. Its pod is removed.

    Raises:
        MissingExtraError: dagster-k8s is not installed.
        LauncherError: the API refuses or does not answer.
        DagsterExecutionInterruptedError: the run was cancelled; the driver has ended.
    """
    api, spec = Pods(runs), pod_spec(runs)
    client = _client(runs, received)
    is_cancelled = False
    try:
        client.run(
            context=context,
            extras=request.extras,
            namespace=api.namespace,
            base_pod_meta=pod_metadata(runs, request),
            base_pod_spec=spec,
            enable_multi_container_logs=len(spec["containers"]) > 1 or bool(spec.get("initContainers")),
            delete_pod_on_completion=False,
        )
        return api.ended(request.run_id, "it has ended")
    except LauncherError:
        raise
    except Exception as error:  # noqa: BLE001 - dagster-k8s raises errors of several packages
        return _ended(api, request, error)
    except BaseException as error:
        is_cancelled = is_interrupt(error)
        raise
    finally:
        try:
            api.remove(request.run_id, wait=is_cancelled)
        except LauncherError as error:  # an interrupt, and what the driver has reported, count more
            context.log.warning(f"The driver's pod stays: {error}")


def _ended(api: Pods, request: Request, error: Exception) -> Ended:
    """How the pod of a run ended, of which dagster-k8s has raised an error.

    Raises:
        LauncherError: the API has refused the pod.
    """
    if api.named(request.run_id) is None and hasattr(error, "body") and hasattr(error, "status"):
        raise api.refused("create the pod", error) from error
    return api.ended(request.run_id, f"{type(error).__name__}: {error}"[:_LENGTH])


def _client(runs: Kubernetes, received: Received) -> Any:  # noqa: ANN401 - dagster-k8s is an extra
    try:
        from dagster_k8s import PipesK8sClient, PipesK8sPodLogsMessageReader  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise pods.missing_extra() from error

    class PodLogs(PipesK8sPodLogsMessageReader):
        """Pipes' reader of a pod's log, whose messages of this package go to the launcher at once."""

        @contextmanager
        def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[Any]:
            passing: Any = PassingHandler(handler, received)
            with super().read_messages(passing) as parameters:
                yield parameters

    options: dict[str, Any] = {"poll_interval": pods.POLL_SECONDS}
    if runs.kubeconfig or runs.context or not pods.in_cluster():
        options |= {"load_incluster_config": False, "kubeconfig_file": runs.kubeconfig, "kube_context": runs.context}
    if runs.messages is None:
        return PipesK8sClient(message_reader=PodLogs(), context_injector=SizedInjector(), **options)
    messages = BucketReader(runs.messages)
    return PipesK8sClient(
        message_reader=PassingReader(messages, received), context_injector=messages.injector, **options
    )


class SizedInjector(dg.PipesEnvContextInjector):
    """Pipes' own injector, which refuses a request that no variable can have."""

    @contextmanager
    def inject_context(self, context: Any) -> Iterator[Any]:  # noqa: ANN401 - Dagster's types
        """The context as a parameter.

        Raises:
            LauncherError: it is too long.
        """
        from dagster_pipes import encode_param  # noqa: PLC0415

        with super().inject_context(context) as parameters:
            check_size(encode_param(parameters))
            yield parameters
