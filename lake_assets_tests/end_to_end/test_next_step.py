"""The tutorial's step in Spark, by the clicks that it describes."""

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.servers.dagster import dagster_dev
from lake_assets.wings.templates.starter.project import start
from lake_assets_tests.faults.without_spark import jobs_here
from lake_assets_tests.pages.transcript import DOCS, fenced, write_scripts
from lake_assets_tests.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE = DOCS / "tutorial.md"


@pytest.mark.more
@pytest.mark.browser
@pytest.mark.dagster
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("web_server")
def test_the_next_step_reads_the_partition_by_spark(
    tmp_path: Path, page: "Page", monkeypatch: pytest.MonkeyPatch
) -> None:
    import lake_assets  # noqa: PLC0415 - as a user does

    folder = tmp_path / "shop"
    start(folder, dt.date(2026, 2, 11))
    monkeypatch.chdir(folder)
    with jobs_here():
        lake_assets.open_stream("lake.yaml").ingest("region=NW,date=2026-02-11")
    write_scripts(PAGE)
    (workspace,) = fenced(PAGE.read_text("utf-8"), "text")
    (folder / "workspace.yaml").write_text(workspace, encoding="utf-8")

    with dagster_dev(folder / "lake.yaml", folder) as server:
        page.goto(f"{server.url}/assets/stores")
        page.get_by_role("button", name="Materialize…").click()
        dates = page.get_by_placeholder("ex: 2026-02-11")
        dates.fill("2026-02-11")
        dates.press("Enter")
        page.get_by_text("Select a partition or create one").click()
        page.get_by_text("NW", exact=True).first.click()
        page.keyboard.press("Escape")
        page.get_by_role("button", name=re.compile("^Launch")).click()
        until(lambda: bool(server.materialized("stores")), "a materialization of stores", 300)
        (made,) = server.materialized("stores")

    assert {entry["label"]: entry.get("intValue") for entry in made["metadataEntries"]}["stores"] == 2
