"""The fixture `spark`: one local session for all tests of a run, started when the first test asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A local session with two cores and the package's own settings."""
    from lake_assets.spark.spark_session import spark_config, start_session  # noqa: PLC0415 - imports pyspark

    session = start_session(spark_config(app_name="lake-assets-tests", settings={"spark.master": "local[2]"}))
    yield session
    session.stop()
