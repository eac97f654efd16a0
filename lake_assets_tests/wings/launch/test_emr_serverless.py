"""A job run's states and refusals, as errors; its API is moto's."""

from types import SimpleNamespace
from typing import Any

import pytest

from dev.servers.emr import ROLE
from dev.servers.moto import REGION, Moto, moto
from lake_assets.base.errors import DriverLostError, LauncherError
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import EmrServerless
from lake_assets.ingest.outcome import Outcome
from lake_assets.wings.launch.emr_serverless import CANCEL_SECONDS, JobDriver
from lake_assets.wings.launch.launcher import launch
from lake_assets.wings.launch.pipes import Received
from lake_assets_tests.wings.launch.requests import request
from lake_assets_tests.wings.launch.test_request import CONFIG, config
from lake_assets_tests.wings.launch.undone import NW, undone

__all__ = ["config", "moto"]


def runs(application: str) -> EmrServerless:
    return EmrServerless(
        launcher="emr_serverless",
        application_id=application,
        execution_role=ROLE,
        region=REGION,
        entry_point="s3://bucket/driver.py",
        messages="s3://bucket/messages",
    )


@pytest.fixture
def application(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("moto.emrserverless.models.JOB_STATUS", "RUNNING")
    answer = moto.client("emr-serverless").create_application(
        name="lake", releaseLabel="emr-7.0.0", type="SPARK", clientToken="1"
    )
    return str(answer["applicationId"])


def driver(application: str) -> JobDriver:
    return JobDriver(
        LakeConfig.model_validate(CONFIG), runs(application), request("r1"), Received(undone(NW), lambda _: None)
    )


def job_of(application: str, job: JobDriver) -> Any:
    from moto.emrserverless.models import emrserverless_backends  # noqa: PLC0415 - may not be installed

    return emrserverless_backends["123456789012"][REGION].get_job_run(application, job.id)


@pytest.mark.parametrize(
    ("state", "started", "kind"),
    [
        ("FAILED", True, DriverLostError),
        ("FAILED", False, LauncherError),
        ("CANCELLED", True, LauncherError),
        ("SUCCESS", True, DriverLostError),
    ],
)
def test_the_end_of_a_job_is_the_error_of_partitions_without_an_outcome(
    application: str, state: str, started: bool, kind: type[LauncherError]
) -> None:
    job = driver(application)
    job.start({"NAME": "value"})
    assert not job.has_ended()
    found = job_of(application, job)
    found.state, found.state_details = state, "no capacity"
    assert job.has_ended()

    noted: list[Outcome] = []
    received = Received(undone(NW), noted.append)
    if started:
        received.open()
    received.finish(job.ended())

    (report,) = noted
    error = report.error
    assert type(error) is kind
    assert f"EMR Serverless job run {job.id} of application {application} is {state}: no capacity" in str(error)
    hint = "start the run again." if state == "CANCELLED" else "the application's logs, says why."
    assert str(error).endswith(hint)


@pytest.mark.usefixtures("moto")
def test_an_application_that_does_not_exist_is_named() -> None:
    with pytest.raises(LauncherError, match="application 00nothere, refuses to start a job run") as raised:
        driver("00nothere").start({"NAME": "value"})
    assert not isinstance(raised.value, DriverLostError)


def test_an_api_that_is_away_may_be_tried_again(application: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.wings.launch.pipes.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", "http://127.0.0.1:9")
    with pytest.raises(DriverLostError, match=r"did not answer a request to start a job run .*correct runs.region"):
        driver(application).start({"NAME": "value"})


def test_a_job_that_has_ended_is_not_cancelled(application: str) -> None:
    job = driver(application)
    job.start({"NAME": "value"})
    job_of(application, job).state = "SUCCESS"
    job.cancel(lambda: None)
    assert job_of(application, job).state == "SUCCESS"


@pytest.mark.parametrize(("ends", "state"), [(True, "CANCELLED"), (False, "CANCELLING")])
def test_a_cancelled_job_is_awaited_for_a_limited_time(
    application: str, ends: bool, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.emrserverless.models import EMRServerlessBackend  # noqa: PLC0415 - may not be installed

    def cancel_slowly(self: Any, application_id: str, job_run_id: str) -> tuple[str, str]:
        self.get_job_run(application_id, job_run_id).state = "CANCELLING"
        return application_id, job_run_id

    monkeypatch.setattr(EMRServerlessBackend, "cancel_job_run", cancel_slowly)
    job, polls = driver(application), 0
    job.start({"NAME": "value"})

    def sleep(_: float) -> None:
        nonlocal polls
        polls += 1
        if ends and polls == 3:
            job_of(application, job).state = "CANCELLED"

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: 10.0 * polls)
    monkeypatch.setattr("lake_assets.wings.launch.emr_serverless.time", clock)
    job.cancel(lambda: None)

    assert job_of(application, job).state == state
    assert polls == (3 if ends else CANCEL_SECONDS / 10)


def test_an_api_and_a_bucket_that_are_gone_hide_no_interrupt(
    moto: Moto, application: str, config: LakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.emrserverless.models import emrserverless_backends  # noqa: PLC0415 - may not be installed

    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    client = moto.client("s3")
    client.create_bucket(Bucket="bucket")
    backend = emrserverless_backends["123456789012"][REGION]
    started: list[str] = []

    def interrupt(_: float) -> None:
        started.extend(job.id for job in backend.job_runs.pop(application))
        for entry in client.list_objects_v2(Bucket="bucket")["Contents"]:
            client.delete_object(Bucket="bucket", Key=entry["Key"])
        client.delete_bucket(Bucket="bucket")
        raise KeyboardInterrupt

    monkeypatch.setattr("lake_assets.wings.launch.launcher.time", SimpleNamespace(sleep=interrupt))
    warnings: list[str] = []
    received = Received(
        undone(NW), note=lambda _: None, log=lambda level, text: warnings.append(text) if level == "WARNING" else None
    )
    with pytest.raises(KeyboardInterrupt):
        launch(config.model_copy(update={"runs": runs(application)}), request("r1"), received)

    (job,), (cancelled, read, removed) = started, warnings
    assert cancelled.startswith(f"The job run {job} goes on: EMR Serverless, application {application}, refuses to")
    assert read.startswith("The driver's last messages are not read: runs.messages, s3://bucket/messages, cannot")
    assert removed.startswith("The request of the run, s3://bucket/messages/")
