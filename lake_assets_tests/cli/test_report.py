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
    local_world.commit(NW, 1, 2)

    def command(*arguments: str) -> Result:
        stream = local_world.document["streams"]["sales"]
        streams = {"sales": stream, "again": stream | {"destination": {"table": "again"}}}
        file = local_world.config_file(tmp_path, streams=streams)
        return CliRunner().invoke(main, ["--config", str(file), *arguments])

    return command


def test_counts_by_stream_and_region_and_a_row_for_each_partition(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("report", "--format", "csv").stdout)))
    partitions = json.loads(run("report", "sales", "--partitions", "--format", "json").stdout)

    names = ("stream", "partitions", "committed", "missing", "absent", "rows")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("sales", "region=NW", "1", "0", "1", "2"),
        ("sales", "region=SW", "0", "0", "2", "0"),
        ("again", "region=NW", "0", "1", "1", "0"),
        ("again", "region=SW", "0", "0", "2", "0"),
    ]
    table = run("report", "sales", "--format", "table").stdout
    assert "region=NW" in table
    assert "again" not in table
    found = {row["partition"]: (row["state"], row["rows"], row["objects"]) for row in partitions}
    assert len(found) == 4
    assert found["region=NW/date=2026-02-11"] == ("committed", 2, 1)
    assert found["region=SW/date=2026-02-11"][0] == "absent"


@pytest.mark.more
def test_the_page_of_one_stream_is_written_or_the_file_is_named(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"

    result = run("report", "sales", "--html", str(page))
    unwritten = run("report", "sales", "--html", str(tmp_path / "no" / "x.html"))

    assert result.exit_code == 0, result.output
    assert '<i class="d9" title="committed, 2 rows"></i>' in page.read_text(encoding="utf-8")
    assert str(page) in result.stdout
    assert unwritten.exit_code == 1
    assert "x.html cannot be written: No such file or directory: choose another file." in unwritten.stderr


@pytest.mark.more
@pytest.mark.parametrize("kind", ["dead letter", "quarantined object"])
def test_what_is_left_out_is_named_by_ingest_and_report(
    local_world: World, run: Run, tmp_path: Path, kind: str
) -> None:
    if kind == "dead letter":
        local_world.options |= {"on_bad_row": "dead_letter"}
        local_world.land(NW, sales(1).append_column("region", pa.array(["<b>"])), "<bad>.parquet")
        column, first = "rows_dead_lettered", "dead letters 1 row, in 1 file, the first is "
        reason = "region is <b>, so the row belongs"
    else:
        local_world.options |= {"on_bad_object": "quarantine"}
        local_world.land(NW, b"no Parquet", "<bad>.parquet")
        column, first = "objects_quarantined", "left out 1 object, the first: the object "
        reason = "<bad>.parquet cannot be read as Parquet"
    page = tmp_path / "report.html"

    ingested = run("ingest", "sales", "--partition", NW).stdout
    table = run("report", "sales", "--format", "table").stdout
    rows = json.loads(run("report", "sales", "--partitions", "--format", "json").stdout)

    assert run("report", "sales", "--html", str(page)).exit_code == 0
    assert first in ingested
    assert reason in ingested
    assert f"sales: 1 {kind}:" in table
    assert reason in table
    assert {row["partition"]: row[column] for row in rows}["region=NW/date=2026-02-11"] == 1
    written = page.read_text(encoding="utf-8")
    assert f"{kind.capitalize()}s: 1" in written
    assert html.escape(reason) in written
