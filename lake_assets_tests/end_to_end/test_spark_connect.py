"""An ingest through a real Spark Connect server writes the rows of one through a classic session.

pyspark has one kind of session in a process, so the client of the server is the command line.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.world import NW, World

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


@pytest.mark.journey
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="pass-through"),
        pytest.param({"copy": "always"}, id="copy", marks=pytest.mark.soak),
        pytest.param({"transform": {"sql": UPPER}}, id="transform", marks=pytest.mark.more),
    ],
)
def test_the_rows_are_those_of_a_classic_session(
    local_world: World, tmp_path: Path, spark_connect: str, options: dict[str, Any]
) -> None:
    local_world.options = options
    other = twin(local_world, tmp_path)
    for number in range(3):
        local_world.land(NW, ROWS, f"batch_{number}.parquet", compression="zstd")
    local_world.land(NW, ROWS.slice(0, 0), "empty.parquet")

    local_world.ingest(NW)
    done = ingest(other, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    expected, result = (
        [world.query(sql) for sql in ("FROM lake.sales ORDER BY ALL", "DESCRIBE lake.sales")]
        for world in (local_world, other)
    )
    assert repr(result) == repr(expected)
    assert len(result[0]) == 6 if "transform" in options else 9
    (row,), (classic,) = other.ledger(), local_world.ledger()
    fields = ("status", "row_count", "files_written", "files_copied", "source_files")
    assert [getattr(row, name) for name in fields] == [getattr(classic, name) for name in fields]


@pytest.mark.soak
def test_the_session_of_dagster_is_a_client(tmp_path: Path, spark_connect: str) -> None:
    script = f"""\
from lake_assets.config.spark import Spark
from lake_assets.orchestration.resources import pyspark_resource, sessions
spark = Spark.model_validate({json.dumps({"remote": spark_connect})})
session = sessions(pyspark_resource(spark), spark)()
print(type(session).__module__, session.range(3).count(), session.conf.get("spark.sql.session.timeZone"))
session.stop()
"""
    done = run_python("-c", script, folder=tmp_path)
    assert done.stdout.split() == ["pyspark.sql.connect.session", "3", "UTC"], done.stderr


@pytest.mark.more
def test_a_server_that_ended_is_named(local_world: World, tmp_path: Path) -> None:
    local_world.land(NW, ROWS)

    done = ingest(local_world, tmp_path, "", SPARK_REMOTE="sc://127.0.0.1:1/;token=hidden")

    assert done.returncode == 1
    text = " ".join(done.stderr.split())
    assert "no Spark Connect server answers at sc://127.0.0.1:1 (" in text
    assert "hidden" not in text
