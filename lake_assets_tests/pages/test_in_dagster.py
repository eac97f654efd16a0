"""What the pages about Dagster show of the demo's flights, by runs as the pages describe them, in one lake."""

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

from lake_assets.orchestration.build import build_definitions
from lake_assets.streams.load import load_config
from lake_assets.wings.templates.demo.demo_run import land, prepare, read_flights
from lake_assets_tests.pages.transcript import DOCS, agree, fenced, indented, section

pytestmark = pytest.mark.more

PAGE = DOCS / "how-to" / "see-a-partition.md"
BACKFILL = DOCS / "how-to" / "backfill-a-year.md"
FLIGHTS, EWR = dg.AssetKey("flights"), "2013-01-01|EWR"


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
    """The entries of a partition of a first run, and those of the same one, on which the second run failed."""

    committed: Mapping[str, Any]
    failed: Mapping[str, Any]


@pytest.fixture(scope="module")
def runs(demo: Path) -> Runs:
    """A run of a partition, then one that finds its object damaged."""
    job = build_definitions(load_config(demo)).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.local_temp() as instance:

        def run() -> dg.ExecuteInProcessResult:
            return job.execute_in_process(
                instance=instance, partition_key=EWR, asset_selection=[FLIGHTS], raise_on_error=False
            )

        done = run()
        (demo.parent / "landing/flights/origin=EWR/date=2013-01-01/part-0.parquet").write_text("damaged file")
        failed = run()
    (committed,) = done.get_asset_materialization_events()
    (observed,) = [event for event in failed.get_asset_observation_events() if event.asset_key == FLIGHTS]
    return Runs(committed.materialization.metadata, observed.asset_observation_data.asset_observation.metadata)


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

    assert {name for names, _ in rows for name in names} == found.keys() | {"undo", "held"}
    for name in ("status", "rows", "rows_before", "source_objects", "source_size", "files", "size"):
        assert str(found[name]) == examples[name]
    # A listing and a verification are shown where they take long enough.
    assert steps(found["duration"]) <= steps(examples["duration"]) | {"list", "verify"}
    assert found["preview"].splitlines()[0] == "| column | row 1 | row 2 |"


def steps(duration: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", duration))


def test_a_failed_partition_has_the_error_object_and_fix_that_the_page_shows(runs: Runs) -> None:
    (shown,) = indented(section(PAGE, "The page of a partition"))

    agree(shown, "\n".join(f"{name} {runs.failed[name].value}" for name in ("error", "object", "fix")), PAGE.name)
