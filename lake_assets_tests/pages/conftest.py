"""A folder of a reader, with the tests' Spark session."""

from pathlib import Path

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
