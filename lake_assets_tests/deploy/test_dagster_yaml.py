"""`deploy/dagster.yaml`, loaded as Dagster loads it, on a real PostgreSQL and a real S3 server."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import dagster as dg
import pytest
import yaml
from dagster._core.events import JobFailureData, RunFailureReason

from dev.lint_dagster import problems
from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets.orchestration.stream_run import _REQUESTERS as TAGS_OF_LAUNCHED_RUNS
from lake_assets_tests.deploy.test_systemd import variables_on
from lake_assets_tests.orchestration.conftest import materialize
from lake_assets_tests.orchestration.in_process import Materialize
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["materialize"]

FILE = Path(__file__).parents[2] / "deploy/dagster.yaml"
COMMITTED, FAILED = "2026-02-11|NW", "2026-02-11|SW"
WILL_RETRY = "dagster/will_retry"


def test_each_tag_with_a_limit_is_one_that_launched_runs_have() -> None:
    limits = yaml.safe_load(FILE.read_text("utf-8"))["concurrency"]["runs"]["tag_concurrency_limits"]

    assert len(limits) == 3
    assert {limit["key"] for limit in limits} <= TAGS_OF_LAUNCHED_RUNS.keys()


@pytest.fixture
def instance(
    postgres: PostgresServer, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """An instance of the file as it is; Dagster finds the bucket of the compute logs by the environment alone."""
    for name, value in variables_on(postgres, s3).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # an earlier one keeps its keys
    home = tmp_path / "dagster_home"
    home.mkdir()
    shutil.copy(FILE, home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def test_a_run_is_in_postgresql_and_its_log_in_the_bucket(
    instance: dg.DagsterInstance,
    local_world: World,
    postgres: PostgresServer,
    s3: S3Server,
    materialize: Materialize,
) -> None:
    """A catalog in PostgreSQL and a lake in S3, as in production."""
    local_world.catalog, local_world.storage = database_on(postgres), bucket_on(s3)
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")

    committed = materialize(COMMITTED, instance=instance)
    failed = materialize(FAILED, instance=instance, raise_on_error=False)

    assert (committed.success, failed.success) == (True, False)
    assert local_world.totals() == [1, 2]
    assert runs_in(postgres) == {committed.run_id: "SUCCESS", failed.run_id: "FAILURE"}
    # An error that would only be repeated: Dagster launches no run for it.
    run = instance.get_run_by_id(failed.run_id)
    assert run is not None
    assert run.tags[WILL_RETRY] == "false"
    text = log_of(committed.run_id, s3)
    assert "sales" in text
    assert "STEP_SUCCESS" in text


def runs_in(postgres: PostgresServer) -> dict[str, str]:
    """The status of each run, as a client of PostgreSQL sees it."""
    with postgres.connect(os.environ["DAGSTER_PG_DB"]) as connection:
        return {str(run): str(status) for run, status in connection.execute("SELECT run_id, status FROM runs")}


def log_of(run_id: str, s3: S3Server) -> str:
    """What a run printed to standard error, as a client of S3 sees it."""
    bucket = os.environ["DAGSTER_LOGS_BUCKET"]
    found = s3.client().list_objects_v2(Bucket=bucket, Prefix=f"dagster/storage/{run_id}/compute_logs/")
    (key,) = [entry["Key"] for entry in found["Contents"] if entry["Key"].endswith(".err")]
    body = s3.client().get_object(Bucket=bucket, Key=key)["Body"].read()
    return str(body.decode("utf-8"))


def test_a_run_whose_process_died_is_launched_again(instance: dg.DagsterInstance) -> None:
    run = instance.create_run_for_job(dg.GraphDefinition(name="nothing").to_job())

    instance.report_run_failed(run, job_failure_data=JobFailureData(None, RunFailureReason.UNKNOWN))

    stored = instance.get_run_by_id(run.run_id)
    assert stored is not None
    assert stored.tags[WILL_RETRY] == "true"


@pytest.mark.parametrize("wrong", ["skip_empty_files", "max_runtime_seconds"])
def test_the_linter_names_a_key_that_dagster_does_not_have(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "dagster.yaml"
    text = FILE.read_text("utf-8")
    file.write_text(text.replace(f"{wrong}:", "misspelled:"), "utf-8")

    (problem,) = problems(file)

    assert "misspelled" in problem
    assert problems(FILE) == []
