"""A server process of the tests ends with them, and says why when it does not start."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.servers.process import ServerStartError, free_ports, retried, running
from lake_assets_tests.until import until

pytestmark = pytest.mark.kill


def test_a_server_ends_and_its_folder_goes_though_the_tests_are_killed(tmp_path: Path) -> None:
    folder, pid_file = tmp_path / "server", tmp_path / "pid"
    folder.mkdir()
    server = f"import os, time; os.symlink(str(os.getpid()), {str(pid_file)!r}); time.sleep(600)"
    tests = f"""
import sys, time
from pathlib import Path
from dev.servers.process import running
up = Path({str(pid_file)!r}).is_symlink
with running([sys.executable, "-c", {server!r}], folder=Path({str(folder)!r}), ready=up):
    print("up", flush=True)
    time.sleep(600)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", tests], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        pid = int(pid_file.readlink().name)
        process.send_signal(signal.SIGKILL)
    until(lambda: not folder.exists(), "the server's folder goes")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("program", "timeout", "reason"),
    [
        ("raise SystemExit('no room')", 60, "ended with 1; it said:\nno room"),
        ("import time; time.sleep(600)", 1, "was not ready in 1 s"),
    ],
)
def test_a_server_that_does_not_come_up_says_why(tmp_path: Path, program: str, timeout: float, reason: str) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    start = running([sys.executable, "-c", program], folder=folder, ready=lambda: False, timeout=timeout)
    with pytest.raises(ServerStartError, match=reason), start:
        pass
    assert not folder.exists()


def test_a_port_that_was_taken_is_chosen_anew() -> None:
    tried: list[int] = []

    @retried
    def server() -> Iterator[int]:
        tried.extend(free_ports(1))
        if len(tried) < 3:
            raise ServerStartError("the port is taken")
        yield tried[-1]

    with server() as port:
        assert port == tried[2]


def test_free_ports_differ() -> None:
    assert len(set(free_ports(50))) == 50
