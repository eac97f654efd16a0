"""Partitions outside the config, on the command line: refused before anything runs, taken with --outside."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets_tests.world import NW, STREAM, World, sales

Run = Callable[..., Result]
XX = "region=XX,date=2026-02-11"
EARLY = "region=NW,date=2020-01-01"


@pytest.fixture
def run(local_world: World, tmp_path: Path) -> Run:
    """Runs a command on the config of a stream whose regions are NW and SW."""
    local_world.options["partitions"] = {
        "region": {"values": ["NW", "SW"]},
        "date": {"type": "date", "start": "2026-02-10", "end": "2026-02-11"},
    }
    file = tmp_path / "lake.yaml"

    def invoke(*arguments: str) -> Result:
        stream = STREAM | {"source": local_world.source} | local_world.options
        config = {
            "lakes": {"test": {"catalog": local_world.catalog, "storage": local_world.storage}},
            "streams": {"sales": stream},
        }
        file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return CliRunner().invoke(main, ["--config", str(file), *arguments])

    return invoke


@pytest.mark.parametrize("command", ["ingest", "plan", "index"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (XX, "region=XX is none of `values` (NW, SW)"),
        (EARLY, "date=2020-01-01 lies before start 2026-02-10"),
        ("region=NW,date=9999-12-31", "date=9999-12-31 lies after end 2026-02-11"),
        ("region=*,date=2026-02-11", "A wildcard names no partition"),
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


def test_outside_is_taken_if_it_is_meant_and_shown_as_such(local_world: World, run: Run) -> None:
    for text in (XX, EARLY):
        local_world.land(text, sales(1, 2))

    local_world.ingest(XX, outside=True)
    listed = run("report", "--partitions", "--format", "json")
    assert listed.exit_code == 0, listed.output
    rows = json.loads(listed.stdout)
    told = run("report", "--format", "table").stdout

    found = {row["partition"]: row for row in rows}
    taken, left = found["region=XX/date=2026-02-11"], found["region=NW/date=2020-01-01"]
    assert (taken["state"], taken["rows"], left["state"], left["rows"]) == ("outside", 2, "outside", None)
    assert "none of `values`" in taken["outside"]
    assert "lies before start" in left["outside"]
    assert "2 rows in the lake" in told
    check = run("check", "--only", "landing_zone")
    assert check.output.startswith("warning")
    assert "1 partitions outside the config have objects that no refresh takes in" in check.output
    assert "region=NW/date=2020-01-01: partition value date=2020-01-01 lies before start" in check.output


def test_index_leaves_what_is_outside_and_names_it(local_world: World, run: Run) -> None:
    local_world.options["mode"] = "index"
    for text in (NW, XX):
        local_world.land(text, sales(1, 2))

    first = run("index")
    again = run("index", "--outside")

    assert "1 file registered, 2 rows, in 1 partition" in first.output
    assert "1 partition outside the config not registered" in first.output
    assert "region=XX/date=2026-02-11 (1 new object): partition value region=XX is none of `values`" in first.output
    assert "1 file registered, 2 rows, in 1 partition" in again.output


def test_objects_in_no_partition_are_named_with_the_fix(local_world: World, run: Run) -> None:
    local_world.options["partitions"] = {"p": {"type": "integer"}}
    placed = Path(local_world.land("p=7", sales(1)))
    other = placed.parents[1] / "p=007"
    other.mkdir()
    shutil.copy(placed, other)

    rows = json.loads(run("report", "--format", "json").stdout)
    told = run("report", "--format", "table").stdout
    check = run("check", "--only", "landing_zone").output

    why = "the path is of partition p=7, written otherwise than its folder p=7/: move the object there."
    assert rows[-1] == {
        "stream": "sales",
        "partitions": None,
        "objects_in_no_partition": 1,
        "folders": [{"folder": "p=007", "objects": 1, "why": why}],
    }
    assert "sales: 1 object in no partition:\n  p=007/ (1 object): " + why in told
    assert "1 objects lie in no partition" in check
    assert "p=007/ (1 object): " + why in check
