"""A job run's states and refusals, as errors; its API is moto's."""

from types import SimpleNamespace
from typing import Any

import pytest

from dev.servers.emr import ROLE
from dev.servers.moto import REGION, Moto, moto
from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.errors import DriverLostError, LauncherError
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.remote.emr_serverless import CANCEL_SECONDS, Job
from lake_assets.remote.messages import Reported
from lake_assets.remote.received import Received

__all__ = ["moto"]

NW = Partition.at((PartitionColumn("region", "string"),), "region=NW")
PARAMETERS = {"executionRoleArn": ROLE, "jobDriver": {"sparkSubmit": {"entryPoint": "s3://bucket/driver.py"}}}


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


def job_of(application: str, job: Job) -> Any:
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
    job = Job(runs(application))
    job.start(PARAMETERS | {"applicationId": application})
    assert not job.has_ended()
    found = job_of(application, job)
    found.state, found.state_details = state, "no capacity"
    job.wait()

    noted: list[Reported] = []
    received = Received([NW], noted.append)
    if started:
        received.open()
    received.finish(job.ended())

    (report,) = noted
    error = report.outcome.error
    assert type(error) is kind
    assert f"EMR Serverless job run {job.id} of application {application} is {state}: no capacity" in str(error)


@pytest.mark.usefixtures("moto")
def test_an_application_that_does_not_exist_is_named() -> None:
    with pytest.raises(LauncherError, match="application 00nothere, refuses to start a job run") as raised:
        Job(runs("00nothere")).start(PARAMETERS | {"applicationId": "00nothere"})
    assert not isinstance(raised.value, DriverLostError)


def test_an_api_that_is_away_may_be_tried_again(application: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.remote.aws.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", "http://127.0.0.1:9")
    with pytest.raises(DriverLostError, match=r"cannot be asked to start a job run .*check the network"):
        Job(runs(application)).start(PARAMETERS | {"applicationId": application})


def test_a_job_that_has_ended_is_not_cancelled(application: str) -> None:
    job = Job(runs(application))
    job.start(PARAMETERS | {"applicationId": application})
    job_of(application, job).state = "SUCCESS"
    job.cancel()
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
    job, polls = Job(runs(application)), 0
    job.start(PARAMETERS | {"applicationId": application})

    def sleep(_: float) -> None:
        nonlocal polls
        polls += 1
        if ends and polls == 3:
            job_of(application, job).state = "CANCELLED"

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: 10.0 * polls)
    monkeypatch.setattr("lake_assets.remote.emr_serverless.time", clock)
    job.cancel()

    assert job_of(application, job).state == state
    assert polls == (3 if ends else CANCEL_SECONDS / 10)
