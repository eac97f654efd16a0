"""Spark's JVM is killed under a run: each partition says so, and none is tried again without it."""

import json
from pathlib import Path

import pytest

from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.world import NW, SW, World, sales

SCRIPT = """
import json, os, signal, sys
from lake_assets.ingest import ingest_all
from lake_assets.spark.session import spark_config, start_session
from lake_assets_tests.world import World

starts = []
session = start_session(spark_config(cores=2))
def sessions():
    starts.append(1)
    os.kill(session.sparkContext._gateway.proc.pid, signal.SIGKILL)
    return session

world = World(*json.loads(sys.argv[1]), sessions)
outcomes = list(ingest_all(world.stream, [world.partition(text) for text in sys.argv[2:]], sessions))
print(json.dumps([[type(o.error).__name__, str(o.error)] for o in outcomes] + [len(starts)]))
"""


@pytest.mark.slow
def test_partitions_of_a_run_that_lost_spark_say_so(local_world: World, tmp_path: Path) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    places = json.dumps([local_world.catalog, local_world.storage, local_world.source])

    run = run_python("-c", SCRIPT, places, NW, SW, folder=tmp_path)

    *errors, starts = json.loads(run.stdout.splitlines()[-1])
    assert {name for name, _ in errors} == {"SparkUnavailableError"}, run.stderr
    assert "raise spark.driver.memory" in errors[0][1]
    assert (len(errors), starts) == (2, 1)
    assert {row.status for row in local_world.ledger()} == {"failed"}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
