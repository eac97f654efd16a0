"""A folder in which an example runs: its files beside landed data. Runs of Dagster ingest in the test's process."""

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lake_assets.wings.templates.starter.project import start
from lake_assets_tests.examples import EXAMPLES
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.orchestration.conftest import runs_here

__all__ = ["runs_here", "sessions"]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Copies a folder of the examples and lands two days of two regions below its `landing/sales`."""

    def copied(name: str) -> Path:
        started, folder = tmp_path / "started", tmp_path / name
        start(started, dt.date(2026, 2, 11))
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.move(started / "landing", folder / "landing")
        monkeypatch.chdir(folder)
        return folder

    return copied
