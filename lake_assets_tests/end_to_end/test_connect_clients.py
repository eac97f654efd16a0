"""Clients of a real Spark Connect server: interrupts, lost sessions, several at once, tokens, and texts of errors."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from dev.servers.connect import TOKEN, connect_server
from dev.servers.process import free_ports
from lake_assets_tests.end_to_end.test_spark_connect import ROWS, ingest, twin
from lake_assets_tests.faults.without_spark import jobs_here
from lake_assets_tests.ingest.lettering import BIG, NARROW, wide
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


CLIENT = """
import json, sys
from lake_assets.cli.sessions import Session
from lake_assets.events import listen
from lake_assets.maintenance.maintenance_run import maintain
from lake_assets_tests.world import World

listen(lambda event: event.event == "retry" and print(event.kind))
url, *worlds = sys.argv[1:]
sessions = Session({"spark.remote": url})
with sessions.stopped():
    for number, text in enumerate(worlds):
        partition, options = json.loads(text)
        world = World(**options, sessions=sessions)
        if "maintenance" in world.lake_options:
            maintain(world.config, "test", sessions)
        else:
            print(world.ingest(partition).row.status)
            if number == 1:
                sessions().client.release_session()  # as the server does after an hour without a call
"""


@dataclass(frozen=True)
class Way:
    """What is done by a client: first some objects are ingested here, each by itself, then it does the rest."""

    options: dict[str, Any]
    first: tuple[pa.Table, ...]
    then: pa.Table | bytes | None
    query: str
    answer: tuple[Any, ...]
    lake: dict[str, Any] = field(default_factory=dict)


APPEND = {"mode": "append"}
FITTING = "SELECT sum(id), (SELECT count(*) FROM lake.ingest_dead_letters) FROM lake.sales"
WAYS = {
    "columns are added": Way(
        {"schema_policy": "evolve"},
        (ROWS.select(["id"]),),
        ROWS.select(["id", "text"]).append_column("more", pa.array([1, 2, 3])),
        "SELECT count(id), count(text), count(more) FROM lake.sales",
        (4, 2, 3),
    ),
    "rows are staged": Way(
        {}, (), ROWS, "SELECT count(*), sum(id) FROM lake.sales", (3, 3), {"attach_options": {"encrypted": True}}
    ),
    # The first after the server has closed the session.
    "small files are compacted": Way(
        APPEND,
        tuple(sales(number) for number in range(5)),
        None,
        "SELECT sum(total), (SELECT count(*) FROM lake.ingest_runs WHERE mode = 'compact') FROM lake.sales",
        (10, 1),
        {"maintenance": {"compact": 2}},
    ),
    "objects are appended": Way(
        APPEND, (ROWS.slice(0, 1),), ROWS.slice(1), "SELECT list(source_files) FROM lake.ingest_runs", ([1, 1],)
    ),
    "a damaged object is quarantined": Way(
        {"on_bad_object": "quarantine"},
        (ROWS,),
        b"PAR1 no more than that PAR1",
        "SELECT count(*), (SELECT max(files_quarantined) FROM lake.ingest_runs) FROM lake.sales",
        (3, 1),
    ),
    "rows that do not fit are dead letters": Way(
        {"on_bad_row": "dead_letter"}, (NARROW,), wide(1, BIG), FITTING, (1, 1)
    ),
}


@pytest.mark.soak
def test_a_client_does_all_that_a_classic_session_does_also_when_the_server_has_closed_its_session(
    local_world: World, tmp_path: Path, spark_connect: str
) -> None:
    worlds: dict[str, World] = {}
    for name, way in WAYS.items():
        folder = tmp_path / name.replace(" ", "_")
        source = {"type": "local", "path": str(folder / "landing")}
        world = replace(twin(local_world, folder), source=source, options=way.options, lake_options=way.lake)
        folder.mkdir()
        with jobs_here():
            for number, rows in enumerate(way.first):
                world.land(NW, rows, f"{number}.parquet")
                world.ingest(NW)
        if way.then is not None:
            world.land(NW, way.then, "then.parquet")
        worlds[name] = world
    fields = ("catalog", "storage", "source", "options", "lake_options")
    given = [json.dumps([NW, {name: getattr(world, name) for name in fields}]) for world in worlds.values()]

    done = run_python("-c", CLIENT, spark_connect, *given, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert {name: world.query(WAYS[name].query) for name, world in worlds.items()} == {
        name: [way.answer] for name, way in WAYS.items()
    }
    assert "SessionLostError" in done.stdout


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


@pytest.mark.soak
def test_clients_at_once_have_sessions_of_their_own(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    """Each has a view `source` with the rows of its own partition."""
    local_world.options = {"transform": {"sql": "SELECT id, total, count(*) OVER () AS rows FROM source"}}
    days = [f"region=NW,date=2026-02-{day:02}" for day in (1, 2)]
    for number, text in enumerate(days, 1):
        local_world.land(text, sales(*range(number)))
    config = local_world.config_file(tmp_path, spark={"remote": spark_connect})

    runs = [started(config, tmp_path, text) for text in days]
    outputs = [run.communicate(timeout=240) for run in runs]

    assert [run.returncode for run in runs] == [0, 0], outputs
    assert local_world.query("SELECT day(date), any_value(rows), count(*) FROM lake.sales GROUP BY 1 ORDER BY 1") == [
        (number, number, number) for number in (1, 2)
    ]


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
