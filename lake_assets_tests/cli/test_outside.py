"""Partitions outside the config, on the command line: refused before anything runs, taken with --outside."""

import json
import os
import shutil
from pathlib import Path

import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, World, sales

XX = "region=XX,date=2026-02-11"
EARLY = "region=NW,date=2020-01-01"


@pytest.fixture(autouse=True)
def _values(local_world: World) -> None:
    """A stream whose regions are NW and SW."""
    local_world.options["partitions"] = {
        "region": {"values": ["NW", "SW"]},
        "date": {"type": "date", "start": "2026-02-10", "end": "2026-02-11"},
    }


@pytest.mark.parametrize(
    ("command", "text", "says"),
    [
        *((command, XX, "region=XX is not in `values` (NW, SW)") for command in ("ingest", "plan", "index", "check")),
        ("plan", EARLY, "date=2020-01-01 is before start 2026-02-10"),
        ("plan", "region=NW,date=9999-12-31", "date=9999-12-31 is after end 2026-02-11"),
        ("plan", "region=%2A,date=2026-02-11", "partition value region=* is not in `values` (NW, SW)"),
        ("plan", "region=N?,date=2026-02-11", "partition value region=N? is not in `values` (NW, SW): did you mean NW"),
        ("plan", "region=NW,date=2026-2-1", "write it as YYYY-MM-DD, such as 2026-02-11."),
    ],
)
def test_a_partition_outside_is_refused_before_anything_runs(
    local_world: World, run: Run, command: str, text: str, says: str
) -> None:
    if command == "index":
        local_world.options["mode"] = "index"
    local_world.land(NW, sales(1))

    result = run(command, "sales", "--partition", NW, "--partition", text)

    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert not Path(local_world.catalog["path"]).exists()


@pytest.mark.parametrize("text", [EARLY, "region=NW,date=__HIVE_DEFAULT_PARTITION__"])
def test_the_option_that_accepts_a_partition_is_named_once(run: Run, text: str) -> None:
    result = run("plan", "sales", "--partition", text)

    assert result.exit_code == 2
    assert result.stderr.count("--outside") == 1


def test_the_only_partition_of_the_config_may_have_any_value(local_world: World, run: Run) -> None:
    local_world.options["layout"] = "region={region}"
    local_world.options["partitions"] = {"region": {"values": ["a,b %2A *"]}}
    local_world.land("region=a%2Cb %252A *", sales(1))

    planned = run("plan")
    refused = run("plan", "--partition", "region=a")

    assert (planned.exit_code, "read      1 object" in planned.output) == (0, True), planned.output
    assert "`values` (a%2Cb %252A *)" in " ".join(refused.stderr.split())


def test_outside_is_taken_if_it_is_meant_and_shown_as_such(local_world: World, run: Run) -> None:
    for text in (XX, EARLY):
        local_world.land(text, sales(1, 2))

    local_world.ingest(XX, outside=True)
    listed = run("report", "--partitions", "--format", "json")
    assert listed.exit_code == 0, listed.output
    message = run("report", "--format", "table").stdout

    result = {row["partition"]: row for row in json.loads(listed.stdout)}
    taken, left = result["region=XX/date=2026-02-11"], result["region=NW/date=2020-01-01"]
    assert (taken["state"], taken["rows"], left["state"], left["rows"]) == ("outside", 2, "outside", None)
    assert "is not in `values`" in taken["outside"]
    assert "is before start" in left["outside"]
    assert "2 rows in the lake" in message
    check = run("check", "--only", "landing_zone")
    assert check.output.startswith("sales: audit of the whole table\nwarning")
    assert "No refresh reads the objects of 1 partition outside the config" in check.output
    assert "region=NW/date=2020-01-01: partition value date=2020-01-01 is before start" in check.output
    named = run("check", "--only", "landing_zone", "--outside", "--partition", XX)
    assert (named.exit_code, "All landed objects of 1 partition are in the lake." in named.output) == (0, True)


def test_a_run_over_all_counts_what_it_leaves_out(local_world: World, run: Run) -> None:
    for text in (NW, XX, EARLY, "region=NW,date=__HIVE_DEFAULT_PARTITION__"):
        local_world.land(text, sales(1))

    first, again, whole = run("ingest", "--all"), run("ingest", "--waiting"), run("ingest", "--all", "--outside")

    assert first.stderr.endswith("date 2026-02-11; 3 more outside the config, which --outside accepts\n")
    nothing = "sales: nothing has new objects; nothing to do"
    assert again.stderr == f"{nothing}; 3 more outside the config, which --outside accepts\n"
    assert (first.exit_code, again.exit_code, whole.exit_code) == (0, 0, 0)
    assert whole.stdout.count("committed  ") == 3
    assert run("ingest", "--waiting").stderr == f"{nothing}\n"


def test_index_leaves_what_is_outside_and_names_it(local_world: World, run: Run) -> None:
    local_world.options["mode"] = "index"
    for text in (NW, XX):
        local_world.land(text, sales(1, 2))

    first = run("index")
    again = run("index", "--outside")

    assert "1 file registered, 2 rows, in 1 partition" in first.output
    assert "1 partition outside the config not registered" in first.output
    assert "region=XX/date=2026-02-11 (1 new object): partition value region=XX is not in `values`" in first.output
    assert "1 file registered, 2 rows, in 1 partition" in again.output


def test_objects_in_no_partition_are_named_with_the_fix(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"p": {"type": "integer"}}
    placed = Path(local_world.land("p=7", sales(1)))
    other = placed.parents[1] / "p=007"
    other.mkdir()
    shutil.copy(placed, other)

    rows = json.loads(run("report", "--format", "json").stdout)
    message = run("report", "--format", "table").stdout
    as_csv = run("report", "--format", "csv")
    check = run("check", "--only", "landing_zone").output

    assert "p=007/ (1 object)" in as_csv.stderr
    assert "p=007" not in as_csv.stdout
    assert (
        "sales: 1 object left out: 1 in another spelling of a partition's folder: `lake-assets plan sales --left-out`\n"
        "  p=007/ (1 object)"
    ) in run("plan").output
    why = "the path has the values of partition p=7, but is not in its folder p=7/: move the object there."
    assert rows[-1] == {
        "stream": "sales",
        "partitions": None,
        "objects_in_no_partition": 1,
        "left_out": {"listed": 2, "unmatched": 0, "spelling": 1, "outside": 0, "not_data": 0, "hidden": 0},
        "folders": [{"folder": "p=007", "objects": 1, "why": why}],
    }
    assert "--left-out`\n  p=007/ (1 object): " + why in message
    assert "The landing zone has 1 object in no partition" in check
    assert "p=007/ (1 object): " + why in check
    placed.unlink()  # and now nothing else keeps the check from passing
    assert "\nwarning" in run("check", "--only", "landing_zone").output


def test_a_typo_leaves_no_ledger_row_and_the_nearest_values_are_named(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"region": {}, "date": {"type": "date", "start": "2026-02-10"}}
    local_world.land("region=NORTH,date=2026-02-11", sales(1))
    local_world.land("region=SOUTH,date=2026-02-11", sales(1))

    typo = run("ingest", "sales", "--partition", "region=NROTH,date=2026-02-11")
    planned = run("plan", "sales", "--partition", "region=NROTH,date=2026-02-11")
    local_world.options["on_empty"] = "keep"
    kept = run("ingest", "sales", "--partition", "region=NROTH,date=2026-02-11")
    planned_kept = run("plan", "sales", "--partition", "region=NROTH,date=2026-02-11")

    text = "nothing of region=NROTH has landed or is in the lake: did you mean NORTH?"
    assert (typo.exit_code, text in " ".join(typo.output.split())) == (1, True)
    assert (kept.exit_code, text in kept.output) == (0, True)
    assert (planned.exit_code, f"  note      {text}" in planned.output) == (1, True)
    assert (planned_kept.exit_code, f"  note      {text}" in planned_kept.output) == (0, True)
    assert run("ledger", "--format", "json").exit_code == 1  # neither run has made the lake
    local_world.ingest("region=NORTH,date=2026-02-11")
    assert {row.load_partition for row in local_world.ledger()} == {"region=NORTH/date=2026-02-11"}
    states = {row["partition"] for row in json.loads(run("report", "--partitions", "--format", "json").stdout)}
    assert {text.split("/")[0] for text in states} == {"region=NORTH", "region=SOUTH"}


def test_what_never_was_a_partition_is_forgotten(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"region": {}, "date": {"type": "date", "start": "2026-02-10"}}
    local_world.land(NW, sales(1))
    bad = Path(local_world.land(XX, b"no Parquet"))
    local_world.ingest(NW)
    run("ingest", "--partition", XX)

    landed = run("forget", "--partition", XX)
    bad.unlink()
    real = run("forget", "--partition", XX, "--partition", NW)
    looked = run("forget", "--dry-run", "--partition", XX)
    before = {row.load_partition for row in local_world.ledger()}
    done = run("forget", "--format", "json", "--partition", XX)
    again = run("forget", "--partition", XX)

    assert (landed.exit_code, "has 1 landed objects at" in landed.stderr) == (1, True)
    assert (real.exit_code, "partition region=NW/date=2026-02-11 has 1 landed objects" in real.stderr) == (1, True)
    assert looked.stdout == "would be forgotten  region=XX/date=2026-02-11  1 ledger row\n"
    assert before == {"region=NW/date=2026-02-11", "region=XX/date=2026-02-11"}
    assert json.loads(done.stdout) == [{"partition": "region=XX/date=2026-02-11", "ledger_rows": 1}]
    assert {row.load_partition for row in local_world.ledger()} == {"region=NW/date=2026-02-11"}
    assert "the ledger has no row of partition region=XX/date=2026-02-11" in again.stderr
    local_world.unland(NW)
    rows = run("forget", "--partition", NW)
    assert (rows.exit_code, "has 1 rows in main.sales" in rows.stderr) == (1, True)
    assert local_world.totals() == [1]


def test_an_integer_that_is_written_otherwise_is_refused_and_named(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"p": {"type": "integer"}}
    local_world.land("p=7", sales(1))

    for command in ("ingest", "plan"):
        refused = run(command, "--partition", "p=007")
        assert (refused.exit_code, "is not written as its folder p=7: write p=7" in refused.stderr) == (2, True)


def test_one_folder_with_odd_bytes_takes_no_report_away(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"p": {}}
    root = Path(local_world.land("p=ok", sales(1))).parents[1]
    before = local_world.stream.manifest(local_world.partition("p=ok"))
    odd = os.path.join(os.fsencode(root), b"p=\xff")  # noqa: PTH118 - bytes
    os.mkdir(odd)  # noqa: PTH102
    shutil.copy(os.fsencode(root) + b"/p=ok/batch_1.parquet", odd)

    message = run("report", "--format", "table")
    check = run("check", "--only", "landing_zone")

    assert message.exit_code == 0, message.output
    assert "p=\\xff/ (1 object): the name is not UTF-8: rename the folder or the file." in message.stdout
    assert "The landing zone has 1 object in no partition" in check.output
    # However it was listed, an object has one ETag.
    (listed,) = [obj for obj in local_world.stream.source.list() if obj.key == "p=ok/batch_1.parquet"]
    assert listed == before.objects[0]
