"""A Spark session for the tests of transforms."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = SparkSession.builder.master("local[1]").getOrCreate()
    yield session
    session.stop()
