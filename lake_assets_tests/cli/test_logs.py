"""`--log-format json`: standard error is a JSON object a line, standard output has the results only."""

import json
from typing import Any

import pytest
from click.testing import Result

from lake_assets.base.events import VARIABLE
from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, SW, World, sales

SECRET = "hunter2-of-the-catalog"


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(text) for text in result.stderr.splitlines()]


def test_an_ingest_is_events_on_standard_error_only(local_world: World, run: Run) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no parquet")

    result = run("--log-format", "json", "ingest", "--partition", NW, "--partition", SW)

    assert (result.exit_code, result.stdout) == (1, "")
    events = lines(result)
    assert {"run_started", "step", "partition", "run", "message"} == {event["event"] for event in events}
    outcomes = {event["partition"]: event for event in events if event["event"] == "partition"}
    assert outcomes["region=NW/date=2026-02-11"]["rows"] == 2
    assert "cannot be read as Parquet" in outcomes["region=SW/date=2026-02-11"]["message"]
    (ended,) = (event for event in events if event["event"] == "run")
    assert (ended["committed"], ended["failed"]) == (1, 1)
    assert events[-1]["message"].startswith("sales: 1 of 2 partitions committed, 2 rows, 1 failed, in ")
    (row,) = (row for row in local_world.ledger() if row.status == "committed")
    assert {event["run"] for event in events if "run" in event} == {row.run_id}


def test_the_environment_chooses_the_format_and_the_option_wins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "json")
    (error,) = lines(run("query", "SELECT nonsense"))
    text = run("--log-format", "text", "query", "SELECT nonsense")

    assert (error["event"], error["level"], error["kind"]) == ("error", "error", "NoLakeError")
    assert text.stderr == f"Error: {error['message']}\n"


def test_results_stay_on_standard_output_and_an_error_is_an_event(local_world: World, run: Run) -> None:
    local_world.land(NW, sales(1))

    plan = run("--log-format", "json", "plan", "--partition", NW)
    restore = run("--log-format", "json", "restore", "--partition", NW, "--snapshot", "1")

    assert plan.stdout == run("plan", "--partition", NW).stdout
    assert lines(plan) == []
    (error,) = lines(restore)
    assert (restore.exit_code, error["event"]) == (1, "error")
    assert error["message"].startswith("region=NW/date=2026-02-11: ")


def test_no_secret_is_in_the_log(local_world: World, run: Run) -> None:
    local_world.catalog = {
        "type": "postgres",
        "host": "127.0.0.1",
        "port": 1,
        "database": "lake",
        "user": "u",
        "password": SECRET,
    }
    local_world.land(NW, sales(1))

    result = run("--debug", "--log-format", "json", "ingest", "--partition", NW)

    assert result.exit_code == 1
    assert any(event["event"] == "partition" for event in lines(result))
    assert SECRET not in result.output + result.stderr
