"""An ingest through a real Spark Connect server writes the rows of one through a classic session.

pyspark has one kind of session in a process, so the client of the server is the command line.
"""

import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from dev.servers.connect import connect_server
from dev.servers.s3 import S3Server
from dev.servers.standalone import cluster_environment
from lake_assets_tests.faults.without_spark import jobs_here
from lake_assets_tests.ingest.lettering import BIG, NARROW, wide
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.spark.stranger import older, stranger, without
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import NW, World
from lake_assets_tests.world_fixtures import bucket_on

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "total": pa.array([1.5, None, float("nan")], pa.float64()),
        "text": pa.array(["a", "ü", None]),
        "at": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
    }
)

UPPER = "SELECT id + 1 AS id, total, upper(text) AS text, at, list FROM source WHERE id > 0"


def twin(world: World, folder: Path) -> World:
    """A world with the same landing zone and a lake of its own."""
    return replace(
        world,
        catalog={"type": "sqlite", "path": str(folder / "twin.sqlite")},
        storage={"type": "local", "path": str(folder / "twin")},
        _opened=None,
    )


def ingest(world: World, folder: Path, url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Ingest by the command line, through the server."""
    config = world.config_file(folder, **({} if environment else {"spark": {"spark.remote": url}}))
    script = str(Path(sys.executable).with_name("lake-assets"))
    arguments = (script, "--config", str(config), "ingest", "--partition", NW)
    return run_python(*arguments, folder=folder, environment=environment)


class Way(NamedTuple):
    """What lands and is ingested on the way to the last ingest, which is that of both sessions.

    Attributes:
        options: of the stream.
        then: objects of the last ingest.
        rows: of the table after it.
        first: the object of an ingest before.
        lake: options of the lake.
    """

    options: dict[str, Any]
    then: list[pa.Table | bytes]
    rows: int
    first: pa.Table | None = None
    lake: dict[str, Any] | None = None


ALL = [ROWS, ROWS, ROWS, ROWS.slice(0, 0)]
IDS, MORE = ROWS.select(["id"]), ROWS.select(["id", "text"]).append_column("more", pa.array([1, 2, 3]))
WAYS = {
    "pass-through": Way({}, ALL, 9),
    "transform": Way({"transform": {"sql": UPPER}}, ALL, 6),
    "copy": Way({"copy": "always"}, ALL, 9),
    "columns are added": Way({"schema_policy": "evolve"}, [MORE], 6, IDS),
    "rows are staged": Way({}, [ROWS], 3, lake={"attach_options": {"encrypted": True}}),
    "objects are appended": Way({"mode": "append"}, [ROWS.slice(1)], 3, ROWS.slice(0, 1)),
    "a damaged object": Way({"on_bad_object": "quarantine"}, [b"PAR1 no more than that PAR1"], 3, ROWS),
    "dead letters": Way({"on_bad_row": "dead_letter"}, [wide(1, BIG)], 2, NARROW),
}


@pytest.mark.journey
@pytest.mark.parametrize("name", ["pass-through", *more(["transform"]), *soak(list(WAYS)[2:])])
def test_the_rows_are_those_of_a_classic_session(
    local_world: World, tmp_path: Path, spark_connect: str, name: str
) -> None:
    way = WAYS[name]
    local_world.options, local_world.lake_options = way.options, way.lake or {}
    other = twin(local_world, tmp_path)
    if way.first is not None:
        local_world.land(NW, way.first, "first.parquet")
        with jobs_here():
            for world in (local_world, other):
                world.ingest(NW)
    for number, rows in enumerate(way.then):
        local_world.land(NW, rows, f"batch_{number}.parquet", compression="zstd")

    local_world.ingest(NW)
    done = ingest(other, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    expected, result = (
        [world.query(sql) for sql in ("FROM lake.sales ORDER BY ALL", "DESCRIBE lake.sales")]
        for world in (local_world, other)
    )
    assert repr(result) == repr(expected)
    assert len(result[0]) == way.rows
    row, classic = other.ledger()[0], local_world.ledger()[0]
    fields = ["status", "row_count", "files_written", "files_copied", "source_files"]
    fields += ["files_quarantined", "rows_dead_lettered"]
    assert [getattr(row, name) for name in fields] == [getattr(classic, name) for name in fields]


READ = """
import sys
import lake_assets
from pyspark.sql import SparkSession
url, config, *settings = sys.argv[1:]
builder = SparkSession.builder.remote(url) if url.startswith("sc:") else SparkSession.builder.master(url)
for setting in settings:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
lake_assets.register(spark)
tables = [
    lake_assets.read(spark, config, "sales"),
    spark.read.format("lake_assets").option("config", config).load("sales"),
]
print([sorted(row.total for row in table.where("region = 'NW'").collect()) for table in tables])
"""


def read(world: World, folder: Path, url: str, *settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Read the table in both ways."""
    config = str(world.config_file(folder))
    return run_python(
        "-c", READ, url, config, *settings, folder=folder, environment=cluster_environment() | environment
    )


@pytest.fixture
def loaded_on(local_world: World) -> Callable[..., World]:
    def on(storage: dict[str, Any]) -> World:
        local_world.storage = storage
        with jobs_here():
            local_world.commit(NW, 1, 2)
        return local_world

    return on


@pytest.fixture
def loaded(local_world: World, loaded_on: Callable[..., World]) -> World:
    return loaded_on(local_world.storage)


CLUSTER = ("spark.driver.host=127.0.0.1", "spark.executor.memory=512m")
BOTH = "[[1.0, 2.0], [1.0, 2.0]]"


@pytest.mark.more
def test_a_table_is_read_through_the_server(loaded: World, tmp_path: Path, spark_connect: str) -> None:
    done = read(loaded, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == BOTH


@pytest.mark.more
def test_a_table_is_read_by_executors_without_duckdb_which_get_the_package_and_the_keys(
    loaded_on: Callable[..., World], tmp_path: Path, s3: S3Server, standalone: str
) -> None:
    python, extra = stranger(tmp_path / "worker")
    without(extra, "duckdb")

    done = read(loaded_on(bucket_on(s3)), tmp_path, standalone, *CLUSTER, PYSPARK_PYTHON=python)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == BOTH


@pytest.mark.more
def test_credentials_that_executors_lack_are_named_with_their_host(
    loaded_on: Callable[..., World], tmp_path: Path, s3: S3Server, standalone: str
) -> None:
    bucket = bucket_on(s3)
    keys = {"AWS_ACCESS_KEY_ID": bucket["key_id"], "AWS_SECRET_ACCESS_KEY": bucket["secret"]}
    world = loaded_on(bucket)
    world.storage = {name: value for name, value in bucket.items() if name not in ("key_id", "secret")}

    # No metadata service answers here.
    once = ("spark.task.maxFailures=1", "spark.executorEnv.AWS_EC2_METADATA_DISABLED=true")
    refused = read(world, tmp_path, standalone, *CLUSTER, *once, **keys)

    assert refused.returncode == 1
    assert f"were found by the credential chain on {socket.gethostname()}: set AWS_ACCESS_KEY_ID and" in refused.stderr


@pytest.mark.servers
@pytest.mark.more
@pytest.mark.parametrize("version", [None, *soak(["0.0.9"])])
def test_a_server_that_lacks_the_package_gets_it_and_one_with_another_says_so(
    loaded: World, tmp_path: Path, version: str | None
) -> None:
    python, extra = stranger(tmp_path / "worker")
    if version is not None:
        older(extra, version)

    with connect_server(python=python) as url:
        done = read(loaded, tmp_path, url)

    if version is None:
        assert done.stdout.splitlines()[-1:] == [BOTH], done.stderr
    else:
        assert done.returncode == 1
        assert f"but {version} on the worker at {socket.gethostname()}: install lake-assets" in done.stderr


@pytest.mark.more
def test_a_server_that_ended_is_named(local_world: World, tmp_path: Path) -> None:
    local_world.land(NW, ROWS)

    done = ingest(local_world, tmp_path, "", SPARK_REMOTE="sc://127.0.0.1:1/;token=hidden")

    assert done.returncode == 1
    text = " ".join(done.stderr.split())
    assert "no Spark Connect server answers at sc://127.0.0.1:1 (" in text
    assert "hidden" not in text
