"""A folder of a reader, whose commands ingest in the test's process, and an instance of Dagster."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lake_assets_tests.faults.without_spark import sessions

if TYPE_CHECKING:
    import dagster as dg

__all__ = ["sessions"]


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, and the current one; no settings of other projects apply."""
    request.getfixturevalue("sessions")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lake_assets.base.errors._in_terms", str)  # which a config of variables replaces
    for name in ("LAKE_CONFIG", "DAGSTER_HOME", "LAKE_ASSETS_LOG_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def instance() -> "Iterator[dg.DagsterInstance]":
    """An instance in files of its own, without a daemon."""
    import dagster as dg  # noqa: PLC0415 - takes a second

    with dg.DagsterInstance.local_temp() as instance:
        yield instance
