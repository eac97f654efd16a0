"""Jobs on a cluster that gives no executor end, and say so; others go on."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dev.servers.connect import connect_server
from dev.servers.process import free_ports, running
from dev.servers.standalone import cluster_environment, live_workers, master_command, worker_command
from lake_assets_tests.world import World

SCRIPT = """
import json, sys, time
from lake_assets.spark import cluster
from lake_assets.spark.spark_errors import spark_errors
from lake_assets.spark.spark_session import own_session
from lake_assets.spark.cluster import prepare_workers
cluster.WAIT_SECONDS, cluster._LOOK_SECONDS = 5.0, 1.0
settings, limit = json.loads(sys.argv[1]), json.loads(sys.argv[2])
with own_session(settings, transforms=False) as session, spark_errors():
    spark, begun = session(), time.monotonic()
    try:
        prepare_workers(spark, limit)
        end = "executed"
    except Exception as error:
        end = f"{type(error).__name__}: {error}"
print(json.dumps([end, time.monotonic() - begun]))
"""

DOCTOR = """
import sys
from lake_assets.upkeep import doctor
from lake_assets.spark import cluster
doctor.CLUSTER_SECONDS, cluster._LOOK_SECONDS = 5.0, 1.0
(finding,) = [finding for finding in doctor.examine(sys.argv[1]) if finding.subject == "Spark cluster"]
print(finding.status, finding.text)
"""


@contextmanager
def master_at(port: int, page: int, folder: Path) -> Iterator[tuple[str, int]]:
    """Start a master without a worker; yields its URL and the port of its page."""
    started = running(
        master_command(port, page),
        folder=folder,
        ready=lambda: live_workers(page) is not None,
        environment=cluster_environment(),
        timeout=120,
    )
    with started:
        yield f"spark://127.0.0.1:{port}", page


@pytest.fixture
def master(tmp_path: Path) -> Iterator[tuple[str, int]]:
    port, page = free_ports(2)
    with master_at(port, page, tmp_path) as started:
        yield started


def end_of_job(settings: dict[str, str], limit: float | None = None) -> tuple[str, float]:
    """How a small job ends, and its seconds."""
    command = [sys.executable, "-c", SCRIPT, json.dumps(settings), json.dumps(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=350, check=False)
    assert done.returncode == 0, done.stderr
    end, seconds = json.loads(done.stdout.splitlines()[-1])
    return end, seconds


@pytest.mark.soak
@pytest.mark.servers
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("way", "limit"), [("master", None), ("master", 6.0), ("remote", None), ("remote", 6.0)])
def test_a_job_without_executors_fails_with_that_reason(master: tuple[str, int], way: str, limit: float | None) -> None:
    with ExitStack() as stack:
        settings = {"spark.master": master[0]}
        if way == "remote":
            page = {"spark.ui.enabled": "true", "spark.ui.port": str(free_ports(1)[0])}
            settings = {"spark.remote": stack.enter_context(connect_server(settings=settings | page))}

        end, seconds = end_of_job(settings, limit)

    text = f"the Spark cluster has executed no task for {limit or 5:g} seconds: start workers with free cores"
    assert end.startswith(f"SparkUnreachableError: {text}")
    assert seconds >= (limit or 5)


@pytest.mark.soak
@pytest.mark.servers
@pytest.mark.timeout(400)
def test_a_job_whose_executor_comes_later_is_executed(master: tuple[str, int], tmp_path: Path) -> None:
    (page,) = free_ports(1)
    worker = running(
        worker_command(master[0], page, tmp_path / "worker", cores=1),
        folder=tmp_path,
        ready=lambda: live_workers(master[1]) == [page],
        environment=cluster_environment(),
        timeout=120,
    )
    with worker:
        end, _ = end_of_job({"spark.master": master[0], "spark.executor.memory": "512m"})
    assert end == "executed"


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_the_doctor_says_that_a_cluster_executes_nothing(
    master: tuple[str, int], local_world: World, tmp_path: Path
) -> None:
    config = local_world.config_file(tmp_path, spark={"spark.master": master[0]})
    command = [sys.executable, "-c", DOCTOR, str(config)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=350, check=False)

    last = done.stdout.splitlines()[-1:]
    assert last == ["failed the Spark cluster has executed no task for 5 seconds:"], done.stdout + done.stderr
