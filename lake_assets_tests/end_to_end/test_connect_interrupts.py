"""An interrupt in a process that lives on ends the run's job on a Spark Connect server, and not the session."""

from pathlib import Path

import pytest

from lake_assets_tests.end_to_end.test_connect_clients import with_functions
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, World, sales

CODE = """
import os, signal, sys, threading
from pathlib import Path

import dagster as dg
import psutil

from lake_assets.cli.sessions import Session
from lake_assets.config.load import load_config
from lake_assets.ingest.api import ingest
from lake_assets.orchestration.build import build_definitions
from lake_assets.api.stream import open_stream
from lake_assets_tests.until import until

way, file, partition = sys.argv[1:]
config = load_config(file)
beats = Path("beats")

def interrupt():
    until(beats.exists, "the job begins")
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sessions = Session(config.spark.settings)
session = sessions()
try:
    if way == "ingest":
        stream = open_stream(config, "sales")
        ingest(stream, stream.config.partition(partition), sessions)
    else:
        build_definitions(config).resolve_implicit_global_asset_job_def().execute_in_process(
            asset_selection=[dg.AssetKey("sales")], partition_key=partition, instance=dg.DagsterInstance.ephemeral()
        )
except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as error:
    # While the error has the frames of the job, Spark's client does not release it by itself.
    worker = int(Path("worker").read_text())
    until(lambda: not psutil.pid_exists(worker), "the job ends")  # some time after the client's error
    print(type(error).__name__, beats.stat().st_size < 1200, session.range(3).count())
"""


@pytest.mark.kill
@pytest.mark.parametrize(
    ("way", "partition", "error"),
    [
        *soak([("dagster", "2026-02-11|NW", "DagsterExecutionInterruptedError")]),
        *soak([("ingest", NW, "KeyboardInterrupt")]),
    ],
)
def test_the_job_ends_and_the_session_goes_on(
    local_world: World, tmp_path: Path, spark_connect: str, way: str, partition: str, error: str
) -> None:
    local_world.options = {"partitions": {"region": {"values": ["NW"]}, "date": {"values": ["2026-02-11"]}}}
    world = with_functions(local_world, tmp_path, "beating")
    world.land(NW, sales(1, 2))
    file = world.config_file(tmp_path, spark={"remote": spark_connect})

    done = run_python("-c", CODE, way, str(file), partition, folder=tmp_path)

    assert done.stdout.split() == [error, "True", "3"], done.stderr
    assert [row.status for row in world.ledger(NW)] == ["cancelled"]
    assert world.data_files() == set()
