"""Dagster's resources: the Spark session, which starts when it is first used."""

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from lake_assets.config.spark import REMOTE, Spark
from lake_assets.orchestration.dagster_private import spark_settings
from lake_assets.spark.session import Sessions, spark_config, start_session

PYSPARK = "pyspark"  # the key of the Spark session's resource


def pyspark_resource(spark: Spark, *, transforms: bool = True) -> LazyPySparkResource:
    """Return the Spark session's resource: our settings, overridden by those of the config.

    Dagster shows them, so the URL of a Spark Connect server is without its token here.
    """
    config = spark_config(app_name="lake-assets on Dagster", settings=spark.shown_settings, transforms=transforms)
    return LazyPySparkResource(spark_config=config)


def sessions(pyspark: LazyPySparkResource, spark: Spark) -> Sessions:
    """Return a function that returns the resource's session; the first call starts it.

    It raises `SparkUnavailableError` if Spark cannot start. The URL of a Spark Connect server in the config has the
    token that the resource lacks.
    """

    def session() -> SparkSession:
        # Not the resource's own session: Java must be found first, and it keeps a session whose JVM has ended.
        conf = spark_settings(pyspark)
        if REMOTE in conf and conf[REMOTE] == spark.shown_settings.get(REMOTE):
            conf[REMOTE] = spark.settings[REMOTE]
        return start_session(conf)

    return session
