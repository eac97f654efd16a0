"""Dagster's resources: the Spark session, which starts when it is first used."""

from collections.abc import Mapping

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from lake_assets.orchestration.dagster_private import spark_settings
from lake_assets.spark.session import Sessions, spark_config, start_session


def pyspark_resource(settings: Mapping[str, str], *, transforms: bool = True) -> LazyPySparkResource:
    """The Spark session's resource: our settings, overridden by those of the config.

    `transforms` is that of `spark_config`.
    """
    config = spark_config(app_name="lake-assets on Dagster", settings=settings, transforms=transforms)
    return LazyPySparkResource(spark_config=config)


def sessions(pyspark: LazyPySparkResource) -> Sessions:
    """A function that returns the resource's session; the first call starts it.

    It raises `SparkUnavailableError` if Spark cannot start.
    """

    def session() -> SparkSession:
        # Not the resource's own session: Java must be found first, and it keeps a session whose JVM has ended.
        return start_session(spark_settings(pyspark))

    return session
