"""A launcher of job runs: an interrupt counts more than errors of its tidying up; its API is moto's."""

from types import SimpleNamespace

import pytest

from dev.servers.moto import REGION, Moto, moto
from lake_assets.config.models import LakeConfig
from lake_assets.launch.launcher import launch
from lake_assets.launch.received import Received
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets_tests.launch.test_emr_serverless import application, runs
from lake_assets_tests.launch.undone import undone
from lake_assets_tests.remote.requests import request
from lake_assets_tests.remote.test_request import config

__all__ = ["application", "config", "moto"]

NW = Partition.at((PartitionColumn("region", "string"),), "region=NW")


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

    monkeypatch.setattr("lake_assets.launch.launcher.time", SimpleNamespace(sleep=interrupt))
    warnings: list[str] = []
    received = Received(
        undone(NW), note=lambda _: None, log=lambda level, text: warnings.append(text) if level == "WARNING" else None
    )
    with pytest.raises(KeyboardInterrupt):
        launch(config, runs(application), request("r1"), received)

    (job,), (cancelled, read, removed) = started, warnings
    assert cancelled.startswith(f"The job run {job} goes on: EMR Serverless, application {application}, refuses to")
    assert read.startswith("The driver's last messages are not read: runs.messages, s3://bucket/messages, cannot")
    assert removed.startswith("The request of the run, s3://bucket/messages/")
