"""The command `report`: the table, the files, and what is wrong use."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets_tests.world import NW, World, sales

Run = Callable[..., Result]


@pytest.fixture
def run(local_world: World, tmp_path: Path) -> Run:
    """Runs a command on a config of two streams over the world's landing zone."""
    local_world.options["partitions"] = {
        "region": {"values": ["NW", "SW"]},
        "date": {"type": "date", "start": "2026-02-10", "end": "2026-02-11"},
    }
    stream = local_world.document["streams"]["sales"]
    again = stream | {"destination": {"table": "again"}}
    file = local_world.config_file(tmp_path, streams={"sales": stream, "again": again})
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    return lambda *arguments: CliRunner().invoke(main, ["--config", str(file), *arguments])


def test_counts_by_stream_and_region(run: Run) -> None:
    result = run("report", "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert result.exit_code == 0
    assert [(row["stream"], row["partitions"]) for row in rows] == [
        (stream, region) for stream in ("sales", "again") for region in ("region=NW", "region=SW")
    ]
    assert [(row["committed"], row["missing"], row["absent"], row["rows"]) for row in rows] == [
        ("1", "0", "1", "2"),
        ("0", "0", "2", "0"),
        ("0", "1", "1", "0"),
        ("0", "0", "2", "0"),
    ]
    table = run("report", "sales", "--format", "table").stdout
    assert "region=NW" in table
    assert "again" not in table


def test_a_row_for_each_partition(run: Run) -> None:
    result = run("report", "sales", "--partitions", "--format", "json")

    rows = {row["partition"]: row for row in json.loads(result.stdout)}
    assert len(rows) == 4
    row = rows["region=NW/date=2026-02-11"]
    assert (row["state"], row["rows"], row["objects"]) == ("committed", 2, 1)
    assert rows["region=SW/date=2026-02-11"]["state"] == "absent"


def test_page_and_picture_are_written(run: Run, tmp_path: Path) -> None:
    html, png = tmp_path / "report.html", tmp_path / "report.png"

    result = run("report", "sales", "--html", str(html), "--png", str(png))

    assert result.exit_code == 0, result.output
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "region=NW" in html.read_text(encoding="utf-8")
    assert str(html) in result.stdout


def test_one_picture_is_of_one_stream(run: Run, tmp_path: Path) -> None:
    result = run("report", "--png", str(tmp_path / "x.png"))

    assert result.exit_code == 2
    assert "name one of sales, again" in result.stderr


def test_a_file_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    result = run("report", "sales", "--png", str(tmp_path / "no" / "x.png"))

    assert result.exit_code == 1
    assert "x.png cannot be written: No such file or directory: choose another file." in result.stderr


def test_quarantined_objects_are_named_by_ingest_and_report(local_world: World, run: Run, tmp_path: Path) -> None:
    local_world.options["on_bad_object"] = "quarantine"
    file = local_world.config_file(tmp_path)
    local_world.land(NW, b"no Parquet", "<bad>.parquet")

    ingested = run("ingest", "sales", "--partition", NW)
    table, rows = run("report", "--format", "table"), run("report", "--partitions", "--format", "json")
    page = run("report", "--html", str(file.with_suffix(".html")))

    assert "left out 1 object, the first: the object " in ingested.stdout
    assert "sales: 1 quarantined object:" in table.stdout
    assert "<bad>.parquet cannot be read as Parquet" in table.stdout
    counts = {row["partition"]: row["quarantined"] for row in json.loads(rows.stdout)}
    assert counts["region=NW/date=2026-02-11"] == 1
    assert page.exit_code == 0
    written = file.with_suffix(".html").read_text(encoding="utf-8")
    assert "Quarantined objects: 1" in written
    assert "&lt;bad&gt;.parquet cannot be read as Parquet" in written


def test_dead_letters_are_named_by_ingest_plan_and_report(local_world: World, run: Run, tmp_path: Path) -> None:
    local_world.options["on_bad_row"] = "dead_letter"
    file = local_world.config_file(tmp_path)
    local_world.land(NW, sales(1).append_column("region", pa.array(["<b>"])))

    planned = run("plan", "sales", "--partition", NW)
    ingested = run("ingest", "sales", "--partition", NW)
    table, rows = run("report", "--format", "table"), run("report", "--partitions", "--format", "json")
    page = run("report", "--html", str(file.with_suffix(".html")))

    assert "bad rows  to " in planned.stdout
    assert "dead letters 1 row, in 1 file, the first is " in ingested.stdout
    assert "region is <b>, so the row belongs to another partition" in ingested.stdout
    assert "sales: 1 dead letter:" in table.stdout
    counts = {row["partition"]: row["dead_letters"] for row in json.loads(rows.stdout)}
    assert counts["region=NW/date=2026-02-11"] == 1
    assert page.exit_code == 0
    written = file.with_suffix(".html").read_text(encoding="utf-8")
    assert "Dead letters: 1<" in written
    assert "region is &lt;b&gt;, so the row belongs" in written
