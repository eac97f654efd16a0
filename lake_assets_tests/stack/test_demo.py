"""The demonstration on the whole stack: what lands is in the lake, without a command but those that land."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev.plain_client import plain_client
from dev.stack.command import stack
from dev.stack.site import Site
from dev.stack.supervised import left_processes
from lake_assets.config.load import load_config
from lake_assets_tests.stack.test_stack import folder

__all__ = ["folder"]

pytestmark = [pytest.mark.servers, pytest.mark.dagster, pytest.mark.soak, pytest.mark.timeout(600)]

LANDED = re.compile(r"landed  ([\d,]+) records in ([\d,]+) files")
SEEN = re.compile(r"landed ([\d,]+) objects; ([\d,]+) rows in the lake; waiting: ([\d,]+) partition")


def numbers(match: re.Match[str]) -> list[int]:
    return [int(text.replace(",", "")) for text in match.groups()]


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
    assert (status.returncode, status.stdout.count("  running  "), status.stdout.count("  yes  ")) == (0, 9, 9)
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
