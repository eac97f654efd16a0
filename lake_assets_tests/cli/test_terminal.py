"""Tables, colours and control characters, on a terminal and in a pipe, by `NO_COLOR` and `COLUMNS`."""

import ast
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import lake_assets.cli
from lake_assets.cli import main
from lake_assets.cli.output import print_table, text_table
from lake_assets.streams.load import load_config
from lake_assets_tests.cli.terminals import on_a_screen, on_terminal
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World

LONG = ["query", "SELECT *, repeat('x', 200) AS long FROM sales", "--format", "table"]
WIDE = ", ".join(f"repeat('{name}', 30) AS {name}_text" for name in "abcdefgh")
TABLES = (
    ["report"],
    ["report", "--partitions"],
    ["ledger", "sales"],
    ["history"],
    ["validate"],
    ["plan", "--all"],
    ["query", f"SELECT 12345678 AS number, {WIDE}"],
)


@pytest.fixture
def config(local_world: World, tmp_path: Path) -> Path:
    local_world.commit(NW, 1, 2)
    return local_world.config_file(tmp_path)


def shown(config: Path, *arguments: str, width: int = 80) -> str:
    """What a command that succeeds writes on a terminal of this width."""
    output, code = on_a_screen("--config", str(config), *arguments, environment={"COLUMNS": str(width)})
    assert (code, "\x1b" in output) == (0, False), output
    return output


def test_tables_in_a_pipe_are_no_wider_than_columns_says_and_nothing_is_cut(config: Path) -> None:
    for arguments in (["report", "--format", "table"], LONG):
        ran = CliRunner().invoke(main, ["--config", str(config), *arguments], env={"COLUMNS": "80"})
        assert ran.exit_code == 0
        table = [line for line in ran.stdout.splitlines() if not line.startswith("lake ")]
        assert max(map(len, table)) <= 80
        assert "…" not in ran.stdout
    assert ran.stdout.count("x") >= 400  # both rows


@pytest.mark.parametrize(("width", "left_out"), [(80, "e_text, f_text, g_text, h_text"), *more([(120, "h_text")])])
def test_tables_fit_the_terminal(config: Path, width: int, left_out: str) -> None:
    for arguments in TABLES:
        output = shown(config, *arguments, width=width)
        lines = [line for line in output.splitlines() if not line.startswith(("lake ", "to read"))]
        assert max(map(len, lines)) <= width, output
    assert f"left out: {left_out}; see --format json" in output
    assert "12345678" in output  # numbers are never cut
    assert "aaaaaa…" in output


def test_a_narrow_terminal_cuts_no_key_no_status_and_no_text_that_people_copy(config: Path) -> None:
    for arguments, header, texts in (
        (["ledger"], "finished (UTC) partition status rows snapshot", {"committed", "2"}),
        (["history"], "snapshot time (UTC) partition what rows", {"replace", "2"}),
    ):
        first, _, row, *_ = shown(config, *arguments).splitlines()
        assert " ".join(first.split()).startswith(header)
        assert {"region=NW/date=2026-02-11", *texts} <= set(row.split())

    output = shown(config, "validate")
    assert "…" not in output
    uri = load_config(config).streams["sales"].source.root
    assert len(uri) > 30
    table = output.splitlines()[: output.count("\n") - 2]
    assert uri in "".join(line.split()[1 if line.startswith("sales") else 0] for line in table[1:])


def test_a_long_key_is_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    partition = f"region={'x' * 40}/date=2026-02-11"
    print_table(text_table(["time (UTC)", "partition", "error"], [["2026-02-11 10:00:00", partition, "e" * 90]]))

    _, _, *rows, last = capsys.readouterr().out.splitlines()
    assert "".join(row.split()[-1] for row in rows) == partition
    assert last == "left out: error; see --format json"


def test_a_cell_is_as_wide_as_its_longest_line(config: Path) -> None:
    sql = "SELECT repeat('x', 20) || repeat(chr(10) || 'y', 40) AS lines, repeat('z', 50) AS z"
    output = shown(config, "query", sql)

    assert "x" * 20 in output
    assert "z" * 50 in output


@pytest.mark.more
def test_a_real_terminal_has_colours(config: Path) -> None:
    """The other tests set `NO_COLOR`."""
    program = "from lake_assets.cli import main; main()"
    words = [sys.executable, "-c", program, "--config", str(config), "validate"]
    with on_terminal(words) as terminal:
        assert terminal.read_all() == 0, terminal.written

    assert "\x1b" in terminal.written


def test_no_command_prints_by_click_itself() -> None:
    """`output.py` escapes the control characters of names and foreign texts."""
    found = [
        f"{file.name}:{node.lineno}: click.{node.attr}"
        for file in Path(lake_assets.cli.__file__).parent.glob("*.py")
        if file.name != "output.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"echo", "secho", "style"}
        if isinstance(node.value, ast.Name) and node.value.id == "click"
    ]
    assert not found
