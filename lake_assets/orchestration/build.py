"""All of Dagster's definitions for one config."""

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.assets import stream_asset
from lake_assets.orchestration.checks import stream_checks
from lake_assets.orchestration.landing import drain_schedule
from lake_assets.orchestration.landing_zone import automation_sensor, landing_asset, observe_schedule
from lake_assets.orchestration.maintenance import maintenance
from lake_assets.orchestration.names import check_names
from lake_assets.orchestration.report import ledger_assets, report_asset
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.schedules import refresh_schedule
from lake_assets.orchestration.sensors import object_sensor
from lake_assets.orchestration.sqs import sqs_sensor
from lake_assets.stream import OpenStream, open_streams


def build_definitions(config: LakeConfig, pyspark: LazyPySparkResource | None = None) -> dg.Definitions:
    """For each stream an asset with what belongs to it, for each lake what belongs to that, and the resources.

    Nothing is connected or started yet.

    The in-process executor is the default because a run has few steps: a process of its own for each would start
    Python and Dagster every time.

    Args:
        config: of lakes and streams.
        pyspark: the Spark session's resource, where several definitions share one.

    Raises:
        ConfigError: Dagster does not take what the config says of a stream, or two definitions would have one name.
    """
    check_names(config)
    streams = open_streams(config).values()
    jobs, schedules = maintenance(config)
    of_streams = [_of_stream(stream) for stream in streams]
    shared = dg.Definitions(
        assets=ledger_assets(config, streams),
        jobs=jobs,
        schedules=schedules,
        resources={"pyspark": pyspark or pyspark_resource(config.spark)},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(shared, *of_streams)


def _of_stream(stream: OpenStream) -> dg.Definitions:
    landing = landing_asset(stream)
    asset = stream_asset(stream)
    schedules = [refresh_schedule(stream, asset), observe_schedule(stream, landing), drain_schedule(stream)]
    checks = stream_checks(stream)
    sensors = [object_sensor(stream, asset), sqs_sensor(stream, asset), automation_sensor(stream)]
    return dg.Definitions(
        assets=[landing, asset, report_asset(stream)],
        asset_checks=[checks] if checks else [],
        schedules=[schedule for schedule in schedules if schedule is not None],
        sensors=[sensor for sensor in sensors if sensor is not None],
    )
