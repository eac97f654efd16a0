"""The script of seven lines, run as it is in a folder that `lake-assets init` wrote."""

import ast
import datetime as dt
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.templates.starter.project import start
from lake_assets_tests.examples import EXAMPLES

SCRIPT = EXAMPLES / "ingest_and_read.py"


def test_the_script_ingests_a_partition_and_prints_what_it_read(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark  # one session for all tests
    start(tmp_path / "shop", dt.date(2026, 2, 11))
    monkeypatch.chdir(tmp_path / "shop")

    runpy.run_path(str(SCRIPT))
    first, printed = capsys.readouterr().out.splitlines()
    runpy.run_path(str(SCRIPT))
    second, again = capsys.readouterr().out.splitlines()

    totals = ast.literal_eval(printed)
    assert first.startswith("committed: ")
    assert second.startswith("skipped: ")
    assert len(totals["store_id"]) == 2
    assert all(total > 0 for total in totals["total_sum"])
    assert ast.literal_eval(again)["total_sum"] == pytest.approx(totals["total_sum"])


def test_the_script_has_seven_lines_and_is_that_of_the_page() -> None:
    code = SCRIPT.read_text(encoding="utf-8")
    lines = [line for line in code.splitlines() if line]
    page = (EXAMPLES.parent / "docs" / "python.md").read_text(encoding="utf-8")

    assert len(lines) <= 7
    assert "\n".join(lines[1:]) in page.replace("\n\n", "\n")
