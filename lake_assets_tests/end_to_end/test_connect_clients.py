"""Clients of a real Spark Connect server: interrupts, lost sessions, several at once, tokens, and texts of errors."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dev.servers.connect import TOKEN, connect_server
from dev.servers.process import free_ports
from lake_assets_tests.end_to_end.test_spark_connect import ROWS, ingest, twin
from lake_assets_tests.ingest.lettering import BIG, letters, made, wide
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, SW, World, sales

LAKE_ASSETS = str(Path(sys.executable).with_name("lake-assets"))

# Nested functions are pickled whole, so the workers need no module `mine`.
MINE = '''
import os, time

def beating(frame):
    """Writes to a file until it is ended."""
    def beat(batches):
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


def at_rest(file: Path) -> bool:
    """Whether nothing is written to the file for two seconds, twenty times as long as a beat."""
    size = file.stat().st_size
    time.sleep(2)
    return file.stat().st_size == size


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


@pytest.mark.more
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
    until(lambda: at_rest(tmp_path / "beats"), "the job ends")  # the server ends a task a moment after it was told to
    (tmp_path / "other" / "beats").unlink()
    until((tmp_path / "other" / "beats").exists, "the other job beats")  # that of the other client goes on

    assert mine.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert (tmp_path / "beats").stat().st_size < 1200
    assert [row.status for row in world.ledger(NW)] == ["cancelled"]
    assert world.data_files() == set()
    others.send_signal(signal.SIGTERM)
    others.communicate(timeout=120)


LOST = """
import json, sys
from lake_assets.cli.sessions import Session
from lake_assets.events import listen
from lake_assets.ingest.api import ingest
from lake_assets_tests.world import World

listen(lambda event: event.event == "retry" and print(event.kind))
places, url, *texts = sys.argv[1:]
sessions = Session({"spark.remote": url})
world = World(*json.loads(places), sessions)
with sessions.stopped():
    for text in texts:
        print(ingest(world.stream, world.partition(text), sessions).row.status)
        sessions().client.release_session()  # as the server does after an hour without a call
"""


def test_a_session_that_the_server_has_closed_is_replaced(
    local_world: World, tmp_path: Path, spark_connect: str
) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    places = json.dumps([local_world.catalog, local_world.storage, local_world.source])

    done = run_python("-c", LOST, places, spark_connect, NW, SW, folder=tmp_path)

    assert done.stdout.split() == ["committed", "SessionLostError", "committed"], done.stderr
    assert len(local_world.query("FROM lake.sales")) == 2


@pytest.mark.kill
@pytest.mark.kill_all
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
    assert stdout.count("committed") == 2
    assert len(world.query("FROM lake.sales")) == 2
    assert len(world.data_files()) == 2


def test_clients_at_once_have_sessions_of_their_own(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    """Each has a view `source` with the rows of its own partition."""
    local_world.options = {"transform": {"sql": "SELECT id, total, count(*) OVER () AS rows FROM source"}}
    days = [f"region=NW,date=2026-02-{day:02}" for day in range(1, 5)]
    for number, text in enumerate(days, 1):
        local_world.land(text, sales(*range(number)))
    config = local_world.config_file(tmp_path, spark={"remote": spark_connect})

    runs = [started(config, tmp_path, text) for text in days]
    outputs = [run.communicate(timeout=240) for run in runs]

    assert [run.returncode for run in runs] == [0] * 4, outputs
    assert local_world.query("SELECT day(date), any_value(rows), count(*) FROM lake.sales GROUP BY 1 ORDER BY 1") == [
        (number, number, number) for number in range(1, 5)
    ]


def test_an_error_on_an_executor_is_one_sentence(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    world = with_functions(local_world, tmp_path, "failing")
    world.land(NW, sales(1))

    run = started(world.config_file(tmp_path, spark={"remote": spark_connect}), tmp_path, NW)
    _, stderr = run.communicate(timeout=240)

    text = " ".join(stderr.split())
    assert run.returncode == 1
    assert f"the transform mine:failing failed at {tmp_path}/mine.py, line" in text
    assert "ValueError: failed on purpose: xxx" in text
    assert "JVM stacktrace" not in text
    assert "org.apache" not in text
    assert len(text) < 2000


def test_columns_are_added_by_a_client(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    local_world.options = {"schema_policy": "evolve"}
    local_world.land(NW, ROWS.select(["id"]), "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, ROWS.select(["id", "text"]).append_column("more", pa.array([1, 2, 3])), "b.parquet")

    done = ingest(local_world, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    assert local_world.query("SELECT count(id), count(text), count(more) FROM lake.sales") == [(4, 2, 3)]


def test_rows_are_staged_by_a_client(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.land(NW, ROWS)

    done = ingest(local_world, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    assert local_world.query("SELECT count(*), sum(id) FROM lake.sales") == [(3, 3)]


def test_objects_are_appended_by_a_client(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    local_world.options = {"mode": "append"}
    local_world.land(NW, ROWS.slice(0, 1), "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, ROWS.slice(1), "b.parquet")

    done = ingest(local_world, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(3,)]
    assert [row.source_files for row in local_world.ledger(NW)] == [1, 1]


def test_a_damaged_object_is_quarantined_by_a_client(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    local_world.options = {"on_bad_object": "quarantine"}
    local_world.land(NW, ROWS, "a.parquet")
    local_world.land(NW, b"PAR1 no more than that PAR1", "b.parquet")

    done = ingest(local_world, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(3,)]
    assert [row.files_quarantined for row in local_world.ledger(NW)] == [1]


@pytest.mark.parametrize("options", [{}, {"transform": {"sql": "SELECT id, total FROM source"}}])
def test_rows_that_do_not_fit_are_dead_letters_of_a_client(
    local_world: World, tmp_path: Path, spark_connect: str, options: dict[str, Any]
) -> None:
    local_world.options = {"on_bad_row": "dead_letter"} | options
    made(local_world)
    local_world.land(NW, wide(1, BIG), "b.parquet")

    done = ingest(local_world, tmp_path, spark_connect)

    assert done.returncode == 0, done.stderr
    assert local_world.query("SELECT id FROM lake.sales ORDER BY id") == [(0,), (1,)]
    assert [letter["id"] for letter in letters(local_world)] == [BIG]


def test_small_files_are_compacted_by_a_client(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    local_world.options = {"mode": "append"}
    for number in range(5):
        local_world.land(NW, sales(number), f"{number}.parquet")
        local_world.ingest(NW)
    local_world.lake_options = {"maintenance": {"compact": 2}}
    config = local_world.config_file(tmp_path, spark={"remote": spark_connect})

    done = run_python(LAKE_ASSETS, "--config", str(config), "maintain", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert local_world.ledger()[0].mode == "compact"
    assert local_world.query("SELECT count(*), sum(total) FROM lake.sales") == [(5, 10)]


def test_a_module_of_the_user_reaches_the_workers(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    world = with_functions(local_world, tmp_path, "helped")
    for text in (NW, SW):
        world.land(text, sales(1, 2))

    run = started(world.config_file(tmp_path, spark={"remote": spark_connect}), tmp_path, NW, SW)
    _, stderr = run.communicate(timeout=240)

    assert run.returncode == 0, stderr
    assert world.query("SELECT count(*) FROM lake.sales") == [(8,)]


def test_a_wrong_token_is_named_and_not_printed(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    local_world.land(NW, ROWS)
    wrong = "hunter2-is-wrong"

    done = ingest(local_world, tmp_path, spark_connect.replace(TOKEN, wrong))

    text = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert "refuses the token" in text
    assert wrong not in done.stdout + done.stderr


def test_the_token_is_not_printed_or_stored(local_world: World, tmp_path: Path, spark_connect: str) -> None:
    """Not with Spark's log, and not in the lake, whose ledger has the errors of runs."""
    local_world.land(NW, b"PAR1 no more than that PAR1")
    config = local_world.config_file(tmp_path, spark={"remote": spark_connect})
    arguments = (LAKE_ASSETS, "--debug", "--config", str(config), "ingest", "--partition", NW)

    done = run_python(*arguments, folder=tmp_path)

    assert done.returncode == 1
    assert "cannot be read as Parquet" in " ".join(done.stderr.split())
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != config]
    assert TOKEN in config.read_text()
    assert TOKEN not in done.stdout + done.stderr
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []
    assert local_world.query("SELECT count(*) FROM lake.ingest_runs") == [(1,)]
