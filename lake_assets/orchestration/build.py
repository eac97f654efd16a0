"""All of Dagster's definitions for one config."""

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.assets import stream_asset
from lake_assets.orchestration.landing import drain_schedule
from lake_assets.orchestration.maintenance import maintenance
from lake_assets.orchestration.report import ledger_assets, report_asset
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.stream import open_streams


def build_definitions(config: LakeConfig, pyspark: LazyPySparkResource | None = None) -> dg.Definitions:
    """Assets for each stream, its report and each ledger; jobs that maintain the lakes and drain landing buffers.

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
    jobs, schedules = maintenance(config)
    return dg.Definitions(
        assets=[
            *(stream_asset(stream) for stream in streams),
            *(report_asset(stream) for stream in streams),
            *ledger_assets(config, streams),
        ],
        jobs=jobs,
        schedules=[*schedules, *(schedule for stream in streams if (schedule := drain_schedule(stream)))],
        resources={"pyspark": pyspark or pyspark_resource(config.spark)},
        executor=dg.in_process_executor,
    )
