"""A stack of its two servers: what is killed comes back, a stop leaves nothing, and a start begins where it ended.

The demonstration is on the whole stack; `test_kills.py` kills its parts.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dev.plain_client import plain_client
from dev.stack import probes
from dev.stack.command import stack, stack_folder
from dev.stack.components import WATCH
from dev.stack.probes import server_of
from dev.stack.site import Ports, Site
from dev.stack.supervised import Process, Supervisor, left_processes
from lake_assets.streams.load import load_config
from lake_assets_tests.stack.sites import catalog
from lake_assets_tests.until import until

pytestmark = pytest.mark.servers

SERVERS = ("postgres", "s3")


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder of a stack."""
    with stack_folder() as result:
        yield result


def processes(folder: Path) -> dict[str, Process]:
    """The servers' processes."""
    found = Supervisor(Site.existing(folder)).processes()
    return {name: found[name] for name in SERVERS}


def read(site: Site) -> tuple[object, bytes]:
    """What the two servers keep."""
    with catalog(site) as connection:
        row = connection.execute("SELECT x FROM t").fetchone()
    body = server_of(site).client().get_object(Bucket="landing", Key="a/b")["Body"].read()
    return row, body


@pytest.mark.more
@pytest.mark.kill
def test_what_is_killed_comes_back_and_what_is_stopped_starts_again_with_its_data(folder: Path) -> None:
    assert stack("up", *SERVERS, "--free-ports", "--detach", folder=folder).returncode == 0
    site = Site.existing(folder)
    with catalog(site) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    server_of(site).client().put_object(Bucket="landing", Key="a/b", Body=b"kept")
    first = processes(folder)

    for process in first.values():
        os.kill(process.pid, signal.SIGKILL)

    def are_back() -> bool:
        now = processes(folder)
        return all(now[name].pid not in {0, first[name].pid} for name in SERVERS)

    until(are_back, "the servers come back")
    # A start returns when all of it answers, and starts nothing a second time.
    again = stack("up", *SERVERS, "--detach", folder=folder)
    assert (again.returncode, "starts" in again.stdout) == (0, False), again.stdout + again.stderr
    assert read(site) == ((1,), b"kept")

    stopped = stack("stop", folder=folder)
    assert (stopped.returncode, stopped.stdout) == (0, "stopping\nstopped\n"), stopped.stderr
    assert left_processes(folder) == []

    assert stack("up", *SERVERS, "--detach", folder=folder).returncode == 0
    assert read(site) == ((1,), b"kept")


@pytest.mark.soak
@pytest.mark.kill
def test_a_killed_supervisor_is_started_again_by_the_watch_and_without_one_by_the_next_start(folder: Path) -> None:
    assert stack("up", "postgres", "--free-ports", "--detach", folder=folder).returncode == 0
    supervisor = Supervisor(Site.existing(folder))

    def kill(*more: psutil.Process) -> list[psutil.Process]:
        pid = int((folder / "supervisord.pid").read_text())
        killed = [psutil.Process(pid), *more]
        left = psutil.Process(pid).children()
        for process in killed:
            process.kill()
        psutil.wait_procs(killed, timeout=60)
        return [process for process in left if process not in more]

    # What a user runs on the stack, such as the demonstration, is not of the stack.
    command = [sys.executable, "-m", "dev.stack", "run", "--folder", str(folder), "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as of_user:  # it ends with its input
        left = kill()
        until(lambda: not any(process.is_running() for process in left), "the old processes are ended", 240)
        until(lambda: supervisor.is_up() and probes.postgres(supervisor.site), "PostgreSQL answers", 240)

        left = kill(psutil.Process(supervisor.processes()[WATCH].pid))
        again = stack("up", "postgres", "--detach", folder=folder)

        assert again.returncode == 0, again.stdout + again.stderr
        assert "processes that a killed supervisor left behind" in again.stdout
        assert not any(process.is_running() for process in left)
        assert of_user.poll() is None


@pytest.mark.more
def test_a_port_that_another_program_has_is_named_with_its_component(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        Site.at(folder, Ports.free().model_copy(update={"spark_connect": port}))
        done = stack("up", "postgres", "--detach", folder=folder)

    assert done.returncode == 1
    assert f"other programs listen on ports of the stack: {port} (spark-connect). End them" in done.stderr


@pytest.mark.more
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("up", "kafka", "--free-ports"), "the stack has no kafka: it has watch, postgres, s3, "),
        (("status",), "no stack was started in "),
    ],
)
def test_what_does_not_exist_is_an_error(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    done = stack(*arguments, folder=tmp_path)

    assert (done.returncode, error in done.stderr) == (1, True), done.stderr


LANDED = re.compile(r"landed  ([\d,]+) records in ([\d,]+) files")
SEEN = re.compile(r"landed ([\d,]+) objects; ([\d,]+) rows in the lake; waiting: ([\d,]+) partition")


def numbers(match: re.Match[str]) -> list[int]:
    return [int(text.replace(",", "")) for text in match.groups()]


@pytest.mark.soak
@pytest.mark.dagster
@pytest.mark.timeout(600)
def test_the_lake_follows_what_the_demonstration_lands_and_a_stop_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stack("up", "--free-ports", "--detach", folder=folder).returncode == 0
    site = Site.existing(folder)

    done = stack("demo", "--seconds", "15", "--rate", "1000", folder=folder)

    assert done.returncode == 0, done.stdout + done.stderr
    landed = LANDED.search((folder / "logs/demo.log").read_text("utf-8"))
    assert landed is not None
    records, files = numbers(landed)
    assert records > 1000
    seen = [numbers(match) for match in SEEN.finditer(done.stdout)]
    assert seen[-1] == [files, records, 0]
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    with plain_client(load_config(site.lake_config).lakes["retail"]) as client:
        assert client.execute("SELECT count(*) FROM lake.transactions").fetchone() == (records,)

    status = stack("status", folder=folder)
    assert (status.returncode, status.stdout.count("  running  "), status.stdout.count("  yes  ")) == (0, 10, 10)
    # The command that shows the status page ends the stack at Ctrl-C, as it does without a terminal.
    command = [sys.executable, "-m", "dev.stack", "up", "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shown:
        assert shown.stdout is not None
        for line in shown.stdout:
            if line.startswith("daemon "):
                break
        shown.send_signal(signal.SIGINT)
        assert shown.stdout.read().splitlines()[-2:] == ["stopping", "stopped"]
    assert shown.returncode == 0
    assert left_processes(folder) == []
