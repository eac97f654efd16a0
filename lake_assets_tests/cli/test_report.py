"""The command `report`: the table, the files, and what is wrong use."""

import csv
import html
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, World, sales


@pytest.fixture
def run(local_world: World, tmp_path: Path) -> Run:
    """Runs a command on a config of two streams over the world's landing zone."""
    local_world.options["partitions"] = {
        "region": {"values": ["NW", "SW"]},
        "date": {"type": "date", "start": "2026-02-10", "end": "2026-02-11"},
    }
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)

    def command(*arguments: str) -> Result:
        stream = local_world.document["streams"]["sales"]
        streams = {"sales": stream, "again": stream | {"destination": {"table": "again"}}}
        file = local_world.config_file(tmp_path, streams=streams)
        return CliRunner().invoke(main, ["--config", str(file), *arguments])

    return command


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
    page, png = tmp_path / "report.html", tmp_path / "report.png"

    result = run("report", "sales", "--html", str(page), "--png", str(png))

    assert result.exit_code == 0, result.output
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "region=NW" in page.read_text(encoding="utf-8")
    assert str(page) in result.stdout


def test_one_picture_is_of_one_stream_and_a_file_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    several = run("report", "--png", str(tmp_path / "x.png"))
    unwritten = run("report", "sales", "--png", str(tmp_path / "no" / "x.png"))

    assert (several.exit_code, "name one of sales, again" in several.stderr) == (2, True)
    assert unwritten.exit_code == 1
    assert "x.png cannot be written: No such file or directory: choose another file." in unwritten.stderr


@pytest.mark.parametrize(
    ("option", "landed", "texts"),
    [
        (
            {"on_bad_object": "quarantine"},
            b"no Parquet",
            (
                "quarantined",
                "quarantined object",
                "left out 1 object, the first: the object ",
                "<bad>.parquet cannot be read as Parquet",
            ),
        ),
        (
            {"on_bad_row": "dead_letter"},
            sales(1).append_column("region", pa.array(["<b>"])),
            (
                "dead_letters",
                "dead letter",
                "dead letters 1 row, in 1 file, the first is ",
                "region is <b>, so the row belongs",
            ),
        ),
    ],
    ids=["quarantine", "dead letters"],
)
def test_what_is_left_out_is_named_by_ingest_and_report(
    local_world: World,
    run: Run,
    tmp_path: Path,
    option: dict[str, str],
    landed: pa.Table | bytes,
    texts: tuple[str, ...],
) -> None:
    column, kind, first, reason = texts
    local_world.options |= option
    local_world.land(NW, landed, "<bad>.parquet")
    page = tmp_path / "report.html"

    planned = run("plan", "sales", "--partition", NW).stdout
    ingested = run("ingest", "sales", "--partition", NW).stdout
    table = run("report", "sales", "--format", "table").stdout
    rows = json.loads(run("report", "sales", "--partitions", "--format", "json").stdout)

    assert run("report", "sales", "--html", str(page)).exit_code == 0
    assert ("bad rows  to " in planned) == ("on_bad_row" in option)
    assert first in ingested
    assert reason in ingested
    assert f"sales: 1 {kind}:" in table
    assert reason in table
    assert {row["partition"]: row[column] for row in rows}["region=NW/date=2026-02-11"] == 1
    written = page.read_text(encoding="utf-8")
    assert f"{kind.capitalize()}s: 1" in written
    assert html.escape(reason) in written
