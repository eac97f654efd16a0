"""A driver on a worker as its launcher sees it: `spark-submit` is a script here, and the bucket is moto's.

`stack/test_cluster_mode.py` has a real cluster.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dev.servers.moto import REGION, Moto, moto
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import SparkSubmit
from lake_assets.errors import DriverLostError, LauncherError
from lake_assets.ingest.outcome import Outcome
from lake_assets.launch.cluster import ClusterDriver
from lake_assets.launch.launcher import await_end
from lake_assets.launch.pipes import variables
from lake_assets.launch.received import Received
from lake_assets.remote.bucket import CancelMark
from lake_assets.remote.messages import End, message_of
from lake_assets_tests.launch.undone import NW, undone
from lake_assets_tests.remote.test_request import CONFIG
from lake_assets_tests.until import until

__all__ = ["moto"]

PIPES = variables({"bucket": "bucket", "key": "m/context.json"}, {"bucket": "bucket", "key_prefix": "m"})
SUBMITTED = "26/11/23 18:27:11 INFO ClientEndpoint: Driver successfully submitted as driver-1"
RUNNING = "26/11/23 18:27:16 INFO ClientEndpoint: Driver running on node-7:33389 (worker-1)"

Submit = Callable[..., ClusterDriver]


@pytest.fixture
def received(printed_lines: list[str]) -> Received:
    return Received(undone(NW), note=lambda _: None, output=printed_lines.append)


@pytest.fixture
def printed_lines() -> list[str]:
    return []


@pytest.fixture
def submit(tmp_path: Path, moto: Moto, received: Received, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Starts a driver by a script, which prints lines and then sleeps, or ends with a code."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    moto.client("s3").create_bucket(Bucket="bucket")
    monkeypatch.setattr("lake_assets.launch.cluster.POLL_SECONDS", 0.01)

    def start(*lines: str, code: int | None = None, master: str = "spark://host:7077") -> ClusterDriver:
        end = "exec sleep 60" if code is None else f"exit {code}"
        printed = "\n".join(f"echo '{line}'" for line in lines)
        program = tmp_path / "spark-submit"
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *" kill "*) echo "$@" > {tmp_path}/killed; exit 0;; esac\n{printed}\n{end}\n'
        )
        program.chmod(0o755)
        runs = {
            "launcher": "spark_submit",
            "deploy_mode": "cluster",
            "messages": "s3://bucket/m",
            "config": "/etc/lake.yaml",
            "command": str(program),
        }
        lakes = {"shop": {"catalog": {"type": "sqlite", "path": "c"}, "storage": "data"}}
        sections = {"lakes": lakes, "spark": {"master": master}, "runs": runs}
        config = LakeConfig.model_validate(CONFIG | sections)
        assert isinstance(config.runs, SparkSubmit)
        driver = ClusterDriver(config, config.runs, received)
        driver.start(PIPES)
        if lines:
            until(lambda: driver.name != "driver of the run" or code is not None, "the driver has a name")
        return driver

    return start


def is_marked() -> bool:
    mark = CancelMark.of(PIPES)
    assert mark is not None
    return mark.is_there()


def report(received: Received, *, is_cancelled: bool) -> None:
    received.open()
    received.receive(message_of(End(is_cancelled=is_cancelled)))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("lines", "code", "reason", "hint"),
    [
        (
            [SUBMITTED, RUNNING, "INFO ClientEndpoint: State of driver driver-1 is FAILED, exiting spark-submit JVM."],
            255,
            "driver-1 on node-7:33389 is FAILED",
            "its own output, on its worker",
        ),
        (
            [
                "Exception in thread main org.apache.spark.SparkException: Exception thrown in awaitResult:",
                "Caused by: java.io.IOException: Failed to connect to /127.0.0.1:9",
                "Caused by: java.net.ConnectException: finishConnect(..) failed",
            ],
            1,
            "spark-submit ended with code 1: Failed to connect to /127.0.0.1:9",
            "correct `runs` and `spark`",
        ),
        (
            [SUBMITTED, "26/11/23 ERROR ClientEndpoint: Exception from cluster was: NoSuchFileException: /x.jar"],
            255,
            "driver-1 is gone: Exception from cluster was: NoSuchFileException: /x.jar",
            "its own output",
        ),
        ([], 7, "spark-submit ended with code 7", "correct `runs` and `spark`"),
    ],
)
def test_the_output_of_spark_submit_says_how_a_driver_ended(
    submit: Submit, printed_lines: list[str], lines: list[str], code: int, reason: str, hint: str
) -> None:
    driver = submit(*lines, code=code)
    until(driver.has_ended, "the driver ends")
    ended = driver.ended()
    assert (ended.reason, ended.hint[: len(hint)], ended.may_pass) == (reason, hint, True)
    assert printed_lines == lines


@pytest.mark.soak
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_driver_that_has_reported_its_end_is_not_waited_for_but_for_its_state_if_it_was_ended_from_outside(
    submit: Submit, received: Received, is_cancelled: bool
) -> None:
    driver = submit(SUBMITTED)
    assert not driver.has_ended()
    report(received, is_cancelled=is_cancelled)
    assert driver.has_ended() != is_cancelled  # spark-submit looks every ten seconds
    if not is_cancelled:
        driver.ended()
        assert not is_marked()


@pytest.mark.soak
def test_a_driver_that_says_nothing_is_lost_after_some_seconds_and_told_to_end(
    submit: Submit, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    received.open()
    driver = submit(SUBMITTED, code=1)
    monkeypatch.setattr("lake_assets.launch.cluster.SETTLE_SECONDS", 3600)
    until(lambda: driver._process.poll() is not None, "spark-submit ends")
    assert not driver.has_ended()
    monkeypatch.setattr("lake_assets.launch.cluster.SETTLE_SECONDS", 0)
    assert driver.has_ended()

    lost: list[Outcome] = []
    answered = Received(undone(NW), lost.append)
    answered.open()
    answered.finish(driver.ended())

    assert isinstance(lost[0].error, DriverLostError)
    assert is_marked()


@pytest.mark.parametrize(
    ("has_begun", "ends"),
    [
        pytest.param(False, False, id="not begun"),
        pytest.param(True, True, id="ends by itself", marks=pytest.mark.soak),
        pytest.param(True, False, id="does not end", marks=pytest.mark.soak),
    ],
)
def test_a_driver_that_is_cancelled_is_marked_and_killed_if_it_does_not_end(
    submit: Submit,
    tmp_path: Path,
    received: Received,
    monkeypatch: pytest.MonkeyPatch,
    has_begun: bool,
    ends: bool,
) -> None:
    if not ends:
        monkeypatch.setattr("lake_assets.launch.cluster.GRACE_SECONDS", 0.05)
        monkeypatch.setattr("lake_assets.launch.cluster.SETTLE_SECONDS", 0)
    driver, killed = submit(SUBMITTED), tmp_path / "killed"
    if has_begun:
        received.open()

    driver.cancel(lambda: report(received, is_cancelled=is_marked()) if ends else None)

    assert is_marked()
    assert killed.exists() != ends
    assert ends or killed.read_text().endswith(" kill spark://host:7077 driver-1\n")
    assert driver.has_ended()


@pytest.mark.soak
def test_a_bucket_that_is_gone_lets_the_driver_be_killed_all_the_same(
    submit: Submit, tmp_path: Path, moto: Moto
) -> None:
    driver = submit(SUBMITTED)
    moto.client("s3").delete_bucket(Bucket="bucket")
    with pytest.raises(LauncherError, match=r"runs\.messages, s3://bucket, cannot be used"):
        driver.cancel(lambda: None)
    assert (tmp_path / "killed").exists()


@pytest.mark.soak
def test_a_driver_on_yarn_that_does_not_end_is_a_warning(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    received = Received(undone(NW), note=lambda _: None, log=lambda _, text: warnings.append(text))
    driver = submit("INFO YarnClientImpl: Submitted application application_1_2", master="yarn")

    def interrupt(_: float) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("lake_assets.launch.launcher.time", SimpleNamespace(sleep=interrupt))
    with pytest.raises(KeyboardInterrupt):
        await_end(driver, received)

    assert warnings == [
        "The driver application_1_2 goes on: it has not begun, or does not end: end it with the cluster's own command."
    ]
    assert is_marked()
    assert not (tmp_path / "killed").exists()
