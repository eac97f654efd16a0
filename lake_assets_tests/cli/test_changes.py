"""The command `changes`."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, SW, World


@pytest.fixture(autouse=True)
def _commits(local_world: World) -> None:
    """Three commits: NW with 1 and 2, SW with 3, and NW with 2 changed to 5."""
    for text, totals in ((NW, (1, 2)), (SW, (3,)), (NW, (1, 5))):
        local_world.commit(text, *totals)


def first_of(world: World) -> int:
    snapshots = [row.snapshot_id for row in world.ledger()]
    return min(snapshot for snapshot in snapshots if snapshot is not None)


def test_changes_are_printed(run: Run, local_world: World) -> None:
    first = first_of(local_world)

    table = run("changes", "sales", "--from", "0", "--format", "table")
    csv = run("changes", "sales", "--from", str(first + 1), "--partition", NW)
    found = run("changes", "sales", "--from", str(first), "--to", str(first), "--format", "json")

    assert [r.exit_code for r in (table, csv, found)] == [0, 0, 0], table.output + csv.output + found.output
    assert "5 rows" in table.output
    header, *lines = csv.output.splitlines()
    assert header == "id,total,region,date,_change,_snapshot,_run_id,_committed_at"
    assert [line.split(",")[1:5] for line in lines] == [
        ["2.0", "NW", "2026-02-11", "delete"],
        ["5.0", "NW", "2026-02-11", "insert"],
    ]
    assert [(row["total"], row["_change"], row["_snapshot"]) for row in json.loads(found.output)] == [
        (1.0, "insert", first),
        (2.0, "insert", first),
    ]


def test_a_file_has_all_changes(run: Run, tmp_path: Path) -> None:
    for form in ("parquet", "json", "csv"):
        out = tmp_path / f"changes.{form}"
        result = run("changes", "sales", "--from", "0", "--out", str(out))

        assert (result.exit_code, result.output) == (0, f"5 changes in {out}\n")
    assert len(json.loads((tmp_path / "changes.json").read_text())) == 5
    assert len((tmp_path / "changes.csv").read_text().splitlines()) == 6
    assert pq.read_table(tmp_path / "changes.parquet")["_change"].to_pylist().count("insert") == 4
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".changes")] == []


WRONG = [
    (["--from", "0", "--format", "parquet"], 2, "name it with --out"),
    (["--from", "0", "--out", "changes.txt"], 2, "give --format too"),
    (["--from", "0", "--to", "999"], 1, "there is no snapshot 999"),
    (["--from", "999"], 1, "Begin at"),
    (["--from", "0", "--partition", "region=NW"], 2, "date"),
    (["--from", "0", "--out", "no/such/folder/a.json"], 1, "cannot be written"),
]


def test_what_cannot_be_done_is_said(run: Run) -> None:
    for arguments, code, said in WRONG:
        result = run("changes", "sales", *arguments)

        assert (result.exit_code, said in result.output) == (code, True), (arguments, result.output)
        assert "Traceback" not in result.output
