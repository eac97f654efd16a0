"""Spark's JVM is killed under a run: each partition says so, and none is tried again without it."""

import json
from pathlib import Path

import pytest

from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.world import NW, SW, World, sales

SCRIPT = """
import json, os, signal, sys
from lake_assets.ingest.api import ingest_all
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
again = start_session(spark_config(cores=2)).range(3).count()
print(json.dumps([[type(o.error).__name__, str(o.error)] for o in outcomes] + [len(starts), again]))
"""

STARTED_AGAIN = """
import json, os, signal, sys
from lake_assets.cli.sessions import Session
from lake_assets.ingest.api import ingest_all
from lake_assets.spark.session import spark_config, start_session
from lake_assets_tests.world import World

class Killed(Session):
    def __call__(self):
        session = super().__call__()
        os.kill(session.sparkContext._gateway.proc.pid, signal.SIGKILL)
        return session

world = World(*json.loads(sys.argv[1]), None)
partitions = [world.partition(sys.argv[2])]
with Killed({"spark.master": "local[2]"}).stopped() as sessions:
    list(ingest_all(world.stream, partitions, sessions))
print("stopped")
session = start_session(spark_config(cores=2))
(outcome,) = ingest_all(world.stream, partitions, lambda: start_session(spark_config(cores=2)))
print(outcome.result.row.status)
session.stop()
"""


@pytest.mark.kill
def test_partitions_of_a_run_that_lost_spark_say_so(local_world: World, tmp_path: Path) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    places = json.dumps([local_world.catalog, local_world.storage, local_world.source])

    run = run_python("-c", SCRIPT, places, NW, SW, folder=tmp_path)

    assert run.returncode == 0, run.stderr
    *errors, starts, again = json.loads(run.stdout.splitlines()[-1])
    assert {name for name, _ in errors} == {"SparkUnavailableError"}, run.stderr
    assert "raise spark.driver.memory" in errors[0][1]
    assert (len(errors), starts) == (2, 1)
    assert again == 3  # by a session that nobody had to stop the other for
    assert {row.status for row in local_world.ledger()} == {"failed"}
    local_world.ingest(NW)
    assert local_world.totals() == [1]


@pytest.mark.kill
def test_a_session_whose_jvm_was_killed_is_stopped_without_an_error_and_replaced(
    local_world: World, tmp_path: Path
) -> None:
    local_world.land(NW, sales(1))
    places = json.dumps([local_world.catalog, local_world.storage, local_world.source])

    run = run_python("-c", STARTED_AGAIN, places, NW, folder=tmp_path)

    assert (run.returncode, run.stdout.split()) == (0, ["stopped", "committed"]), run.stderr
    assert "Traceback" not in run.stderr
    assert "ConnectionRefusedError" not in run.stderr


KILLER = """
import os, signal
def kills(frame):
    os.kill(frame.sparkSession.sparkContext._gateway.proc.pid, signal.SIGKILL)
    return frame
"""


@pytest.mark.kill
def test_a_command_whose_transform_loses_the_jvm_tells_one_error_and_how_many_failed(
    local_world: World, tmp_path: Path
) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    (tmp_path / "killer.py").write_text(KILLER)
    local_world.options["transform"] = {"function": "killer:kills"}
    local_world.config_file(tmp_path)

    command = ("-c", "from lake_assets.cli import main; main()", "ingest", f"--partition={NW}", f"--partition={SW}")
    run = run_python(*command, folder=tmp_path)

    messages = [line for line in run.stderr.splitlines() if not line.startswith("WARNING: ")]  # the JVM's own
    assert run.returncode == 1
    assert messages[-1] == "2 of 2 partitions failed."
    assert len(messages) == 2, run.stderr
    assert messages[0].startswith("Error: Spark's JVM ended, or was lost, while it was at work: ")
    assert "by the same error as" in run.stdout
