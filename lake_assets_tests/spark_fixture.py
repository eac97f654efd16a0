"""The fixture `spark`: one local session for all tests of a run; the conftest loads it by `pytest_plugins`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from lake_assets.spark.session import spark_config, start_session

    session = start_session(spark_config(cores=2, app_name="lake-assets-tests"))
    yield session
    session.stop()
