"""A page of a browser, for tests of what Dagster's web server shows."""

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dev.servers.absent import absent
from dev.servers.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["chromium"]


@pytest.fixture
def page(chromium: str) -> Iterator["Page"]:
    """A new browser's page, whose waits end after a minute."""
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - may not be installed

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        yield page
        browser.close()


@pytest.fixture(scope="session")
def web_server() -> None:
    """Dagster's web server is installed."""
    if importlib.util.find_spec("dagster_webserver") is None:
        absent("no Dagster web server: pip install dagster-webserver")
