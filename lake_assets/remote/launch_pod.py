"""Launches a driver as a pod without Dagster: its messages are lines of its log, or objects of a bucket."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dagster_pipes import (
    DAGSTER_PIPES_CONTEXT_ENV_VAR,
    PIPES_PROTOCOL_VERSION_FIELD,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
)

from lake_assets.config.kubernetes import Kubernetes
from lake_assets.remote import pods
from lake_assets.remote.bucket import BucketMessages
from lake_assets.remote.pipes import context_of, take, variables
from lake_assets.remote.pod import check_size, pod_metadata, pod_spec
from lake_assets.remote.pods import Pods
from lake_assets.remote.received import Received
from lake_assets.remote.request import Request

_MARK = f'"{PIPES_PROTOCOL_VERSION_FIELD}"'


def launch_pod(runs: Kubernetes, request: Request, received: Received, output: Callable[[str], None]) -> None:
    """Start a driver, take its messages while it runs, and wait for its end. Its pod is removed.

    Args:
        runs: the launcher.
        request: for the driver.
        received: takes the messages.
        output: takes the driver's own output, line by line, if its messages are in the pod's log.

    Raises:
        MissingExtraError: the extra is not installed.
        LauncherError: the API refuses or does not answer, or the bucket of the messages. If that happens only after the
            driver's end or an interrupt, while the pod is removed, it is a warning.
        BaseException: an interrupt, after the driver has ended; or as `finish`.
    """
    api, spec = Pods(runs), pod_spec(runs)
    bucket = BucketMessages(runs.messages) if runs.messages else None
    with bucket.opened(request, received) if bucket else _inline(request) as environment:
        driver = spec["containers"][0]
        driver["env"] += [{"name": name, "value": value} for name, value in environment.items()]
        metadata = pod_metadata(runs, request) | {"name": f"lake-assets-{request.run_id}"}
        try:
            api.create({"metadata": metadata, "spec": spec})
            if bucket:
                _follow_bucket(api, bucket, request, received)
            else:
                _follow_log(api, driver["name"], request, received, output)
            ended = api.ended(request.run_id, "it has ended")
        except BaseException:
            _remove(api, request, received, wait=True)
            with received.warning("The driver's last messages are not read"):
                _take_all(bucket.new() if bucket else [], received)
            raise
        _remove(api, request, received, wait=False)
        _take_all(bucket.new() if bucket else [], received)
    received.finish(ended)


@contextmanager
def _inline(request: Request) -> Iterator[dict[str, str]]:
    found = variables(
        {PipesDefaultContextLoader.DIRECT_KEY: context_of(request)},
        {PipesDefaultMessageWriter.STDIO_KEY: PipesDefaultMessageWriter.STDERR},
    )
    check_size(found[DAGSTER_PIPES_CONTEXT_ENV_VAR])
    yield found


def _follow_bucket(api: Pods, bucket: BucketMessages, request: Request, received: Received) -> None:
    while not api.has_ended(request.run_id):
        _take_all(bucket.new(), received)
        time.sleep(pods.POLL_SECONDS)


def _follow_log(api: Pods, container: str, request: Request, received: Received, output: Callable[[str], None]) -> None:
    while not api.has_started(request.run_id):
        time.sleep(pods.POLL_SECONDS)
    for line in api.log(request.run_id, container):
        if line.startswith("{") and _MARK in line:
            take(line, received)
        else:
            output(line)
    while not api.has_ended(request.run_id):
        time.sleep(pods.POLL_SECONDS)


def _remove(api: Pods, request: Request, received: Received, *, wait: bool) -> None:
    with received.warning("The driver's pod stays"):
        api.remove(request.run_id, wait=wait)


def _take_all(lines: list[str], received: Received) -> None:
    for line in lines:
        take(line, received)
