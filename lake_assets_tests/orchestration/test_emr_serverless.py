"""A run whose driver is a job run of EMR Serverless, on moto's API and a real S3 server; the driver is the real one."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

from dev.servers.emr import ROLE, Emr, emr, moto
from lake_assets.cli import main
from lake_assets_tests.orchestration.check_runs import PARTITIONS
from lake_assets_tests.orchestration.launched_runs import (
    DAYS,
    as_in_process,
    at_first_commit,
    check_cancelled,
    interrupt,
    land_many,
    run,
)
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["emr", "moto"]

SPARK = {"spark.driver.memory": "1g"}


def config_in_bucket(emr: Emr, world: World, **runs: Any) -> str:
    """Upload the config; returns its URI."""
    document = world.document | {"runs": emr.runs | runs, "spark": SPARK}
    return emr.upload("config/lake.yaml", yaml.safe_dump(document, sort_keys=False).encode())


@pytest.mark.more
def test_the_events_are_those_of_a_run_in_process(
    emr: Emr, local_world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")
    uri = config_in_bucket(emr, local_world, logs=f"s3://{emr.bucket}/logs", tags={"team": "lake"}, timeout_minutes=60)
    files: dict[str, str | Path] = {"in_process": local_world.config_file(tmp_path), "emr_serverless": uri}

    def runs(launcher: str) -> list[dg.ExecuteInProcessResult]:
        return [run(files[launcher], "2026-02-11|NW", "2026-02-11|SW")]

    kept = as_in_process(local_world, runs, "emr_serverless")

    assert kept.totals == [1, 2]
    kept.check_one_of_each()
    (job,) = emr.jobs
    assert (job.application_id, job.execution_role_arn, job.execution_timeout_minutes) == (emr.application, ROLE, 60)
    assert job.tags["team"] == "lake"
    assert job.name.startswith("lake-assets sales ")
    settings = job.configuration_overrides["applicationConfiguration"][0]["properties"]
    assert settings == SPARK | {
        "spark.archives": f"s3://{emr.bucket}/code/environment.tar.gz#environment",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": "./environment/bin/python",
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "./environment/bin/python",
        "spark.executorEnv.PYSPARK_PYTHON": "./environment/bin/python",
    }
    assert job.job_driver["sparkSubmit"]["entryPoint"] == f"s3://{emr.bucket}/code/driver.py"
    assert emr.server.secret_key not in json.dumps([job.job_driver, job.configuration_overrides])
    assert not [key for key in emr.keys("messages/") if key.endswith("context.json")]
    assert "Running Spark version" in capfd.readouterr().err  # the driver's own log, from the bucket


@pytest.mark.soak
@pytest.mark.kill
def test_a_cancelled_run_cancels_its_job_and_records_what_had_begun(emr: Emr, local_world: World) -> None:
    land_many(local_world)
    uri = config_in_bucket(emr, local_world)

    def terminate() -> None:
        interrupt(local_world, lambda: emr.jobs[0].state != "RUNNING", seconds=1)

    with at_first_commit(local_world, terminate):
        result = run(uri, f"{DAYS[0]}|NE", f"{DAYS[-1]}|SW")

    check_cancelled(result, local_world)
    (job,) = emr.jobs
    assert job.state == "CANCELLED"


@pytest.mark.soak
def test_a_driver_with_another_config_refuses_to_run(emr: Emr, local_world: World, tmp_path: Path) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1))
    uri = config_in_bucket(emr, local_world)
    local_world.options |= {"on_empty": "keep"}
    file = local_world.config_file(tmp_path, runs=emr.runs | {"config": uri}, spark=SPARK)

    result = CliRunner().invoke(main, ["--config", str(file), "ingest", "--partition", NW])

    assert result.exit_code == 1
    text = f"streams.sales.on_empty is 'keep' in the launcher's config {file}, and 'fail' in the driver's {uri}:"
    assert text in result.output
    assert "did not start" not in result.output
    assert emr.jobs[0].state == "SUCCESS"
