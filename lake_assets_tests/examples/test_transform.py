"""The example of a transform: its unit test passes, and a stream with it is ingested."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets import open_stream


class OneSession:
    """Stands in for the example's own conftest, so that all tests share one session."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @pytest.fixture(scope="session")
    def spark(self) -> SparkSession:
        return self.session


def test_the_unit_test_passes(example: Callable[[str], Path], spark: SparkSession) -> None:
    folder = example("transform")
    options = ["--noconftest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={folder}"]

    code = pytest.main([*options, "-c", "/dev/null", str(folder)], plugins=[OneSession(spark)])

    assert code == pytest.ExitCode.OK


def test_the_stream_is_ingested_with_the_function(
    example: Callable[[str], Path], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example("transform")
    monkeypatch.syspath_prepend(str(folder))
    partition = open_stream("lake.yaml").partition("region=NW,date=2026-02-11")

    result = partition.ingest(spark=spark)
    table = partition.read()

    assert result.row.row_count == table.num_rows == 2
    assert table.column_names == ["store_id", "sales", "revenue", "region", "date"]
    assert sum(table["sales"].to_pylist()) == 175
