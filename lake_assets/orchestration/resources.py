"""Dagster's resources: the Spark session, which starts when it is first used."""

from collections.abc import Iterator, Mapping
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from lake_assets.config.spark import REMOTE, Spark
from lake_assets.spark.spark_session import Sessions, spark_config, start_session

PYSPARK = "pyspark"  # the key of the Spark session's resource


class _OfConfig(LazyPySparkResource):
    """The session of a config, to whose settings those of the package are added when it starts."""


def pyspark_resource(spark: Spark, *, transforms: bool = True) -> LazyPySparkResource:
    """Return the Spark session's resource, with the settings of the config alone.

    The launchpad shows them, and a launch keeps what it shows: so neither the package's own settings, which depend on
    the installation, nor the token in the URL of a Spark Connect server are among them.
    """

    class Session(_OfConfig):
        @property
        def spark_session(self) -> SparkSession:
            settings = _with_token(spark_settings(self), spark)
            return start_session(
                spark_config(app_name="lake-assets on Dagster", settings=settings, transforms=transforms)
            )

    return Session(spark_config=dict(spark.shown_settings))


def sessions(pyspark: LazyPySparkResource, spark: Spark) -> Sessions:
    """Return a function that returns the resource's session; the first call starts it.

    It raises `SparkUnavailableError` if Spark cannot start. The URL of a Spark Connect server in the config has the
    token that the resource lacks.
    """

    def session() -> SparkSession:
        if isinstance(pyspark, _OfConfig):
            configured: SparkSession = pyspark.spark_session
            return configured
        # Not the session of a user's resource: Java must be found first, and it keeps a session whose JVM has ended.
        return start_session(_with_token(spark_settings(pyspark), spark))

    return session


def spark_settings(pyspark: LazyPySparkResource) -> dict[str, str]:
    """Return the settings of a Spark resource by their full names, such as `spark.sql.session.timeZone`."""
    return dict(_flat(pyspark.spark_config))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _with_token(settings: dict[str, str], spark: Spark) -> dict[str, str]:
    is_of_config = REMOTE in settings and settings[REMOTE] == spark.shown_settings.get(REMOTE)
    return settings | {REMOTE: spark.settings[REMOTE]} if is_of_config else settings
