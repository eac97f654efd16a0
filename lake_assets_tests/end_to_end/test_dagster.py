"""A real Dagster with its daemon and web server, used as people use it: by clicks, by its API, and all at once."""

import datetime as dt
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from dev.plain_client import plain_client
from dev.servers.dagster import DagsterServer, dagster_dev
from dev.servers.s3 import S3Server
from lake_assets.config.storages import S3Storage
from lake_assets.streams.load import load_config
from lake_assets.wings.templates.demo.demo_run import land, prepare, read_flights
from lake_assets_tests.until import until
from lake_assets_tests.world_fixtures import bucket_on

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.dagster, pytest.mark.timeout(900), pytest.mark.usefixtures("web_server")]

DAYS = ("2026-02-11", "2026-02-12")
EVERY_MINUTE = {"cron": "* * * * *", "lookback": 10_000, "status": "stopped"}
OFTEN = {"type": "objects", "interval": 5}


def stream(name: str, **more: Any) -> dict[str, Any]:
    """A stream with a table of its own."""
    partitions = {"region": {"values": ["NW"]}, "date": {"type": "date", "start": DAYS[0], "end": DAYS[-1]}}
    return {"source": f"landing/{name}", "partitions": partitions, "destination": {"table": name}} | more


STREAMS = {  # besides those of the demo; each for one test
    "arriving": stream("arriving", sensor=OFTEN),  # on S3
    "broken": stream("broken"),
    "crowded": stream("crowded", sensor=OFTEN, schedule=EVERY_MINUTE),
}


@dataclass(frozen=True)
class Site:
    """A Dagster over the demo's lake in a folder, and one stream of it."""

    folder: Path
    dagster: DagsterServer
    s3: S3Server
    stream: str = ""

    def of(self, stream: str) -> "Site":
        """The same with this stream."""
        return replace(self, stream=stream)

    @property
    def config(self) -> Path:
        return self.folder / "lake.yaml"

    def landed(self, day: str, name: str = "a.parquet") -> Path:
        """The path of an object of a partition; its folder is made."""
        path = self.folder / "landing" / self.stream / "region=NW" / f"date={day}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def land(self, day: str, *totals: float, name: str = "a.parquet") -> None:
        pq.write_table(pa.table({"total": pa.array(totals, pa.float64())}), self.landed(day, name))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The lake as a plain DuckDB client sees it."""
        with plain_client(load_config(self.config).lakes["demo"]) as client:
            return client.execute(sql).fetchall()

    def totals(self) -> list[tuple[str, float]]:
        return self.query(f"SELECT date::VARCHAR, total FROM lake.{self.stream} ORDER BY ALL")

    def wait_for_materializations(self, count: int) -> list[dict[str, Any]]:
        until(lambda: len(self.dagster.materialized(self.stream)) >= count, f"{count} materialized partitions", 300)
        return self.dagster.materialized(self.stream)

    def failures(self, backfill: str) -> list[list[str]]:
        return [self.dagster.failures(run) for run in self.dagster.runs(dagster__backfill=backfill)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("demo")
    path = prepare(folder)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["streams"] |= STREAMS | {"arriving": STREAMS["arriving"] | {"source": bucket_on(s3)}}
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    for name in ("flights", *STREAMS):
        (folder / "landing" / name).mkdir(parents=True)
    with dagster_dev(path) as server:
        yield Site(folder, server, s3)


@pytest.mark.journey
@pytest.mark.browser
def test_a_backfill_is_launched_by_clicking(shop: Site, page: "Page") -> None:
    from playwright.sync_api import expect  # noqa: PLC0415 - may not be installed

    site, days = shop.of("flights"), (dt.date(2013, 1, 1), dt.date(2013, 1, 2))
    flights = read_flights().filter(pc.field("date") <= dt.date(2013, 1, 3))
    land(flights, site.folder / "landing" / "flights", lambda: None)
    due = {f"{day}|JFK": flights.filter((pc.field("date") == day) & (pc.field("origin") == "JFK")) for day in days}
    page.goto(f"{site.dagster.url}/assets/{site.stream}")
    page.get_by_role("button", name="Materialize…").click()
    dates = page.get_by_placeholder("ex: 2013-01-01")
    dates.fill(f"[{days[0]}...{days[1]}]")
    dates.press("Enter")
    page.get_by_text("Select a partition or create one").click()
    page.get_by_text("JFK", exact=True).first.click()
    expect(page.get_by_text("2 partitions")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Launch backfill").click()
    message = site.wait_for_materializations(2)
    page.goto(f"{site.dagster.url}/assets/{site.stream}?view=events")
    for key in due:
        expect(page.get_by_text(key).first).to_be_visible()
    page.goto(f"{site.dagster.url}/assets/{site.stream}?view=partitions&partition={days[0]}%7CJFK")
    expect(page.get_by_text(re.compile(r"^\d+\.\d kB$")).first).to_be_visible()
    expect(page.get_by_text("[Show JSON]")).to_have_count(0)
    page.goto(f"{site.dagster.url}/assets/{site.stream}")
    expect(page.get_by_text("Minutes after the planned departure")).to_be_visible()

    assert len(message) == 2
    rows = {
        item["partition"]: {e["label"]: e.get("intValue") for e in item["metadataEntries"]}["rows"] for item in message
    }
    assert rows == {key: len(table) for key, table in due.items()}
    landed = sorted((str(row["date"]), row["flight"]) for table in due.values() for row in table.to_pylist())
    assert site.query("SELECT date::VARCHAR, flight FROM lake.flights ORDER BY ALL") == landed


@pytest.mark.journey
def test_what_lands_in_a_bucket_is_ingested_by_the_sensor_of_the_daemon(shop: Site) -> None:
    site, body = shop.of("arriving"), io.BytesIO()
    source = load_config(site.config).streams[site.stream].source
    assert isinstance(source, S3Storage)
    pq.write_table(pa.table({"total": [1.0, 2.0]}), body)

    site.s3.put(source.bucket, f"{source.prefix}/region=NW/date={DAYS[0]}/a.parquet", body.getvalue())

    run = site.dagster.wait_for_run(300, dagster__sensor_name="arriving_sensor")
    assert run.status == "SUCCESS", site.dagster.failures(run)
    assert site.totals() == [(DAYS[0], 1), (DAYS[0], 2)]
    assert [item["partition"] for item in site.wait_for_materializations(1)] == [f"{DAYS[0]}|NW"]


@dataclass(frozen=True)
class Failed:
    """A backfill of two partitions, the second of which has an object that is not Parquet."""

    site: Site
    backfill: str
    status: str
    bad: Path


@pytest.fixture(scope="module")
def failed(shop: Site) -> Failed:
    site = shop.of("broken")
    site.land(DAYS[0], 1)
    bad = site.landed(DAYS[1])
    bad.write_bytes(b"no Parquet")
    backfill = site.dagster.backfill(site.stream, [f"{day}|NW" for day in DAYS])
    return Failed(site, backfill, site.dagster.wait(backfill, 600), bad)


@pytest.mark.more
def test_one_bad_partition_of_a_backfill_fails_alone(failed: Failed) -> None:
    site, bad = failed.site, failed.bad

    assert failed.status == "COMPLETED_FAILED"
    ((error,),) = site.failures(failed.backfill)
    assert "1 of 2 partitions failed; 1 committed." in error
    assert f"{DAYS[1]}|NW: the object {bad}" in error
    assert site.totals() == [(DAYS[0], 1)]
    assert [item["partition"] for item in site.dagster.materialized(site.stream)] == [f"{DAYS[0]}|NW"]
    assert site.query("SELECT load_partition, status FROM lake.ingest_runs WHERE stream = 'broken' ORDER BY ALL") == [
        (f"region=NW/date={DAYS[0]}", "committed"),
        (f"region=NW/date={DAYS[1]}", "failed"),
    ]


@pytest.mark.more
@pytest.mark.browser
def test_the_page_of_a_partition_that_never_succeeded_has_its_error_object_and_fix(
    failed: Failed, page: "Page"
) -> None:
    from playwright.sync_api import expect  # noqa: PLC0415 - may not be installed

    page.goto(f"{failed.site.dagster.url}/assets/broken?view=partitions&partition={DAYS[1]}%7CNW")
    page.get_by_role("button", name="View logs").click()
    error = page.get_by_role("dialog").get_by_text(f"{DAYS[1]}|NW: the object {failed.bad} ").last
    expect(error).to_be_visible()
    expect(error).to_contain_text("remove it, or let its writer land it again.")
    expect(error).to_contain_text("1 of 2 partitions failed; 1 committed.")
    expect(error).not_to_contain_text("lake_assets/orchestration")  # the traceback
    page.goto(f"{failed.site.dagster.url}/assets/broken?view=checks&checkDetail=last_run")
    shown = page.get_by_text(f"region=NW/date={DAYS[1]}: {failed.bad.name} cannot be read as Parquet")
    expect(shown.first).to_be_visible()


@pytest.mark.soak
def test_runs_of_every_kind_at_once_end_as_if_one_came_after_the_other(shop: Site) -> None:
    site = shop.of("crowded")
    site.dagster.start_schedule("refresh_crowded_schedule")
    for day in DAYS:
        site.land(day, 1, 2, 3)
    keys = [f"{day}|NW" for day in DAYS]
    # A range, a single partition, the command line, and what sensor and schedule start by themselves, all on the same
    # partitions, which do not exist yet. The sensor is the first, because it asks for nothing that others have done.
    until(lambda: bool(site.dagster.runs(dagster__sensor_name="crowded_sensor")), "a run of the sensor", 300)
    launched = [site.dagster.backfill(site.stream, keys), site.dagster.backfill(site.stream, keys[:1])]
    until(lambda: bool(site.dagster.runs(dagster__backfill=launched[0])), "a run of the backfill", 300)
    cli = "from lake_assets.cli import main; main()"
    command = [sys.executable, "-c", cli, "--config", str(site.config), "ingest", site.stream, "--force"]
    options = [text for day in DAYS for text in ("--partition", f"region=NW,date={day}")]
    by_hand = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600, check=False)

    assert by_hand.returncode == 0, by_hand.stderr
    assert [site.dagster.wait(backfill, 600) for backfill in launched] == ["COMPLETED_SUCCESS"] * 2, [
        site.failures(backfill) for backfill in launched
    ]
    by_itself = [
        site.dagster.wait_for_run(600, dagster__sensor_name="crowded_sensor"),
        site.dagster.wait_for_run(600, dagster__schedule_name="refresh_crowded_schedule"),
    ]
    assert [run.status for run in by_itself] == ["SUCCESS"] * 2, [site.dagster.failures(run) for run in by_itself]
    assert site.totals() == [(day, total) for day in DAYS for total in (1, 2, 3)]
    ((runs, commits, pairs),) = site.query(
        "SELECT count(*), count(*) FILTER (status = 'committed'), "
        "count(DISTINCT (load_partition, snapshot_id)) FILTER (status = 'committed') "
        "FROM lake.ingest_runs WHERE stream = 'crowded'"
    )
    assert runs >= 5 + 1 + 2
    assert commits == pairs  # no snapshot holds two commits of a partition
