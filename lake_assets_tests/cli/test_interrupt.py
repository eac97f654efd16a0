"""Ctrl-C at any moment: exit code 130, nothing but `Interrupted.`, no JVM left, and a lake that goes on."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lake_assets_tests.tiers import more, soak
from lake_assets_tests.until import until
from lake_assets_tests.world import World, sales

PARTITIONS = [f"region={region},date=2026-02-{day:02}" for region in ("NE", "NW") for day in range(1, 29)]
# The program, which says so when a signal would interrupt its command.
PROGRAM = """
import click

from lake_assets.cli import main

invoke = click.Group.invoke

def told(group, context):
    print("begun", flush=True)
    return invoke(group, context)

click.Group.invoke = told
main()
"""
# Fewer than the lines of all partitions: a run cannot end before its reader has taken more than one line.
PIPE_BYTES = 4096

pytestmark = pytest.mark.kill


def start(world: World, folder: Path) -> "subprocess.Popen[bytes]":
    """An ingest of many partitions that has begun, in a process group of its own, as a shell would start it."""
    file = world.config_file(folder)
    command = [sys.executable, "-c", PROGRAM, "--config", str(file), "ingest", "sales"]
    partitions = [argument for text in PARTITIONS for argument in ("--partition", text)]
    process = subprocess.Popen(
        [*command, *partitions], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
    )
    assert process.stdout
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    assert process.stdout.readline() == b"begun\n"
    return process


def terminate(process: "subprocess.Popen[bytes]") -> str:
    """As `press_ctrl_c`, for what `kill` and a container's stop send: SIGTERM, to the process alone."""
    process.terminate()
    _, errors = process.communicate(timeout=120)
    return errors.decode()


def press_ctrl_c(process: "subprocess.Popen[bytes]") -> str:
    """What is printed on standard error by the time that nobody holds the pipes any more, the JVM neither."""
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return errors.decode()


def assert_interrupted(process: "subprocess.Popen[bytes]", errors: str, code: int = 130) -> None:
    assert process.returncode == code, errors
    assert errors.rstrip().endswith("Interrupted." if code == 130 else "Terminated.")
    for noise in ("Traceback", "Exception", "Error", "ERROR"):
        assert noise not in errors


@pytest.mark.parametrize(("stop", "code"), [(press_ctrl_c, 130), *more([(terminate, 143)])])
def test_between_and_within_partitions(
    local_world: World, tmp_path: Path, stop: Callable[["subprocess.Popen[bytes]"], str], code: int
) -> None:
    for text in PARTITIONS:
        local_world.land(text, sales(1))

    process = start(local_world, tmp_path)
    assert process.stdout
    assert process.stdout.readline().startswith(b"committed")
    errors = stop(process)

    assert_interrupted(process, errors, code)
    committed = len(local_world.totals())
    assert 1 <= committed < len(PARTITIONS)
    statuses = [row.status for row in local_world.ledger()]
    assert statuses.count("committed") == committed
    assert set(statuses) == {"committed", "cancelled"}
    local_world.ingest(PARTITIONS[-1])
    assert len(local_world.totals()) == committed + 1


@pytest.mark.parametrize("seconds", [*more([0]), *soak([0.3, 1.3, 2.3])])
def test_while_spark_starts(local_world: World, tmp_path: Path, seconds: float) -> None:
    """So many seconds after the command has begun to start what starts the JVM."""
    for text in PARTITIONS:
        local_world.land(text, sales(1))

    process = start(local_world, tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: bool(children.read_text()), "the command starts another process")
    time.sleep(seconds)
    errors = press_ctrl_c(process)

    assert_interrupted(process, errors)
