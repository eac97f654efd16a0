"""`NO_COLOR` and `COLUMNS`, on a real terminal and in a pipe."""

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner

import lake_assets.cli
from lake_assets.cli import main
from lake_assets.cli.output import print_table, table_of
from lake_assets.config.load import load_config
from lake_assets_tests.cli.terminals import on_a_terminal
from lake_assets_tests.world import NW, World, sales

COMMANDS = (
    ["report", "--format", "table"],
    ["query", "SELECT *, repeat('x', 200) AS long FROM sales", "--format", "table"],
)


@pytest.fixture
def config(local_world: World, tmp_path: Path) -> Path:
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    return local_world.config_file(tmp_path)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_tables_are_no_wider_than_columns_says(config: Path, arguments: list[str]) -> None:
    ran = CliRunner().invoke(main, ["--config", str(config), *arguments], env={"COLUMNS": "80"})
    assert ran.exit_code == 0
    table = [line for line in ran.stdout.splitlines() if not line.startswith("lake ")]
    assert max(map(len, table)) <= 80
    assert "…" not in ran.stdout  # nothing is cut
    if arguments[0] == "query":
        assert ran.stdout.count("x") >= 400  # both rows


WIDE = ", ".join(f"repeat('{name}', 30) AS {name}_text" for name in "abcdefgh")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ["report"],
        ["report", "--partitions"],
        ["ledger", "sales"],
        ["history"],
        ["validate"],
        ["plan", "--all"],
        ["query", f"SELECT 12345678 AS number, {WIDE}"],
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_tables_fit_the_terminal(config: Path, arguments: list[str], width: int) -> None:
    output, code = on_a_terminal(config, *arguments, COLUMNS=str(width), NO_COLOR="1")

    assert code == 0, output
    lines = [line for line in output.splitlines() if not line.startswith(("lake ", "to read"))]
    assert max(map(len, lines)) <= width, output
    if arguments[0] == "query":
        left_out = {80: "e_text, f_text, g_text, h_text", 120: "h_text"}[width]
        assert f"left out: {left_out}; see --format json" in output
        assert "12345678" in output  # numbers are never cut
        assert "aaaaaa…" in output


@pytest.mark.parametrize(
    ("arguments", "header", "texts"),
    [
        (["ledger"], "finished (UTC) partition status rows snapshot", {"committed", "2"}),
        (["history"], "snapshot time (UTC) partition what rows", {"replace", "2"}),
    ],
    ids=["ledger", "history"],
)
def test_a_narrow_terminal_cuts_no_key_and_no_status(
    config: Path, arguments: list[str], header: str, texts: set[str]
) -> None:
    output, code = on_a_terminal(config, *arguments, COLUMNS="80", NO_COLOR="1")

    assert code == 0, output
    first, _, row, *_ = output.splitlines()
    assert " ".join(first.split()).startswith(header)
    assert {"region=NW/date=2026-02-11", *texts} <= set(row.split())


def test_a_long_key_is_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    partition = f"region={'x' * 40}/date=2026-02-11"
    print_table(table_of(["time (UTC)", "partition", "error"], [["2026-02-11 10:00:00", partition, "e" * 90]]))

    _, _, *rows, last = capsys.readouterr().out.splitlines()
    assert "".join(row.split()[-1] for row in rows) == partition
    assert last == "left out: error; see --format json"


def test_validate_cuts_no_text_that_people_copy(config: Path) -> None:
    output, code = on_a_terminal(config, "validate", COLUMNS="80", NO_COLOR="1")

    assert code == 0, output
    assert "…" not in output
    uri = load_config(config).streams["sales"].source.root
    assert len(uri) > 30
    table = output.splitlines()[: output.count("\n") - 2]
    assert uri in "".join(line.split()[1 if line.startswith("sales") else 0] for line in table[1:])


def test_a_cell_is_as_wide_as_its_longest_line(config: Path) -> None:
    sql = "SELECT repeat('x', 20) || repeat(chr(10) || 'y', 40) AS lines, repeat('z', 50) AS z"
    output, code = on_a_terminal(config, "query", sql, COLUMNS="80", NO_COLOR="1")

    assert code == 0, output
    assert "x" * 20 in output
    assert "z" * 50 in output


@pytest.mark.parametrize("arguments", [["validate"], COMMANDS[1]], ids=lambda arguments: arguments[0])
def test_no_color_leaves_no_escape_codes(config: Path, arguments: list[str]) -> None:
    output, code = on_a_terminal(config, *arguments, NO_COLOR="1")

    assert code == 0, output
    assert "\x1b" not in output


def test_without_it_a_terminal_has_colours(config: Path) -> None:
    output, code = on_a_terminal(config, "validate")

    assert code == 0, output
    assert "\x1b" in output


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
