"""Clients of a real Spark Connect server: interrupts, lost sessions, several at once, tokens, and texts of errors."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from dev.servers.connect import TOKEN, connect_server
from dev.servers.process import free_ports
from lake_assets_tests.end_to_end.test_spark_connect import ingest, twin
from lake_assets_tests.faults.without_spark import jobs_here
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, SW, World, sales

pytestmark = pytest.mark.more  # `test_spark_connect.py` has the case of `make test`

LAKE_ASSETS = str(Path(sys.executable).with_name("lake-assets"))

# Nested functions are pickled whole, so the workers need no module `mine`.
MINE = '''
import os, time

def beating(frame):
    """Writes to a file until its process is ended, whose number is in another file."""
    def beat(batches):
        with open("{folder}/worker", "w") as file:
            file.write(str(os.getpid()))
        for batch in batches:
            for _ in range(1200):
                with open("{folder}/beats", "a") as file:
                    file.write(".")
                time.sleep(0.1)
            yield batch
    return frame.mapInArrow(beat, frame.schema)

def once_slow(frame):
    """Sleeps in the first task of the test."""
    def wait(batches):
        for batch in batches:
            if not os.path.exists("{folder}/slept"):
                open("{folder}/slept", "w").close()
                time.sleep(120)
            yield batch
    return frame.mapInArrow(wait, frame.schema)

def failing(frame):
    def fail(batches):
        for batch in batches:
            raise ValueError("failed on purpose: " + "x" * 5000)
        yield
    return frame.mapInArrow(fail, frame.schema)

def helped(frame):
    """Its task is a function of another module, which the workers get from the client."""
    frame.sparkSession.addArtifacts("{folder}/helper.py", pyfile=True)
    import helper
    return frame.mapInArrow(helper.twice, frame.schema)
'''

HELPER = """
def twice(batches):
    for batch in batches:
        yield batch
        yield batch
"""


def with_functions(world: World, folder: Path, name: str) -> World:
    """The world with one of these functions as its transform."""
    (folder / "mine.py").write_text(MINE.replace("{folder}", str(folder)))
    return replace(world, options=world.options | {"transform": {"function": f"mine:{name}"}}, _opened=None)


def started(config: Path, folder: Path, *partitions: str) -> subprocess.Popen[str]:
    """A command that ingests, in the folder with the functions."""
    options = [option for text in partitions for option in ("--partition", text)]
    return subprocess.Popen(
        [LAKE_ASSETS, "--config", str(config), "ingest", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.kill
def test_an_interrupt_ends_the_servers_job_and_no_other_clients(
    local_world: World, tmp_path: Path, spark_connect: str
) -> None:
    (tmp_path / "other").mkdir()
    other = with_functions(twin(local_world, tmp_path / "other"), tmp_path / "other", "beating")
    world = with_functions(local_world, tmp_path, "beating")
    world.land(NW, sales(1, 2))
    runs = []
    for each, folder in ((world, tmp_path), (other, tmp_path / "other")):
        runs.append(started(each.config_file(folder, spark={"remote": spark_connect}), folder, NW))
    for folder in (tmp_path, tmp_path / "other"):
        until((folder / "beats").exists, "the job of a client begins")
    mine, others = runs

    mine.send_signal(signal.SIGINT)
    _, stderr = mine.communicate(timeout=120)
    worker = int((tmp_path / "worker").read_text())
    until(lambda: not psutil.pid_exists(worker), "the job ends")  # a moment after the server was told to
    (tmp_path / "other" / "beats").unlink()
    until((tmp_path / "other" / "beats").exists, "the other job beats")  # that of the other client goes on

    assert mine.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert (tmp_path / "beats").stat().st_size < 1200
    assert [row.status for row in world.ledger(NW)] == ["cancelled"]
    assert world.data_files() == set()
    others.send_signal(signal.SIGTERM)
    others.communicate(timeout=120)


IN_DAGSTER = """
import os, signal, sys, threading
from pathlib import Path

import dagster as dg
import psutil

from lake_assets.cli.common import Session
from lake_assets.streams.load import load_config
from lake_assets.orchestration.build import build_definitions
from lake_assets_tests.until import until

config = load_config(sys.argv[1])
beats = Path("beats")

def interrupt():
    until(beats.exists, "the job begins")
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sessions = Session(config.spark.settings)
session = sessions()
try:
    build_definitions(config).resolve_implicit_global_asset_job_def().execute_in_process(
        asset_selection=[dg.AssetKey("sales")],
        partition_key="2026-02-11|NW",
        instance=dg.DagsterInstance.ephemeral(),
    )
except dg.DagsterExecutionInterruptedError:
    # While the error has the frames of the job, Spark's client does not release it by itself.
    worker = int(Path("worker").read_text())
    until(lambda: not psutil.pid_exists(worker), "the job ends")  # some time after the client's error
    print(beats.stat().st_size < 1200, session.range(3).count())
"""


@pytest.mark.kill
@pytest.mark.soak
def test_an_interrupt_in_dagster_ends_the_servers_job_and_the_session_goes_on(
    local_world: World, tmp_path: Path, spark_connect: str
) -> None:
    local_world.options = {"partitions": {"region": {"values": ["NW"]}, "date": {"values": ["2026-02-11"]}}}
    world = with_functions(local_world, tmp_path, "beating")
    world.land(NW, sales(1, 2))
    file = world.config_file(tmp_path, spark={"remote": spark_connect})

    done = run_python("-c", IN_DAGSTER, str(file), folder=tmp_path)

    assert done.stdout.split() == ["True", "3"], done.stderr
    assert [row.status for row in world.ledger(NW)] == ["cancelled"]
    assert world.data_files() == set()


CLIENT = """
import json, sys
from lake_assets.cli.common import Session
from lake_assets.base.events import listen
from lake_assets.upkeep.maintenance.maintenance_run import maintain
from lake_assets_tests.world import World

listen(lambda event: event.event == "retry" and print(event.kind))
url, partition, options = sys.argv[1:]
sessions = Session({"spark.remote": url})
world = World(**json.loads(options), sessions=sessions)
with sessions.stopped():
    print(world.ingest(partition).row.status)
    sessions().client.release_session()  # as the server does after an hour without a call
    maintain(world.config, "test", sessions)
"""


@pytest.mark.soak
def test_a_client_goes_on_when_the_server_has_closed_its_session(
    local_world: World, tmp_path: Path, spark_connect: str
) -> None:
    local_world.options, local_world.lake_options = {"mode": "append"}, {"maintenance": {"compact": 2}}
    with jobs_here():
        for number in range(4):
            local_world.commit(NW, number, name=f"{number}.parquet")
    local_world.land(NW, sales(4), "then.parquet")
    fields = ("catalog", "storage", "source", "options", "lake_options")
    given = json.dumps({name: getattr(local_world, name) for name in fields})

    done = run_python("-c", CLIENT, spark_connect, NW, given, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["committed", "SessionLostError"]
    assert local_world.totals() == [0, 1, 2, 3, 4]
    assert [row.mode for row in local_world.ledger()][:2] == ["compact", "append"]


@pytest.mark.kill
@pytest.mark.soak
def test_a_server_that_is_started_again_in_a_job_runs_the_job_again(local_world: World, tmp_path: Path) -> None:
    world = with_functions(local_world, tmp_path, "once_slow")
    for text in (NW, SW):
        world.land(text, sales(1))
    [port] = free_ports(1)

    with connect_server(port=port) as url:
        run = started(world.config_file(tmp_path, spark={"remote": url}), tmp_path, NW, SW)
        until((tmp_path / "slept").exists, "the job begins")
    with connect_server(port=port):
        stdout, stderr = run.communicate(timeout=240)

    assert run.returncode == 0, stderr
    assert stdout.count("committed  ") == 2
    assert len(world.query("FROM lake.sales")) == 2
    assert len(world.data_files()) == 2


def ended(world: World, folder: Path, url: str, *partitions: str) -> tuple[int, str]:
    """The exit code of a command that ingests, and its errors on one line."""
    run = started(world.config_file(folder, spark={"remote": url}), folder, *partitions)
    _, stderr = run.communicate(timeout=240)
    return run.returncode, " ".join(stderr.split())


@pytest.mark.soak
def test_an_error_on_an_executor_is_one_sentence(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    world = with_functions(local_world, tmp_path, "failing")
    world.land(NW, sales(1))

    code, text = ended(world, tmp_path, spark_connect, NW)

    assert code == 1
    assert f"the transform mine:failing failed at {tmp_path}/mine.py, line" in text
    assert "ValueError: failed on purpose: xxx" in text
    assert "JVM stacktrace" not in text
    assert "org.apache" not in text
    assert len(text) < 2000


def test_a_module_of_the_user_reaches_the_workers(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    world = with_functions(local_world, tmp_path, "helped")
    for text in (NW, SW):
        world.land(text, sales(1, 2))

    assert ended(world, tmp_path, spark_connect, NW, SW)[0] == 0

    assert world.query("SELECT count(*) FROM lake.sales") == [(8,)]


def test_tokens_are_not_printed_or_stored(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    """Not with Spark's log, and not in the lake, whose ledger has the errors of runs."""
    local_world.land(NW, b"PAR1 no more than that PAR1")
    wrong = "hunter2-is-wrong"
    refused = ingest(local_world, tmp_path, spark_connect.replace(TOKEN, wrong))
    config = local_world.config_file(tmp_path, spark={"remote": spark_connect})
    arguments = (LAKE_ASSETS, "--debug", "--config", str(config), "ingest", "--partition", NW)

    done = run_python(*arguments, folder=tmp_path)

    assert (refused.returncode, done.returncode) == (1, 1)
    assert "refuses the token" in " ".join(refused.stderr.split())
    assert "cannot be read as Parquet" in " ".join(done.stderr.split())
    assert wrong not in refused.stdout + refused.stderr
    assert TOKEN in config.read_text()
    assert TOKEN not in done.stdout + done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != config]
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []
    assert local_world.query("SELECT count(*) FROM lake.ingest_runs WHERE error LIKE '%Parquet%'") == [(1,)]
