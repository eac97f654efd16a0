"""A code server whose second process was killed or hangs starts another one, when it is asked whether it answers."""

import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from dev.servers.process import free_ports, listens, running
from lake_assets import code_server
from lake_assets_tests.tiers import more

pytestmark = pytest.mark.dagster

DEFINITIONS = "import dagster\ndefinitions = dagster.Definitions()\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A code server with no assets: its port, and the process that has loaded the definitions."""
    (tmp_path / "definitions.py").write_text(DEFINITIONS, "utf-8")
    (port,) = free_ports(1)
    program = [str(Path(sysconfig.get_path("scripts"), "dagster")), "code-server", "start", "-h", "127.0.0.1"]
    command = [*program, "-p", str(port), "-f", str(tmp_path / "definitions.py")]
    environment = {"DAGSTER_HOME": str(tmp_path)}
    with running(command, folder=tmp_path, ready=lambda: listens(port), environment=environment, timeout=300):
        yield port, loaded()


def loaded() -> psutil.Process:
    """The newest process of a code server that has loaded the definitions."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # a zombie
            found += [process] if {"api", "grpc"} <= set(process.cmdline()) else []
    return max(found, key=lambda process: process.create_time())


@pytest.mark.kill
@pytest.mark.parametrize("end", [psutil.Process.kill, *more([psutil.Process.suspend])])
def test_a_server_without_its_second_process_has_another_one_after_the_question(
    server: tuple[int, psutil.Process], monkeypatch: pytest.MonkeyPatch, end: object
) -> None:
    port, first = server
    assert code_server.answers(port)
    assert loaded() == first
    monkeypatch.setattr(code_server, "PATIENCE", 0.0)
    monkeypatch.setattr(code_server, "ANSWER_SECONDS", 60.0 if end is psutil.Process.kill else 2.0)

    end(first)  # type: ignore[operator]

    assert code_server.answers(port)
    assert loaded() != first


def test_a_server_that_is_away_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_server, "PATIENCE", 0.0)
    (port,) = free_ports(1)
    assert not code_server.answers(port)
