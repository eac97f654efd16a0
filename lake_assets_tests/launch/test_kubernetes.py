"""A launcher of pods: an interrupt and the driver's reports count more than errors of its tidying up."""

import os
import signal
import threading
from pathlib import Path

import pytest

from dev.servers.kubernetes import Cluster, cluster
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import Kubernetes
from lake_assets.errors import DriverLostError, TransformError
from lake_assets.launch.launcher import launch
from lake_assets.launch.received import Received
from lake_assets.remote.request import Request
from lake_assets_tests.launch.undone import NW, undone
from lake_assets_tests.remote.requests import request
from lake_assets_tests.remote.test_request import CONFIG
from lake_assets_tests.until import until

__all__ = ["cluster"]

STAYS = "The driver's pod stays: Kubernetes, namespace lake, refuses to delete the pod"
FAILING = """
from lake_assets.errors import TransformError
from lake_assets.remote.channels import open_pipes
from lake_assets.remote.messages import End, message_of

with open_pipes() as pipes:
    pipes.report_custom_message(message_of(End(TransformError("no column total:", "correct it."))))
"""


class Launch:
    """A launch of the command; its warnings are kept."""

    def __init__(self, cluster: Cluster) -> None:
        self.runs = Kubernetes(launcher="kubernetes", image="lake:1", kubeconfig=cluster.kubeconfig)
        self.warnings: list[str] = []
        self.output: list[str] = []
        self.received = Received(
            undone(NW), note=lambda _: None, log=lambda _, text: self.warnings.append(text), output=self.output.append
        )

    def __call__(self, request: Request) -> None:
        self.received.finish(launch(LakeConfig.model_validate(CONFIG), self.runs, request, self.received))


@pytest.mark.soak
def test_a_pod_that_may_not_be_deleted_hides_no_interrupt(cluster: Cluster) -> None:
    cluster.waiting, cluster.deletes = {"reason": "ContainerCreating"}, False
    launch = Launch(cluster)

    def interrupt() -> None:
        until(lambda: bool(cluster.pods), "the pod is there")
        os.kill(os.getpid(), signal.SIGINT)

    # The handler of the commands, which another test may have left, would silence all logs of this process.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            launch(request("r1"))
    finally:
        signal.signal(signal.SIGINT, handler)

    (warning,) = launch.warnings
    assert warning.startswith(STAYS)


@pytest.mark.more
def test_a_pod_that_may_not_be_deleted_hides_no_report(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.launch.kubernetes.COMMAND", ("python", "-c", FAILING))
    cluster.deletes = False
    launch = Launch(cluster)

    with pytest.raises(TransformError, match="no column total"):
        launch(request("r1"))

    (warning,) = launch.warnings
    assert warning.startswith(STAYS)


@pytest.mark.soak
def test_a_log_that_breaks_off_is_a_lost_driver(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "driver.py"
    script.write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)", encoding="utf-8")
    monkeypatch.setattr("lake_assets.launch.kubernetes.COMMAND", ("python", str(script)))
    cluster.breaks_logs = True
    launch = Launch(cluster)

    with pytest.raises(DriverLostError, match=r"Kubernetes' API does not answer .*check the network"):
        launch(request("r1"))

    assert launch.output == ["begun"]
    cluster.settle()
    assert not cluster.pods
