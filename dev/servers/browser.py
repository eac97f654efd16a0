"""The browser that tests of a web page drive."""

import importlib.util
import shutil

import pytest

from dev.servers.absent import absent


@pytest.fixture
def chromium() -> str:
    """The path of Chromium."""
    if importlib.util.find_spec("playwright") is None:
        absent("playwright is not installed")
    result = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if result is None:
        absent("no Chromium is installed: apt-get install chromium")
    return result
