"""Pages of a real Dagster in a browser: a sensor without news, the asset graph, the picture of a report."""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dev.servers.dagster import DagsterServer, dagster_dev
from lake_assets.api.stream import open_stream
from lake_assets.config.load import load_config
from lake_assets.ingest.api import ingest
from lake_assets.lake.ledger.read import read_ledger
from lake_assets_tests.faults.without_spark import no_session
from lake_assets_tests.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.more,
    pytest.mark.dagster,
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("web_server"),
]

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

    def statuses(self) -> list[str]:
        """The status of each row of the ledger."""
        with open_stream(load_config(self.folder / "lake.yaml"), "sales").lake.open() as lake:
            return [row.status for row in read_ledger(lake)]


def land(folder: Path, region: str, day: dt.date, *totals: float, name: str = "a.parquet") -> None:
    path = folder / "landing" / f"region={region}" / f"date={day}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"total": pa.array(totals, pa.float64())}), path)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "lake.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False), encoding="utf-8")
    for day in DAYS:
        for region in ("NW", "SW"):
            land(folder, region, day, 1, 2)
    stream = open_stream(load_config(folder / "lake.yaml"), "sales")
    for day in DAYS:
        for region in ("NW", "SW"):
            ingest(stream, stream.config.partition(f"region={region},date={day}"), no_session)
    with dagster_dev(folder / "lake.yaml") as server:
        yield Shop(folder, server)


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


@pytest.mark.soak
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
