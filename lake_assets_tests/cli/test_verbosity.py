"""`--quiet` and `--verbose`, before and after the command's name, with both formats of the log."""

import json
import logging
import re

import pytest
from click.testing import Result

from lake_assets.base.events import LOGGER, OFF
from lake_assets.cli import main
from lake_assets.cli.output import is_quiet
from lake_assets_tests.cli.conftest import Run, named
from lake_assets_tests.world import NW, SW, World, sales

SHOWING = (
    ["plan", "--all"],
    ["report", "--format", "csv"],
    ["query", "FROM sales"],
    ["ledger", "--format", "csv"],
    ["check"],
    ["validate"],
    ["index", "--dry-run"],
    ["index", "--format", "json"],
    ["maintain", "--dry-run"],
    ["schema", "ingest"],
)


@pytest.fixture(autouse=True)
def _index(local_world: World) -> None:
    """Registration in place needs no Spark."""
    local_world.options["mode"] = "index"
    local_world.land(NW, sales(1, 2))


def steps(text: str) -> list[str]:
    """The first words of the lines that have seconds."""
    return [line.split()[0] for line in text.splitlines() if re.search(r" \d+\.\d{3} s\b", line)]


@pytest.mark.parametrize("before", [True, False])
def test_a_verbose_run_prints_its_steps_with_seconds_on_standard_error(run: Run, *, before: bool) -> None:
    result = run("-v", "index") if before else run("index", "--verbose")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "1 file registered, 2 rows, in 1 partition"
    shown = steps(result.stderr)
    assert (shown[0], shown[-1]) == ("list", "command")
    assert {"register", "partition", "run"} <= set(shown)
    register = next(line for line in result.stderr.splitlines() if line.startswith("register"))
    assert "1 file, 2 rows" in register
    assert result.stderr.splitlines()[-1].endswith(" s  index")
    again = run("index")
    assert (again.exit_code, again.stderr) == (0, "")


def test_twice_verbose_is_also_the_tasks_of_spark(local_world: World, run: Run) -> None:
    local_world.options = {}
    ingest = ["ingest", "--partition", NW, "--force"]

    once, twice = (run(option, *ingest) for option in ("-v", "-vv"))

    assert (once.exit_code, twice.exit_code) == (0, 0), once.output + twice.output
    assert {"list", "job", "commit"} <= set(steps(once.stderr))
    assert set(steps(twice.stderr)) - set(steps(once.stderr)) == {"task"}


@pytest.mark.parametrize("before", [True, False])
def test_a_quiet_run_prints_nothing_unless_it_fails(local_world: World, run: Run, *, before: bool) -> None:
    def quiet(*arguments: str) -> Result:
        return run("-q", *arguments) if before else run(*arguments, "--quiet")

    done = quiet("index")
    bad = local_world.land(SW, b"no parquet")
    failed = quiet("index")

    assert (done.exit_code, done.output) == (0, "")
    assert local_world.totals() == [1, 2]
    assert failed.exit_code == 1
    assert failed.stdout == "failed     region=SW/date=2026-02-11\n"
    assert f"Error: the object {bad} cannot be read as Parquet" in failed.stderr


@pytest.mark.more
def test_a_quiet_command_prints_what_it_is_asked_to_show(run: Run) -> None:
    run("index")

    def fixed(text: str) -> str:  # without the ids of runs
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "", text)

    for arguments in SHOWING:
        shown, quiet = run(*arguments), run("-q", *arguments)
        assert quiet.stdout, arguments
        assert (quiet.exit_code, fixed(quiet.stdout)) == (shown.exit_code, fixed(shown.stdout)), arguments


def test_quiet_and_verbose_exclude_each_other(run: Run) -> None:
    for arguments in (("-q", "-v", "validate"), ("-q", "validate", "-v"), ("validate", "-vq")):
        result = run(*arguments)

        assert result.exit_code == 2
        assert "Error: --quiet and --verbose exclude each other: give one of them." in result.stderr


def test_each_command_has_both() -> None:
    found = dict(named())

    assert len(found) > 25
    for name, command in ({"": main} | found).items():
        options = {name for parameter in command.params for name in parameter.opts}
        assert {"-q", "--quiet", "-v", "--verbose"} <= options, name


def test_a_json_log_has_fewer_or_more_events(local_world: World, run: Run) -> None:
    local_world.land(SW, b"no parquet")

    def levels(*options: str) -> tuple[set[str], set[str]]:
        result = run("--log-format", "json", *options, "index", "--format", "json")
        events = [json.loads(line) for line in result.stderr.splitlines()]
        assert json.loads(result.stdout)["failed"] == 1
        return {event["level"] for event in events}, {event["event"] for event in events}

    assert levels("-q") == ({"error"}, {"partition", "run"})
    default, verbose = levels(), levels("-v")
    assert "info" in default[0]
    assert verbose[1] - default[1] == {"command"}


def test_the_state_ends_with_the_command(run: Run) -> None:
    run("-q", "validate")
    run("-v", "validate")

    assert not is_quiet()
    assert logging.getLogger(LOGGER).level == OFF
    assert [type(handler) for handler in logging.getLogger(LOGGER).handlers] == [logging.NullHandler]
