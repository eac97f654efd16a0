"""A folder of a reader, with the tests' Spark session, and an instance of Dagster."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, and the current one; no settings of other projects apply."""
    assert spark
    monkeypatch.chdir(tmp_path)
    for name in ("LAKE_CONFIG", "DAGSTER_HOME", "LAKE_ASSETS_LOG_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in files of its own, without a daemon."""
    with dg.DagsterInstance.local_temp() as instance:
        yield instance
