"""All of Dagster's definitions for one config."""

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.assets import stream_asset
from lake_assets.orchestration.landing import drain_schedule
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.sensors import object_sensor
from lake_assets.orchestration.sqs import sqs_sensor
from lake_assets.stream import open_streams


def build_definitions(config: LakeConfig, pyspark: LazyPySparkResource | None = None) -> dg.Definitions:
    """An asset for each stream, with the resources that they need, and what drains its landing buffer.

    Nothing is connected or started yet.

    The in-process executor is the default because a run has one step: a process of its own for that would start
    Python and Dagster twice.

    Args:
        config: of lakes and streams.
        pyspark: the Spark session's resource, where several definitions share one.

    Raises:
        ConfigError: Dagster does not take what the config says of a stream.
    """
    streams = open_streams(config).values()
    assets = {stream.name: stream_asset(stream) for stream in streams}
    return dg.Definitions(
        assets=list(assets.values()),
        sensors=[
            sensor
            for stream in streams
            for make in (object_sensor, sqs_sensor)
            if (sensor := make(stream, assets[stream.name]))
        ],
        schedules=[schedule for stream in streams if (schedule := drain_schedule(stream))],
        resources={"pyspark": pyspark or pyspark_resource(config.spark)},
        executor=dg.in_process_executor,
    )
