"""Runs whose driver executes on a worker of a real standalone cluster, with its messages in a real bucket."""

import contextlib
import dataclasses
import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
import yaml
from click.testing import CliRunner

from dev.servers.s3 import S3Server
from dev.servers.standalone import standalone_cluster
from lake_assets.cli import main
from lake_assets_tests.orchestration.checks.check_runs import PARTITIONS
from lake_assets_tests.orchestration.launched_runs import (
    DAYS,
    as_in_process,
    at_first_commit,
    check_cancelled,
    check_repeated,
    interrupt,
    land_many,
    run,
)
from lake_assets_tests.world import NW, SW, World, sales


@dataclass
class Cluster:
    """A standalone cluster, and a bucket for the messages of its drivers."""

    master: str
    server: S3Server
    bucket: str
    environment: dict[str, str]

    @property
    def sections(self) -> dict[str, Any]:
        """The sections `spark` and `runs` of a config. The driver and its executor fit into the worker."""
        spark = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.executor.cores": 1}
        return {
            "spark": {"master": self.master, **spark},
            "runs": {
                "launcher": "spark_submit",
                "deploy_mode": "cluster",
                "messages": f"s3://{self.bucket}/messages",
                "environment": self.environment,
            },
        }

    def config(self, world: World) -> str:
        """Upload the config; returns its URI."""
        body = yaml.safe_dump(world.document | self.sections, sort_keys=False).encode()
        self.server.put(self.bucket, "lake.yaml", body)
        return f"s3://{self.bucket}/lake.yaml"

    def keys(self, ending: str) -> list[str]:
        answer = self.server.client().list_objects_v2(Bucket=self.bucket, Prefix="messages/")
        return [entry["Key"] for entry in answer.get("Contents", ()) if entry["Key"].endswith(ending)]

    def messages(self) -> str:
        """What the drivers have sent."""
        client = self.server.client()
        bodies = [client.get_object(Bucket=self.bucket, Key=key)["Body"] for key in self.keys(".json")]
        return "".join(body.read().decode() for body in bodies)


@pytest.fixture
def cluster(standalone: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The keys of the bucket are in the launcher's environment, and for the driver in a file of its worker."""
    keys = {"aws_access_key_id": s3.access_key, "aws_secret_access_key": s3.secret_key}
    file = tmp_path / "credentials"
    file.write_text("[default]\n" + "".join(f"{name} = {value}\n" for name, value in keys.items()), "utf-8")
    shared = {"AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_REGION": s3.region, "AWS_DEFAULT_REGION": s3.region}
    for name, value in (shared | {name.upper(): value for name, value in keys.items()}).items():
        monkeypatch.setenv(name, value)
    return Cluster(standalone, s3, s3.new_bucket(), shared | {"AWS_SHARED_CREDENTIALS_FILE": os.fspath(file)})


DRIVER, WORKER = (f"org.apache.spark.deploy.worker.{name}" for name in ("DriverWrapper", "Worker"))


def jvms(name: str, master: str) -> list[psutil.Process]:
    """The processes of a class of Spark's that have the master's URL among their arguments."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if process.name() == "java" and name in command and any(argument.endswith(master) for argument in command):
                found.append(process)
    return found


DRIVERS = re.compile(r"submitted as (driver-\S+)")


@pytest.mark.soak
@pytest.mark.usefixtures("spark")
def test_the_events_are_those_of_a_run_in_process(
    cluster: Cluster, local_world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")
    files: dict[str, str | Path] = {
        "in_process": local_world.config_file(tmp_path),
        "spark_submit": cluster.config(local_world),
    }

    def runs(launcher: str) -> list[dg.ExecuteInProcessResult]:
        return [run(files[launcher], "2026-02-11|NW", "2026-02-11|SW")]

    kept = as_in_process(local_world, runs, "spark_submit")

    assert kept.totals == [1, 2]
    kept.check_one_of_each()
    (driver,) = DRIVERS.findall(capfd.readouterr().err)
    assert re.search(f"The driver's output is on its worker's page http://\\S+driverId={driver}", cluster.messages())
    assert cluster.keys("context.json") == []


@pytest.mark.soak
def test_a_cancelled_run_ends_its_driver_and_records_what_had_begun(
    cluster: Cluster, local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    land_many(local_world)
    uri = cluster.config(local_world)

    before: list[psutil.Process] = []

    def terminate() -> None:
        (driver,) = jvms(DRIVER, cluster.master)
        before.extend([driver, *driver.children()])
        interrupt(local_world, lambda: bool(cluster.keys("/cancel")), seconds=3)

    with at_first_commit(local_world, terminate):
        result = run(uri, f"{DAYS[0]}|NE", f"{DAYS[-1]}|SW")

    check_cancelled(result, local_world)
    assert len(DRIVERS.findall(capfd.readouterr().err)) == 1
    psutil.wait_procs(before, timeout=120)
    assert [process for process in before if process.is_running()] == []


@pytest.mark.soak
def test_a_run_whose_driver_is_killed_on_its_worker_is_tried_again(
    cluster: Cluster, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.stream_run.RETRY_SECONDS", 0)
    land_many(local_world)
    uri = cluster.config(local_world)

    def kill() -> None:
        jvms(DRIVER, cluster.master)[0].kill()

    with at_first_commit(local_world, kill):
        result = run(uri, f"{DAYS[0]}|NE", f"{DAYS[-1]}|SW")

    check_repeated(result, local_world)


@pytest.mark.soak
def test_a_worker_that_dies_is_the_error_of_the_partitions_of_its_driver(cluster: Cluster, local_world: World) -> None:
    land_many(local_world)
    with standalone_cluster() as master:
        cluster = dataclasses.replace(cluster, master=master)

        def kill() -> None:
            (driver,), (worker,) = jvms(DRIVER, master), jvms(WORKER, master)
            connection = sqlite3.connect(local_world.catalog["path"], timeout=60, isolation_level=None)
            with contextlib.closing(connection) as catalog:
                catalog.execute("BEGIN IMMEDIATE")  # no commit ends before the driver has noticed
                of_driver = [driver, *driver.children()]
                worker.kill()
                psutil.wait_procs(of_driver, timeout=120)
                catalog.execute("ROLLBACK")

        with at_first_commit(local_world, kill):
            command = ["--config", cluster.config(local_world), "ingest", "--all", "--yes"]
            result = CliRunner().invoke(main, command)

    assert result.exit_code == 1, result.output
    error = (
        r"the driver of the run ended before the partition did \(driver-\S+ on 127\.0\.0\.1:\d+ is (ERROR|FAILED)\): "
    )
    assert re.search(error, result.output), result.output
    assert local_world.totals()
