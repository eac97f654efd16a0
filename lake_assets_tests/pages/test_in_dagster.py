"""What the pages about Dagster show of the demo's flights, by runs as the pages describe them, in one lake."""

import html
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.compute as pc
import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config.load import load_config
from lake_assets.orchestration.build import build_definitions
from lake_assets.templates.demo.flights import land, read_flights
from lake_assets.templates.demo.folder import prepare
from lake_assets_tests.orchestration.automation import Automation
from lake_assets_tests.pages.transcript import DOCS, agree, fenced, indented, section

pytestmark = pytest.mark.more

PAGE, REPORT_PAGE = DOCS / "how-to" / "see-a-partition.md", DOCS / "report.md"
BACKFILL = DOCS / "how-to" / "backfill-a-year.md"
FLIGHTS, REPORT = dg.AssetKey("flights"), dg.AssetKey("flights_report")
EWR, JFK = "2013-01-01|EWR", "2013-01-01|JFK"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The demo's config, with the flights of June and of the first of January."""
    assert spark
    config, flights = prepare(tmp_path_factory.mktemp("pages") / "demo"), read_flights()
    date = pc.strftime(flights["date"], "%Y-%m-%d")
    some = flights.filter(pc.or_(pc.starts_with(date, "2013-06"), pc.equal(date, "2013-01-01")))
    land(some, config.parent / "landing" / "flights", lambda: None)
    return config


def test_the_job_of_a_stream_is_launched_by_the_page_s_run_config_and_logs_its_lines(
    demo: Path, instance: dg.DagsterInstance
) -> None:
    text = section(BACKFILL, "Launch a selection")
    (run_config,), (log,) = fenced(text, "text"), indented(text)

    job = build_definitions(load_config(demo)).resolve_job_def("ingest_flights")
    result = job.execute_in_process(yaml.safe_load(run_config), instance=instance)

    said = [entry for entry in instance.all_logs(result.run_id) if entry.dagster_event is None]
    agree(log, "\n".join(entry.user_message for entry in said if entry.level == logging.INFO), BACKFILL.name)
    events = result.get_asset_materialization_events()
    assert [event.partition for event in events] == [f"2013-06-{day:02}|JFK" for day in range(1, 21)]


@dataclass
class Runs:
    """Two runs, and what automation made of them.

    Attributes:
        committed: the entries of a partition of the first run.
        failed: those of the partition that the second run failed on.
        requested: the reports that automation requested after each run.
        report: the report's page after both.
    """

    committed: Mapping[str, Any]
    failed: Mapping[str, Any]
    requested: list[int]
    report: str


@pytest.fixture(scope="module")
def runs(demo: Path) -> Runs:
    """A run of two partitions, then one that finds the object of the first damaged; a report whenever requested."""
    definitions = build_definitions(load_config(demo))
    with dg.DagsterInstance.local_temp() as instance:
        automation, requested = Automation(definitions, instance, REPORT), []

        def run(asset: dg.AssetKey, *keys: str) -> dg.ExecuteInProcessResult:
            ends = {"start": keys[0], "end": keys[-1]} if keys else {}
            tags = {f"dagster/asset_partition_range_{end}": key for end, key in ends.items()}
            job = definitions.resolve_implicit_global_asset_job_def()
            return job.execute_in_process(instance=instance, tags=tags, asset_selection=[asset], raise_on_error=False)

        def report() -> None:
            requested.append(automation.tick())
            if requested[-1]:
                assert run(REPORT).success

        done = run(FLIGHTS, EWR, JFK)
        report()
        (demo.parent / "landing/flights/origin=EWR/date=2013-01-01/part-0.parquet").write_text("damaged file")
        failed = run(FLIGHTS, EWR)
        report()
    (committed,) = [event for event in done.get_asset_materialization_events() if event.partition == EWR]
    (observed,) = [event for event in failed.get_asset_observation_events() if event.asset_key == FLIGHTS]
    return Runs(
        committed.materialization.metadata,
        observed.asset_observation_data.asset_observation.metadata,
        requested,
        (demo.parent / "reports" / "flights.html").read_text(encoding="utf-8"),
    )


def table(text: str) -> list[list[str]]:
    """The cells of the table in a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def marked(cell: str) -> list[str]:
    """What a cell has in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def test_a_partition_has_the_entries_that_the_page_shows(runs: Runs) -> None:
    rows = [(marked(entry), marked(example)) for entry, example in table(section(PAGE, "The page of a partition"))]
    examples = {name: text for names, texts in rows for name, text in zip(names, texts, strict=False)}
    found = {name: value.value for name, value in runs.committed.items() if not name.startswith("dagster/")}

    assert {name for names, _ in rows for name in names} == found.keys() | {"undo"}
    for name in ("status", "rows", "rows_before", "source_objects", "source_size", "files", "size"):
        assert str(found[name]) == examples[name]
    # A listing and a verification are shown where they take long enough.
    assert steps(found["duration"]) <= steps(examples["duration"]) | {"list", "verify"}
    assert found["preview"].splitlines()[0] == "| column | row 1 | row 2 |"


def steps(duration: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", duration))


def test_the_columns_have_the_types_and_descriptions_that_the_page_shows(demo: Path, runs: Runs) -> None:
    text = section(PAGE, "Columns")
    (keys,) = fenced(text, "yaml")
    columns = {column.name: column for column in runs.committed["dagster/column_schema"].value.columns}

    assert load_config(demo).streams["flights"].column_descriptions == yaml.safe_load(keys)["columns"]
    for (name,), (type_,), description in [(marked(cells[0]), marked(cells[1]), cells[2]) for cells in table(text)]:
        assert (columns[name].type, columns[name].description) == (type_, description)


def test_a_failed_partition_has_the_error_object_and_fix_that_the_page_shows(runs: Runs) -> None:
    (shown,) = indented(section(PAGE, "The page of a partition"))

    agree(shown, "\n".join(f"{name} {runs.failed[name].value}" for name in ("error", "object", "fix")), PAGE.name)


def test_the_report_is_written_after_each_run_with_the_lines_that_the_page_shows(demo: Path, runs: Runs) -> None:
    text = section(REPORT_PAGE, "A page that refreshes itself")
    (shown,), (short, _) = indented(text), fenced(text, "yaml")
    report = load_config(demo).streams["flights"].report

    assert report is not None
    assert report.to.root == str(demo.parent / yaml.safe_load(short)["report"])
    assert runs.requested == [1, 1]
    agree(shown, "\n".join(lines(runs.report)), REPORT_PAGE.name)
    (preview, *_) = re.findall(r'<div class="preview"><table>(.*?)</table>', runs.report, re.DOTALL)
    assert preview.count("<tr>") == 11
    assert "N14228" in preview


def lines(page: str) -> list[str]:
    """The lines of a report's table of partitions, without the first rows."""
    without = re.sub(r'<div class="preview">.*?</div>', "", page, flags=re.DOTALL)
    (found,) = re.findall(r"<summary>Partitions: .*?<table>(.*?)</table>", without, re.DOTALL)
    texts = (html.unescape(re.sub(r"<[^>]*>", " ", line)) for line in found.split("<tr>")[1:])
    return [" ".join(text.split()) for text in texts]
