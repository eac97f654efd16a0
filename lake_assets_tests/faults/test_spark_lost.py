"""Spark's JVM is killed under a run: each partition says so, and none is tried again without it."""

import json
from pathlib import Path

import pytest

from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.world import NW, SW, World, sales

SCRIPT = """
import json, os, signal, sys
from lake_assets.cli.common import Session
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.spark.spark_session import spark_config, start_session
from lake_assets_tests.world import World

starts = []
class Killed(Session):
    def __call__(self):
        starts.append(1)
        session = super().__call__()
        os.kill(session.sparkContext._gateway.proc.pid, signal.SIGKILL)
        return session

world = World(*json.loads(sys.argv[1]), None)
partitions = [world.partition(text) for text in sys.argv[2:]]
with Killed({"spark.master": "local[2]"}).stopped() as sessions:
    errors = [outcome.error for outcome in ingest_all(world.stream, partitions, sessions)]
failed = [row.status for row in world.ledger()]
session = start_session(spark_config(settings={"spark.master": "local[2]"}))  # nobody had to stop the other one for it
statuses = [outcome.row.status for outcome in ingest_all(world.stream, partitions, lambda: session)]
print(json.dumps([[type(error).__name__, str(error)] for error in errors] + [len(starts), failed, statuses]))
session.stop()
"""


@pytest.mark.more
@pytest.mark.kill
def test_partitions_of_a_run_whose_jvm_was_killed_say_so_and_the_session_is_replaced(
    local_world: World, tmp_path: Path
) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    places = json.dumps([local_world.catalog, local_world.storage, local_world.source])

    run = run_python("-c", SCRIPT, places, NW, SW, folder=tmp_path)

    assert run.returncode == 0, run.stderr
    *errors, starts, failed, statuses = json.loads(run.stdout.splitlines()[-1])
    assert {name for name, _ in errors} == {"SparkUnavailableError"}, run.stderr
    assert "raise spark.driver.memory" in errors[0][1]
    assert (len(errors), starts, failed, statuses) == (2, 1, ["failed"] * 2, ["committed"] * 2)
    assert "Traceback" not in run.stderr
    assert "ConnectionRefusedError" not in run.stderr
