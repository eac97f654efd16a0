"""`deploy/dagster.yaml`, loaded as Dagster loads it, on a real PostgreSQL and a real S3 server."""

import inspect
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import dagster as dg
import pytest
import yaml
from dagster._core.events import JobFailureData, RunFailureReason
from dagster._core.execution import asset_backfill

from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets.cli import dev_server
from lake_assets.orchestration.stream_run import _REQUESTERS as TAGS_OF_LAUNCHED_RUNS
from lake_assets_tests.deploy.test_systemd import variables_on
from lake_assets_tests.orchestration.conftest import materialize, runs_here, sessions
from lake_assets_tests.orchestration.in_process import Materialize
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["materialize", "runs_here", "sessions"]

FILE = Path(__file__).parents[2] / "deploy/dagster.yaml"
WILL_RETRY = "dagster/will_retry"


def test_each_tag_with_a_limit_is_one_that_launched_runs_have() -> None:
    limits = yaml.safe_load(FILE.read_text("utf-8"))["concurrency"]["runs"]["tag_concurrency_limits"]

    assert len(limits) == 3
    assert {limit["key"] for limit in limits} <= TAGS_OF_LAUNCHED_RUNS.keys()


def test_the_settings_of_one_machine_are_those_of_production_where_these_do_not_differ() -> None:
    """A queued run survives a code server that is away, and no tick of a sensor waits for another's, in both."""
    root = FILE.parents[1]
    machine, production = (yaml.safe_load(file.read_text("utf-8")) for file in (root / "dagster.yaml", FILE))
    of_machine = {"storage", "compute_logs", "concurrency"}

    del production["run_monitoring"]["poll_interval_seconds"]
    assert machine == {name: block for name, block in production.items() if name not in of_machine} | {
        "concurrency": {"runs": {"max_concurrent_runs": 2}}
    }
    assert (root / "dagster.yaml").samefile(root / "lake_assets/wings/templates/starter/dagster.yaml")
    assert machine["run_coordinator"]["config"]["max_user_code_failure_retries"] == 10
    assert machine["sensors"] == machine["schedules"] == {"use_threads": True, "num_workers": 4}


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


@pytest.mark.more
def test_a_run_is_in_postgresql_with_its_log_in_the_bucket_and_is_repeated_only_if_its_process_died(
    instance: dg.DagsterInstance, local_world: World, postgres: PostgresServer, s3: S3Server, materialize: Materialize
) -> None:
    """A catalog in PostgreSQL and a lake in S3, as in production."""
    local_world.catalog, local_world.storage = database_on(postgres), bucket_on(s3)
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")

    committed = materialize("2026-02-11|NW", instance=instance)
    failed = materialize("2026-02-11|SW", instance=instance, raise_on_error=False)
    died = instance.create_run_for_job(dg.GraphDefinition(name="nothing").to_job())
    instance.report_run_failed(died, job_failure_data=JobFailureData(None, RunFailureReason.UNKNOWN))

    assert local_world.totals() == [1, 2]
    with postgres.connect(os.environ["DAGSTER_PG_DB"]) as connection:
        statuses = {str(run): str(status) for run, status in connection.execute("SELECT run_id, status FROM runs")}
    assert statuses == {committed.run_id: "SUCCESS", failed.run_id: "FAILURE", died.run_id: "FAILURE"}
    # The error of an object would only be repeated.
    runs = [instance.get_run_by_id(run.run_id) for run in (failed, died)]
    assert [run and run.tags[WILL_RETRY] for run in runs] == ["false", "true"]
    folder = f"dagster/storage/{committed.run_id}/compute_logs/"
    found = s3.client().list_objects_v2(Bucket=os.environ["DAGSTER_LOGS_BUCKET"], Prefix=folder)["Contents"]
    (key,) = [entry["Key"] for entry in found if entry["Key"].endswith(".err")]
    log = s3.client().get_object(Bucket=os.environ["DAGSTER_LOGS_BUCKET"], Key=key)["Body"].read()
    assert b"STEP_SUCCESS" in log


def test_a_backfill_waits_for_a_config_that_does_not_load_under_the_daemon_of_each_deployment() -> None:
    name = "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"
    assert name in inspect.getsource(asset_backfill)  # Dagster has it still
    deploy = FILE.parent
    for file in (deploy / "image/Dockerfile", deploy / "systemd/lake-assets-daemon.service", Path(dev_server.__file__)):
        assert re.search(rf'{name}(", "|=)1', file.read_text("utf-8")), file
