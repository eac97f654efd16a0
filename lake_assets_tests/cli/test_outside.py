"""Partitions outside the config, on the command line: refused before anything runs, taken with --outside."""

import json
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


REFUSED = [
    *((command, XX, "region=XX is not in `values` (NW, SW)") for command in ("ingest", "plan", "index", "check")),
    ("plan", EARLY, "date=2020-01-01 is before start 2026-02-10"),
    ("plan", "region=NW,date=9999-12-31", "date=9999-12-31 is after end 2026-02-11"),
    ("plan", "region=%2A,date=2026-02-11", "partition value region=* is not in `values` (NW, SW)"),
    ("plan", "region=N?,date=2026-02-11", "partition value region=N? is not in `values` (NW, SW): did you mean NW"),
    ("plan", "region=NW,date=2026-2-1", "write it as YYYY-MM-DD, such as 2026-02-11."),
    ("plan", "region=NW,date=__HIVE_DEFAULT_PARTITION__", "date is NULL"),
]


def test_a_partition_outside_is_refused_before_anything_runs(local_world: World, run: Run) -> None:
    local_world.land(NW, sales(1))

    for command, text, says in REFUSED:
        local_world.options["mode"] = "index" if command == "index" else "replace"
        result = run(command, "sales", "--partition", NW, "--partition", text)

        assert (result.exit_code, says in " ".join(result.stderr.split())) == (2, True), (text, result.stderr)
        assert result.stderr.count("--outside") <= 1
        assert not Path(local_world.catalog["path"]).exists()


def test_outside_is_taken_if_it_is_meant_and_shown_as_such(local_world: World, run: Run) -> None:
    for text in (XX, EARLY):
        local_world.land(text, sales(1, 2))
    local_world.ingest(XX, outside=True)

    rows = json.loads(run("report", "--partitions", "--format", "json").stdout)
    taken, left = ({row["partition"]: row for row in rows}[text.replace(",", "/")] for text in (XX, EARLY))

    assert (taken["state"], taken["rows"], left["state"], left["rows"]) == ("outside", 2, "outside", None)
    assert "is not in `values`" in taken["outside"]
    assert "is before start" in left["outside"]
    check = run("check", "--only", "landing_zone").output
    assert check.startswith("sales: audit of the whole table\nwarning")
    assert "No refresh reads the objects of 1 partition outside the config" in check
    assert "region=NW/date=2020-01-01: partition value date=2020-01-01 is before start" in check
    named = run("check", "--only", "landing_zone", "--outside", "--partition", XX)
    assert (named.exit_code, "All landed objects of 1 partition are in the lake." in named.output) == (0, True)


@pytest.mark.more
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


def test_an_upload_that_is_not_finished_is_named_and_read_once_when_it_is(local_world: World, run: Run) -> None:
    local_world.options |= {"format": "csv", "mode": "append"}
    part = Path(local_world.land(NW, b"total\n2.5\n", "b.csv.filepart"))

    early = run("ingest", "sales", "--partition", NW)
    listed = run("plan", "sales", "--left-out")
    part.rename(part.with_suffix(""))
    first, second = (run("ingest", "sales", "--partition", NW) for _ in range(2))

    text = (
        "b.csv.filepart: the name ends in .filepart, as those of unfinished uploads, backups, checksums and markers do"
    )
    assert (early.exit_code, text in " ".join(early.output.split())) == (1, True)
    assert "nothing of region" not in early.output
    assert "b.csv.filepart" in listed.output
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert local_world.totals(NW) == [2.5]


@pytest.mark.more
def test_what_never_was_a_partition_is_forgotten(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"region": {}, "date": {"type": "date", "start": "2026-02-10"}}
    local_world.commit(NW, 1)
    local_world.land(XX, b"no Parquet")
    run("ingest", "--partition", XX)

    def partitions() -> set[str]:
        return {row.load_partition.split("/")[0] for row in local_world.ledger()}

    landed = run("forget", "--partition", XX)
    local_world.unland(XX)
    real = run("forget", "--partition", XX, "--partition", NW)
    looked = run("forget", "--dry-run", "--partition", XX)
    assert partitions() == {"region=NW", "region=XX"}
    done, again = run("forget", "--partition", XX), run("forget", "--partition", XX)

    assert (landed.exit_code, "has 1 landed objects at" in landed.stderr) == (1, True)
    assert (real.exit_code, "partition region=NW/date=2026-02-11 has 1 landed objects" in real.stderr) == (1, True)
    assert looked.stdout == "would be forgotten  region=XX/date=2026-02-11  1 ledger row\n"
    assert (done.exit_code, partitions()) == (0, {"region=NW"})
    assert "the ledger has no row of partition region=XX/date=2026-02-11" in again.stderr
    local_world.unland(NW)
    rows = run("forget", "--partition", NW)
    assert (rows.exit_code, "has 1 rows in main.sales" in rows.stderr) == (1, True)
