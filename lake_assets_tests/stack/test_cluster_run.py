"""A backfill by Dagster on the stack whose driver executes on a worker: its secrets are in the worker's environment."""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from dev.servers.dagster import DagsterServer
from dev.stack.command import started_stack
from dev.stack.site import HOST, Site
from lake_assets.config.load import load_config
from lake_assets_tests.stack.sites import put

pytestmark = [
    pytest.mark.servers,
    pytest.mark.dagster,
    pytest.mark.soak,
    pytest.mark.timeout(600),
]

# Without the Connect server, which has all cores of the workers. Each has one: for the driver, and for its executor.
COMPONENTS = (
    "postgres",
    "s3",
    "spark-master",
    "spark-worker-1",
    "spark-worker-2",
    "code-server",
    "webserver",
    "daemon",
)
DAYS = ("2026-01-01", "2026-01-02")


def in_cluster_mode(site: Site, document: dict[str, Any]) -> None:
    del document["streams"]["transactions"]["sensor"]
    document["spark"] = {
        "master": f"spark://{HOST}:{site.ports.spark_master}",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
    }
    document["runs"] = {
        "launcher": "spark_submit",
        "deploy_mode": "cluster",
        "messages": "s3://logs/messages",
        "config": os.fspath(site.lake_config),
    }


@pytest.fixture
def site() -> Iterator[Site]:
    with started_stack(in_cluster_mode, *COMPONENTS) as result:
        yield result


def test_a_backfill_has_its_driver_on_a_worker_of_the_stack(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    for number, day in enumerate(DAYS):
        put(site, "NW", day, pa.table({"id": pa.array([number], pa.int64())}))
    dagster = DagsterServer(site.url, site.dagster_home)

    launched = dagster.backfill("transactions", [f"{day}|NW" for day in DAYS])
    status = dagster.wait(launched, 240)

    runs = dagster.runs(dagster__backfill=launched)
    assert status == "COMPLETED_SUCCESS", [dagster.failures(run) for run in runs]
    assert len(list(site.folder.glob("spark-worker-*/driver-*"))) == len(runs)
    assert {item["partition"] for item in dagster.materialized("transactions")} == {f"{day}|NW" for day in DAYS}
    with plain_client(load_config(site.lake_config).lakes["retail"]) as client:
        assert client.execute("SELECT id FROM lake.transactions ORDER BY id").fetchall() == [(0,), (1,)]
