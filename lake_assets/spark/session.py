"""The Spark session: the settings that this package needs, and an environment in which Spark starts.

`spark_config` is a plain dict, so that it serves `start_session` here and Dagster's `LazyPySparkResource` alike;
what belongs to the machine (Java, Python, JVM options) goes into the environment by `prepare_environment`.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lake_assets.errors import SparkUnavailableError
from lake_assets.spark.class_sharing import sharing_options
from lake_assets.spark.java import find_java

_LOG4J = Path(__file__).with_name("log4j2.properties")


def spark_config(
    *,
    master: str | None = None,
    cores: int | None = None,
    app_name: str = "lake-assets",
    settings: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The Spark settings that this package needs, overlaid with the user's own.

    Args:
        master: Spark's master URL; a local session when None.
        cores: how many tasks a local session runs at a time; every core of the machine when None.
        app_name: the name that the session shows.
        settings: the user's Spark settings, which win over those made here.
    """
    config = {
        "spark.app.name": app_name,
        "spark.master": master or f"local[{cores or '*'}]",
        "spark.sql.session.timeZone": "UTC",
        # DuckLake registers no INT96 column.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    config.update(settings or {})
    if config["spark.master"].startswith("local"):
        local = {
            # Neither a firewall's question nor a host name that does not resolve.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * (cores or os.cpu_count() or 1)),
            # Spark's default is a folder in the current directory.
            "spark.sql.warehouse.dir": (platformdirs.user_cache_path("lake-assets") / "warehouse").as_uri(),
        }
        config = local | config
    return config


def prepare_environment(conf: Mapping[str, str]) -> None:
    """Set the environment variables of this process with which a Spark session starts; may be called again.

    `start_session` does it by itself. Call it where another part starts the session, such as Dagster's resource.

    Args:
        conf: the settings that the session will have.

    Raises:
        SparkUnavailableError: there is no usable Java.
    """
    # A worker with another Python than the driver's lacks its packages, or refuses to work.
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ or "spark.remote" in conf:
        return  # the JVM runs already: spark-submit started it, or it is a Spark Connect server's
    java = find_java()
    os.environ["JAVA_HOME"] = os.fspath(java.home)
    ours = [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", *sharing_options(java, conf)]
    # Spark's launcher splits this variable as a shell does and puts it before the options of the settings. What the
    # user set in either stands behind ours, and so wins.
    present = shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", ""))
    if ours != present[: len(ours)]:
        os.environ["SPARK_SUBMIT_OPTS"] = shlex.join(ours + present)


def start_session(conf: Mapping[str, str]) -> SparkSession:
    """The Spark session with these settings: started, or the one that runs in this process already.

    Raises:
        SparkUnavailableError: there is no usable Java, or the JVM ended while it started.
    """
    prepare_environment(conf)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkUnavailableError(
            f"Spark's JVM ended while it started, with JAVA_HOME={os.environ['JAVA_HOME']} ({error}):",
            "see what it wrote to standard error.",
        ) from error
