"""The Spark session of a driver that a cluster has submitted, as EMR Serverless does.

Master, resources and the workers' Python are those of the submission. This package adds what its jobs need.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lake_assets.spark.python_side import stop_session
from lake_assets.spark.session import SQL_SETTINGS, Sessions


@contextmanager
def submitted_session(settings: Mapping[str, str]) -> Iterator[Sessions]:
    """Yields a function that starts the session at its first call; the end of the block stops it.

    Args:
        settings: the config's Spark settings.
    """
    started: list[SparkSession] = []

    def session() -> SparkSession:
        if not started:
            builder = SparkSession.builder
            for name, value in (SQL_SETTINGS | dict(settings)).items():
                builder = builder.config(name, value)
            started.append(builder.getOrCreate())
        return started[0]

    try:
        yield session
    finally:
        if started:
            stop_session(started[0])
