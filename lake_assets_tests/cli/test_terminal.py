"""`NO_COLOR` and `COLUMNS`, on a real terminal and in a pipe."""

import ast
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import lake_assets.cli
from lake_assets_tests.world import NW, World, sales

COMMANDS = (
    ["validate"],
    ["report", "--format", "table"],
    ["ledger", "--format", "table"],
    ["query", "SELECT *, repeat('x', 200) AS long FROM sales", "--format", "table"],
)


@pytest.fixture
def config(local_world: World, tmp_path: Path) -> Path:
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    return local_world.config_file(tmp_path)


def command(config: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-c", "from lake_assets.cli import main; main()", "--config", str(config), *arguments]


def on_a_terminal(config: Path, *arguments: str, **environment: str) -> str:
    """What a command writes, on standard output and error, where both are a terminal."""
    ours, theirs = pty.openpty()
    plain = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    with subprocess.Popen(
        command(config, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=plain | {"TERM": "xterm-256color"} | environment,
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while sample := os.read(ours, 65536):
                written += sample
        except OSError:  # how Linux says that nobody holds the other end any more
            pass
        os.close(ours)
        assert process.wait(timeout=60) == 0, written
    return written.decode()


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_tables_are_no_wider_than_columns_says(config: Path, arguments: list[str]) -> None:
    ran = subprocess.run(
        command(config, *arguments),
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    table = [line for line in ran.stdout.splitlines() if not line.startswith("lake ")]
    assert max(map(len, table)) <= 80
    assert "…" not in ran.stdout  # nothing is cut
    if arguments[0] == "query":
        assert ran.stdout.count("x") >= 400  # both rows


@pytest.mark.parametrize(
    "arguments", [*COMMANDS, ["ingest", "--force", "--partition", NW]], ids=lambda arguments: arguments[0]
)
def test_no_color_leaves_no_escape_codes(config: Path, arguments: list[str]) -> None:
    assert "\x1b" not in on_a_terminal(config, *arguments, NO_COLOR="1")


def test_without_it_a_terminal_has_colours(config: Path) -> None:
    assert "\x1b" in on_a_terminal(config, "validate")


def test_no_command_prints_by_click_itself() -> None:
    """`terminal.py` escapes the control characters of names and foreign texts."""
    found = [
        f"{file.name}:{node.lineno}: click.{node.attr}"
        for file in Path(lake_assets.cli.__file__).parent.glob("*.py")
        if file.name != "terminal.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"echo", "secho", "style"}
        if isinstance(node.value, ast.Name) and node.value.id == "click"
    ]
    assert not found
