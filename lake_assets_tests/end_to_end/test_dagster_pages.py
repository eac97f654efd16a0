"""Pages of a real Dagster in a browser: a sensor without news, the asset graph, the launchpads of the jobs."""

import datetime as dt
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dev.servers.absent import absent
from dev.servers.browser import chromium
from dev.servers.dagster import DagsterServer, dagster_dev
from lake_assets.api.stream import open_stream
from lake_assets.config.load import load_config
from lake_assets.ingest.api import ingest
from lake_assets.lake.ledger.read import read_ledger
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.orchestration.ingest_job import SelectionConfig
from lake_assets.selection.select import Wanted
from lake_assets_tests.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["chromium"]

pytestmark = [pytest.mark.dagster, pytest.mark.browser, pytest.mark.timeout(900)]

DAYS = [dt.date(2026, 2, day) for day in (10, 11, 12)]
COLUMNS = {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": str(DAYS[0]), "end": str(DAYS[-1])}}
STREAM = {"source": "landing", "partitions": COLUMNS}
CONFIG = {
    "lakes": {"shop": {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "lake"}},
    "streams": {  # a run in mode index needs no Spark
        "sales": STREAM | {"destination": {"table": "sales"}, "mode": "index", "sensor": {"type": "objects"}},
        "copies": STREAM | {"destination": {"table": "copies"}, "report": {"to": "pages", "status": "stopped"}},
    },
}
CURSOR = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, state [-0-9a-f]{38}$")


@dataclass(frozen=True)
class Shop:
    """A Dagster over six partitions that the command line has committed."""

    folder: Path
    dagster: DagsterServer

    def ledger(self) -> list[LedgerRow]:
        """The rows of the ledger, the newest first."""
        with open_stream(load_config(self.folder / "lake.yaml"), "sales").lake.open() as lake:
            return read_ledger(lake)

    def statuses(self) -> list[str]:
        """The status of each row of the ledger."""
        return [row.status for row in self.ledger()]


def land(folder: Path, region: str, day: dt.date, *totals: float, name: str = "a.parquet") -> None:
    path = folder / "landing" / f"region={region}" / f"date={day}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"total": pa.array(totals, pa.float64())}), path)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    if importlib.util.find_spec("dagster_webserver") is None:
        absent("no Dagster web server: the package dagster-webserver is not installed")
    folder = tmp_path_factory.mktemp("shop")
    (folder / "lake.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False), encoding="utf-8")
    for day in DAYS:
        for region in ("NW", "SW"):
            land(folder, region, day, 1, 2)
    stream = open_stream(load_config(folder / "lake.yaml"), "sales")
    for day in DAYS:
        for region in ("NW", "SW"):
            ingest(stream, stream.config.partition(f"region={region},date={day}"), lambda: None)  # type: ignore[arg-type, return-value]
    with dagster_dev(folder / "lake.yaml") as server:
        yield Shop(folder, server)


@pytest.fixture
def page(chromium: str) -> Iterator["Page"]:
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - may not be installed

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 950})
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        yield page
        browser.close()


def test_a_sensor_says_that_nothing_changed_and_requests_nothing_that_is_in_the_lake(shop: Shop, page: "Page") -> None:
    from playwright.sync_api import expect  # noqa: PLC0415 - may not be installed

    until(lambda: len(shop.dagster.ticks("sales_sensor")) >= 3, "three ticks")
    page.goto(f"{shop.dagster.location_url}/sensors/sales_sensor")
    expect(page.get_by_text(CURSOR).first).to_be_visible()
    page.get_by_role("button", name="0 runs requested").first.click()
    expect(page.get_by_text("No changes (6 objects checked).").first).to_be_visible()

    assert not any(tick["runIds"] for tick in shop.dagster.ticks("sales_sensor"))
    assert shop.statuses() == ["committed"] * 6

    land(shop.folder, "NW", DAYS[0], 3, name="b.parquet")
    assert shop.dagster.wait_for_run(300, dagster__sensor_name="sales_sensor").status == "SUCCESS"
    assert shop.statuses() == ["committed"] * 7


def test_the_graph_leads_from_one_landing_zone_that_was_observed_to_the_tables(shop: Shop, page: "Page") -> None:
    from playwright.sync_api import expect  # noqa: PLC0415 - may not be installed

    page.goto(f"{shop.dagster.url}/asset-groups")
    for name in ("sales_landing", "sales", "copies"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    for name in ("copies_landing", "sales_report", "shop_ledger"):
        expect(page.get_by_text(name, exact=True)).to_have_count(0)
    expect(page.get_by_text("Never observed")).to_have_count(0)


def test_a_commit_took_as_long_in_dagster_as_in_the_ledger_whoever_made_it(shop: Shop, page: "Page") -> None:
    from playwright.sync_api import expect  # noqa: PLC0415 - may not be installed

    runs = len(shop.dagster.runs(dagster__sensor_name="sales_sensor"))
    land(shop.folder, "SW", DAYS[0], 4, name="c.parquet")
    until(lambda: len(shop.dagster.runs(dagster__sensor_name="sales_sensor")) > runs, "a run of the sensor")
    until(lambda: len(shop.dagster.materialized("sales")) >= 6, "the commits of the command line")

    for key in (f"{DAYS[0]}|SW", f"{DAYS[1]}|SW"):  # a run of Dagster's, and the command line
        day, region = key.split("|")
        until(lambda: shop.dagster.runs(dagster__sensor_name="sales_sensor")[-1].ended > 0, "the end of the run")
        row = next(row for row in shop.ledger() if row.load_partition == f"region={region}/date={day}")
        page.goto(f"{shop.dagster.url}/assets/sales?view=partitions&partition={day}%7C{region}")
        seconds = page.get_by_role("row").filter(has=page.get_by_text("seconds", exact=True)).first
        expect(seconds).to_contain_text(f"{row.duration:.3f}".rstrip("0"))


def test_the_picture_of_a_report_is_shown_after_it_is_refreshed_by_clicking(shop: Shop, page: "Page") -> None:
    page.goto(f"{shop.dagster.url}/assets/copies_report")
    page.get_by_role("button", name="Materialize").click()
    page.get_by_role("button", name="Confirm").click()  # though its table has never been materialized
    until(lambda: len(shop.dagster.materialized("copies_report")) > 0, "the report")
    page.goto(f"{shop.dagster.url}/assets/copies_report?view=events")
    row = page.get_by_role("row").filter(has=page.get_by_text("heat_map", exact=True)).first
    row.get_by_text("[Show Markdown]").click()
    picture = page.get_by_role("dialog").locator("img")
    picture.wait_for()

    width, height = picture.evaluate("image => [image.naturalWidth, image.naturalHeight]")
    assert width > 300
    assert height > 100


def shown_config(shop: Shop, page: "Page", job: str) -> str:
    """The run config that the launchpad of a job shows when it is opened."""
    page.goto(f"{shop.dagster.location_url}/jobs/{job}/playground")
    lines = page.locator(".CodeMirror-line")
    lines.first.wait_for()
    return "\n".join(lines.all_inner_texts()).replace("\u200b", "").replace("\xa0", " ")


def test_a_launchpad_shows_what_a_run_does(shop: Shop, page: "Page") -> None:

    shown = yaml.safe_load(shown_config(shop, page, "ingest_sales"))["ops"]["ingest_partitions_of_sales"]["config"]

    assert shown == {"all": False, "failed": False, "force": False, "partitions": []}
    assert (
        SelectionConfig.model_validate(shown).wanted
        == SelectionConfig.model_validate({}).wanted
        == Wanted(waiting=True)
    )


def test_a_restore_without_a_snapshot_fails_and_names_the_field(shop: Shop, page: "Page") -> None:
    from playwright.sync_api import expect  # noqa: PLC0415 - may not be installed

    shown_config(shop, page, "restore_sales")
    page.locator(".CodeMirror").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(f"{{ops: {{restore_partition_of_sales: {{config: {{partition: '{DAYS[0]}|NW'}}}}}}}}")
    page.get_by_role("button", name="Launch Run").click()
    expect(page.get_by_text("snapshot is missing: set it to a number of the history below").first).to_be_visible()
