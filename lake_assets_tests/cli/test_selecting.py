"""Partitions selected on the command line: ranges, patterns and states, and the question before a large run."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.cli.terminals import on_a_screen
from lake_assets_tests.world import World, sales

DAYS = [f"region={region},date=2026-02-{day:02}" for region in ("NE", "NW") for day in range(1, 8)]


@pytest.fixture
def landed(local_world: World) -> World:
    for text in DAYS:
        local_world.land(text, sales(1))
    return local_world


@pytest.mark.usefixtures("landed")
def test_a_selection_is_ingested_checked_reported_and_in_the_history(run: Run) -> None:
    first = run("ingest", "--partition", "date=2026-02-01..2026-02-03,region=NW|NE")

    assert first.exit_code == 0, first.output
    says = "sales: 6 partitions: region NE, NW; date 2026-02-01, 2026-02-02, 2026-02-03\n"
    assert (first.stderr, first.stdout.count("committed  ")) == (says, 6)
    assert "sales: checks of 3 partitions" in run("check", "--partition", "region=N*E,date=..2026-02-03").stdout
    entries = json.loads(run("history", "--partition", "region=NE,date=2026-02", "--format", "json").stdout)
    assert [entry["partition"] for entry in entries] == [f"region=NE/date=2026-02-0{day}" for day in (1, 2, 3)]
    reported = run("report", "--partitions", "--partition", "date=2026-02-03|2026-02-04", "--format", "json")
    states = {row["partition"]: row["state"] for row in json.loads(reported.stdout)}
    assert states == {
        "region=NE/date=2026-02-03": "committed",
        "region=NE/date=2026-02-04": "missing",
        "region=NW/date=2026-02-03": "committed",
        "region=NW/date=2026-02-04": "missing",
    }
    waiting = json.loads(run("report", "--partitions", "--waiting", "--max", "3", "--format", "json").stdout)
    assert [row["partition"] for row in waiting] == [f"region=NE/date=2026-02-0{day}" for day in (4, 5, 6)]


@pytest.mark.more
def test_a_script_is_not_asked_and_sees_the_count(landed: World, run: Run) -> None:
    landed.options["mode"] = "index"
    assert "2 new objects of 2 objects" in run("index", "--dry-run", "--partition", "date=2026-02-07").stdout
    landed.options["mode"] = "replace"

    result = run("ingest", "--waiting", "--max", "11")

    assert (result.exit_code, result.stdout.count("committed  ")) == (0, 11), result.output
    assert "sales: the first 11 of 14 partitions: region NE, NW" in result.stderr
    assert "?" not in result.stderr
    rest = run("ingest", "--waiting")
    assert rest.stdout.count("committed  ") == 3
    nothing = run("ingest", "--waiting")
    assert (nothing.exit_code, nothing.output) == (0, "sales: nothing has new objects; nothing to do\n")
    assert landed.totals() == [1.0] * 14


WRONG = [
    (["--all", "--waiting"], "--all is every partition: give it without --partition, --waiting and --failed."),
    (["--partition", "date=2020"], "--partition date=2020 selects no partition that has landed or is in the lake"),
    (["--partition", "day=2020"], "no partition column 'day': its columns are region, date"),
    (["--max", "0"], "--max"),
    (["--max", "3"], "name one or more with --partition region=…,date=…, or choose them with --waiting"),
    (["--partition", "region=NW/date=2026-02-01"], "is a path: write region=NW,date=2026-02-01 (a slash"),
    (["--partition", "region=NW,date=2025-02-01|2026-02*"], "date=2025-02-01 is before start 2026-01-01"),
    ([], "name one or more with --partition region=…,date=…, or choose them with --waiting, --failed or --all."),
]


@pytest.mark.usefixtures("landed")
def test_wrong_selections_name_the_fix(run: Run) -> None:
    for arguments, says in WRONG:
        result = run("ingest", *arguments)

        assert (result.exit_code, says in " ".join(result.stderr.split())) == (2, True), (arguments, result.stderr)


@pytest.mark.more
@pytest.mark.parametrize(("answer", "asked"), [("n", 11), ("n", 10), ("y", 11)])
def test_a_terminal_is_asked_before_a_run_of_more_than_ten_partitions(
    landed: World, tmp_path: Path, answer: str, asked: int
) -> None:
    landed.options["mode"] = "index"
    words = ["--config", str(landed.config_file(tmp_path)), "index", "--all", "--max", str(asked)]
    output, code = on_a_screen(*words, answer=answer)

    is_refused = (answer, asked) == ("n", 11)
    assert f"sales: the first {asked} of 14 partitions: " in output
    assert ("Index 11 partitions? [y/N]" in output) == (asked == 11)
    assert code == (1 if is_refused else 0), output
    assert ("files registered" in output) is not is_refused


@pytest.mark.more
def test_days_without_rows_are_no_failures_of_a_selection_that_does_not_name_them(local_world: World, run: Run) -> None:
    field = {"type": "date", "start": "2026-01-01", "end": "2026-02-15", "in": "rows"}
    local_world.options = {"partitions": {"date": field}}
    for name, days in {"a": (3,), "b": (5,), "both": (3, 5)}.items():
        dates = pa.array([dt.date(2026, 2, day) for day in days])
        with local_world.landing.create(f"{name}.parquet") as file:
            pq.write_table(sales(*range(len(days))).append_column("date", dates), file)

    for arguments in (("plan", "--waiting", "--apply"), ("ingest", "--waiting"), ("ingest", "--all")):
        done = run(*arguments)
        assert (done.exit_code, done.stderr.count("Error")) == (0, 0), done.output
    assert local_world.query("SELECT DISTINCT date::VARCHAR FROM lake.sales ORDER BY 1") == [
        ("2026-02-03",),
        ("2026-02-05",),
    ]
    Path(local_world.source["path"], "both.parquet").unlink()
    planned = run("plan", "--all")
    assert planned.exit_code == 0, planned.output
    assert "date=2026-02-04   leave_out " in planned.output, planned.output
    named = run("ingest", "--partition", "date=2026-02-04")
    assert (named.exit_code, "has no rows" in named.stderr) == (1, True)
