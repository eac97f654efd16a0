"""Workers of other machines: with this package, without it, and with another version of it."""

import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle

import lake_assets
from dev.servers.connect import connect_server
from lake_assets.spark.cluster import portable_work, worker_refusal
from lake_assets.version import VERSION
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.spark.stranger import older, stranger
from lake_assets_tests.world import NW, SW, World, sales

RUN = """
import sys
from pyspark import cloudpickle
print(list(cloudpickle.load(open(sys.argv[1], "rb"))(iter([1, 2]))))
"""


def of_this_package(items: Iterator[int]) -> Iterator[str]:
    """Pickled by reference, so a worker must have its module."""
    for item in items:
        yield f"{lake_assets.__name__} {item}"


def run(python: str, folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run `of_this_package` as a worker does."""
    job = folder / "job"
    job.write_bytes(cloudpickle.dumps(portable_work(of_this_package)))  # type: ignore[no-untyped-call]
    environment = {"PYTHONPATH": ":".join(map(str, path)), "PATH": ""}
    return subprocess.run(
        [python, "-c", RUN, str(job)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_version_is_that_of_the_distribution() -> None:
    file = Path(lake_assets.__file__).parents[1] / "pyproject.toml"
    assert tomllib.loads(file.read_text())["project"]["version"] == VERSION


def test_a_worker_with_this_version_does_the_work(tmp_path: Path) -> None:
    done = run(sys.executable, tmp_path, Path(lake_assets.__file__).parents[1])
    assert done.stdout.strip() == "['lake_assets 1', 'lake_assets 2']", done.stderr


ANOTHER, HINT = f"lake-assets {VERSION} runs here, but", "install the driver's version on every worker"


@pytest.mark.parametrize(
    ("version", "said", "hint"),
    [
        pytest.param("0.0.9", f"{ANOTHER} lake-assets 0.0.9", HINT, id="older"),
        pytest.param(None, f"{ANOTHER} an older lake-assets", HINT, id="before versions", marks=pytest.mark.more),
        pytest.param("", f"{ANOTHER} no lake-assets", HINT, id="none", marks=pytest.mark.more),
        pytest.param(VERSION, "lake-assets lacks a package", "install lake-assets there", id="same"),
    ],
)
def test_a_worker_with_another_or_without_a_package_of_it_loads_nothing_and_says_so(
    tmp_path: Path, version: str | None, said: str, hint: str
) -> None:
    python, extra = stranger(tmp_path)
    if version != "":
        older(extra, version)

    done = run(python, tmp_path)

    raised = done.stderr.strip().splitlines()[-1].removeprefix("RuntimeError: ")
    assert raised.partition(" (No module named ")[0] == f"{said} on the worker at {socket.gethostname()}"
    error = worker_refusal(raised)
    assert error is not None
    assert error.hint.startswith(hint)


def test_other_errors_are_not_of_the_versions() -> None:
    assert worker_refusal("lake-assets is a word of the user's own error") is None


OWN = """
import sys
import lake_assets
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
stream = lake_assets.open_stream(sys.argv[1], "sales")
ingested = [outcome.status for outcome in stream.ingest("region=*", spark=spark)]
print(ingested, stream.read(spark=spark).where("total > 1").count())
"""


@pytest.mark.more
def test_a_local_session_of_the_user_has_workers_with_its_python_though_another_is_the_first_of_the_path(
    local_world: World, tmp_path: Path
) -> None:
    python, _ = stranger(tmp_path / "other")
    local_world.land(NW, sales(1, 2))

    path = f"{Path(python).parent}:{os.environ['PATH']}"
    done = run_python("-c", OWN, str(local_world.config_file(tmp_path)), folder=tmp_path, environment={"PATH": path})

    assert done.stdout.splitlines()[-1:] == ["['committed'] 1"], done.stderr


@pytest.mark.servers
@pytest.mark.more
def test_a_server_gets_the_package_and_refuses_another(local_world: World, tmp_path: Path) -> None:
    from lake_assets_tests.end_to_end.test_spark_connect import ROWS, ingest  # noqa: PLC0415 - imports much

    python, extra = stranger(tmp_path)
    local_world.land(NW, ROWS)
    local_world.land(SW, ROWS)

    with connect_server(python=python) as url:
        sent = ingest(local_world, tmp_path, url)
        older(extra, "0.0.9")
        local_world.land(NW, ROWS, "more.parquet")
        different = ingest(local_world, tmp_path, url)
        shutil.rmtree(extra / "lake_assets")

    assert sent.returncode == 0, sent.stderr
    assert len(local_world.query("FROM lake.sales")) == 3
    assert different.returncode == 1
    assert (
        f"lake-assets {VERSION} runs here, but 0.0.9 on the worker at {socket.gethostname()}: install lake-assets "
        f"{VERSION} there"
    ) in " ".join(different.stderr.split())
