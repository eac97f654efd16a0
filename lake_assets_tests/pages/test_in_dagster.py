"""What the pages about Dagster show of the demo's flights, by runs as the pages describe them."""

import logging
from pathlib import Path

import dagster as dg
import pyarrow.compute as pc
import pytest
import yaml

from lake_assets.config.load import load_config
from lake_assets.orchestration.build import build_definitions
from lake_assets.templates.demo.flights import land, read_flights
from lake_assets.templates.demo.folder import prepare
from lake_assets_tests.pages.transcript import DOCS, agree, fenced, indented, section

PAGE = DOCS / "dagster.md"
LANDING = Path("demo/landing/flights")


@pytest.fixture(scope="module")
def june(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landing zone with flights of June and of the first of January."""
    flights, folder = read_flights(), tmp_path_factory.mktemp("flights")
    date = pc.strftime(flights["date"], "%Y-%m-%d")
    land(flights.filter(pc.or_(pc.starts_with(date, "2013-06"), pc.equal(date, "2013-01-01"))), folder, lambda: None)
    return folder


@pytest.fixture
def demo(folder: Path, june: Path) -> Path:
    """The demo's config, with these flights."""
    config = folder / prepare(Path("demo"))
    LANDING.parent.mkdir(parents=True)
    LANDING.symlink_to(june)
    return config


def test_the_job_of_a_stream_is_launched_by_the_page_s_run_config_and_logs_its_lines(
    demo: Path, instance: dg.DagsterInstance
) -> None:
    text = section(PAGE, "Launch a selection")
    (run_config,) = fenced(text, "text")
    (log,) = indented(text)

    job = build_definitions(load_config(demo)).resolve_job_def("ingest_flights")
    result = job.execute_in_process(yaml.safe_load(run_config), instance=instance)

    said = [entry for entry in instance.all_logs(result.run_id) if entry.dagster_event is None]
    agree(log, "\n".join(entry.user_message for entry in said if entry.level == logging.INFO), PAGE.name)
    events = result.get_asset_materialization_events()
    assert [event.partition for event in events] == [f"2013-06-{day:02}|JFK" for day in range(1, 21)]
