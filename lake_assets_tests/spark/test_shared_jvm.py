"""Processes that share one JVM: who starts it, who ends it, and what happens to the others when one of them dies."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lake_assets.base.errors import SparkUnavailableError
from lake_assets.config.spark import Spark
from lake_assets.spark import shared_jvm
from lake_assets.spark.jvm import OFF
from lake_assets.spark.spark_session import spark_config
from lake_assets_tests.spark.processes import plain_environment
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, SW, World, sales

pytestmark = pytest.mark.timeout(120)

SETTINGS = Spark.model_validate({"master": "local[1]", "remote": "shared"}).settings
# Reads one command a line, and writes one line for each.
SCRIPT = """
import json, sys, time
from contextlib import suppress
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.spark.cluster import interrupted_on_server, kept_session
from lake_assets.spark.jvm import stop_session
from lake_assets.spark.spark_session import spark_config, start_session
from lake_assets_tests.world import World

settings, world = json.loads(sys.argv[1]), World(*json.loads(sys.argv[2]), None)
start = lambda: start_session(spark_config(settings=settings, transforms=False))
session = kept_session(start)
def sleep(seconds):
    def work(_):
        time.sleep(float(seconds))
        return [1]
    with interrupted_on_server(session(), f"sleep-{seconds}"):
        return session().sparkContext.parallelize([0], 1).mapPartitions(work).sum()
def ingest(text):
    (outcome,) = ingest_all(world.stream, [world.partition(text)], session)
    return f"{outcome.row.status} {outcome.row.row_count} {outcome.error or ''}"
def fail(_):
    with suppress(ValueError), interrupted_on_server(session(), "failing"):
        raise ValueError
    return session().sparkContext.getJobTags()
def jvm(_):
    return session().sparkContext._jvm.ProcessHandle.current().pid()
def leave(_):
    global session
    stop_session(session())
    session = kept_session(start)
for line in sys.stdin:
    command, _, argument = line.strip().partition(" ")
    try:
        print(globals()[command](argument), flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


class User:
    """A process that shares the JVM."""

    def __init__(self, world: World, folder: Path, settings: dict[str, str]) -> None:
        places = json.dumps([world.catalog, world.storage, world.source])
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps(settings), places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=plain_environment() | {"TMPDIR": os.fspath(folder), OFF: "1"},
        )

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        self.send(command)
        return self.read()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def has_ended(pid: int) -> bool:
    """Whether a process has ended, although its parent may not have asked."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


Users = Callable[..., User]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the JVM makes sockets there."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def users(local_world: World, folder: Path) -> Iterator[Users]:
    """Starts processes, and shows that no JVM is left when all have ended."""
    started, jvms = list[User](), set[int]()

    def start(**settings: str) -> User:
        started.append(User(local_world, folder, SETTINGS | settings))
        return started[-1]

    try:
        yield start
        jvms.update(int(user.ask("jvm")) for user in started if user.process.poll() is None)
    finally:
        for user in started:
            user.end()
    until(lambda: all(map(has_ended, jvms)), "the end of the JVM", 30)


def test_processes_share_a_jvm_that_ends_after_the_last_one_although_the_first_was_killed(
    local_world: World, users: Users
) -> None:
    local_world.land(NW, sales(1, 2, 3))
    local_world.land(SW, sales(4))
    first, second = users(), users()
    for user in (first, second):
        user.send("jvm")
    jvm = first.read()
    assert second.read() == jvm

    assert first.ask("fail") == "set()"
    assert first.ask(f"ingest {NW}") == "committed 3"
    first.end()
    assert second.ask(f"ingest {SW}") == "committed 1"
    assert second.ask("jvm") == jvm


@pytest.mark.more
def test_a_process_that_leaves_can_come_back(users: Users) -> None:
    first, second = users(), users()
    jvm = first.ask("jvm")
    assert second.ask("jvm") == jvm

    assert second.ask("leave") == "None"
    assert first.ask("sleep 0") == "1"
    assert second.ask("jvm") == jvm

    assert (first.ask("leave"), second.ask("leave")) == ("None", "None")
    until(lambda: has_ended(int(jvm)), "the end of the JVM", 30)
    assert first.ask("jvm") != jvm


@pytest.mark.more
def test_a_killed_jvm_is_replaced_and_the_jobs_in_it_run_again(local_world: World, users: Users) -> None:
    local_world.land(NW, sales(1, 2, 3))
    first, second = users(), users()
    jvm = int(first.ask("jvm"))
    assert second.ask("sleep 0") == "1"

    os.kill(jvm, signal.SIGSTOP)  # so that the job is in it when it is killed
    second.send(f"ingest {NW}")
    time.sleep(2)
    os.kill(jvm, signal.SIGKILL)
    assert second.read() == "committed 3"
    assert int(first.ask("jvm")) == int(second.ask("jvm")) != jvm


@pytest.mark.more
def test_an_interrupted_or_stopped_process_does_not_disturb_the_others(users: Users) -> None:
    first, second = users(**{"spark.master": "local[2]"}), users(**{"spark.master": "local[2]"})
    assert first.ask("sleep 0") == second.ask("sleep 0") == "1"

    first.send("sleep 600")
    second.send("sleep 3")
    time.sleep(1)
    first.process.send_signal(signal.SIGINT)
    assert (first.read(), second.read()) == ("interrupted", "1")
    # Its core is free: its own job was cancelled.
    for number in (0.1, 0.2):
        first.send(f"sleep {number}")
    second.send("sleep 0.3")
    assert (first.read(), first.read(), second.read()) == ("1", "1", "1")

    first.send("sleep 1")
    time.sleep(0.5)
    first.process.send_signal(signal.SIGSTOP)
    time.sleep(1)  # its job ends now
    assert second.ask("sleep 0") == "1"
    first.process.send_signal(signal.SIGCONT)
    assert first.read() == "1"


def test_other_settings_and_credentials_have_another_jvm(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(folder))
    monkeypatch.setenv("AWS_PROFILE", "one")
    of_one = shared_jvm._folder(SETTINGS)
    monkeypatch.setenv("DAGSTER_RUN_ID", "another run")
    assert shared_jvm._folder(SETTINGS | {"spark.app.name": "another"}) == of_one
    assert shared_jvm._folder(SETTINGS | {"spark.driver.memory": "2g"}) != of_one
    monkeypatch.setenv("AWS_PROFILE", "two")
    assert shared_jvm._folder(SETTINGS) != of_one


def test_a_folder_that_others_can_read_is_refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(folder))
    parent = shared_jvm._folder(SETTINGS).parent
    parent.chmod(0o755)
    with pytest.raises(SparkUnavailableError, match=f"the folder {parent} of the shared Spark is open to other users"):
        shared_jvm._folder(SETTINGS)
    parent.chmod(0o700)
    assert stat.S_IMODE(shared_jvm._folder(SETTINGS).stat().st_mode) == 0o700


def test_a_jvm_that_has_seen_the_end_of_its_input_is_not_joined(folder: Path) -> None:
    os.mkfifo(folder / "alive")
    script = "import sys, time; open(sys.argv[1]).read(); print(flush=True); time.sleep(1)"
    ending: Any = subprocess.Popen([sys.executable, "-c", script, folder / "alive"], stdout=subprocess.PIPE)
    with ending:
        os.close(os.open(folder / "alive", os.O_WRONLY))
        ending.stdout.readline()
        assert shared_jvm._pipe_of_living(folder) is None
    assert shared_jvm._pipe_of_living(folder) is None


def test_a_stream_with_a_transform_has_a_jvm_of_its_own_and_spark_remote_names_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert spark_config(settings=SETTINGS, transforms=False)["spark.remote"] == "shared"
    assert "spark.remote" not in spark_config(settings=SETTINGS)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert "spark.remote" not in spark_config(settings=SETTINGS, transforms=False)
