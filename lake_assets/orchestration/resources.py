"""Dagster's resources: the Spark session, started only when there is work for it."""

from collections.abc import Mapping

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from lake_assets.orchestration.dagster_private import spark_settings
from lake_assets.spark.session import Sessions, spark_config, start_session


def pyspark_resource(settings: Mapping[str, str]) -> LazyPySparkResource:
    """The Spark session's settings: ours, and those of the config over them."""
    return LazyPySparkResource(spark_config=spark_config(app_name="lake-assets on Dagster", settings=settings))


def sessions(pyspark: LazyPySparkResource) -> Sessions:
    """What gives the resource's session, starting it at the first call.

    The function that is returned raises `SparkUnavailableError` where Spark cannot start.
    """

    def session() -> SparkSession:
        # Not the resource's own: Java must be found before, and it keeps a session whose JVM has ended.
        return start_session(spark_settings(pyspark))

    return session
