"""A project for files that have landed, by the commands of its page."""

import datetime as dt
import shutil
from pathlib import Path

import pytest

from lake_assets.templates.starter.folder import start
from lake_assets_tests.pages.transcript import DOCS, follow, shown


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_page_have_the_outputs_that_it_shows() -> None:
    start(Path("started"), dt.date(2026, 2, 11))
    for landed in Path("started/landing/sales").rglob("*.parquet"):
        day = landed.parent.name.removeprefix("date=2026-02-")
        for folder in (landed.parent.relative_to("started"), Path("landing/stock/2026/02") / day):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(landed, folder / "part-0.parquet")
    shutil.rmtree("started")

    follow([each for each in shown(DOCS / "how-to" / "start-from-a-landing-zone.md") if each.output is not None])
