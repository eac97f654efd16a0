"""All of Dagster's definitions for one config."""

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from lake_assets.config.load import ConfigSource, loaded
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.alerts import alert_sensors
from lake_assets.orchestration.assets import stream_asset
from lake_assets.orchestration.checks import stream_checks
from lake_assets.orchestration.ended_runs import ended_runs_sensor
from lake_assets.orchestration.ingest_job import ingest_job
from lake_assets.orchestration.landing import drain_schedule
from lake_assets.orchestration.landing_zone import automation_sensor, landing_asset, observe_schedule
from lake_assets.orchestration.lost_runs import lost_runs_sensor
from lake_assets.orchestration.maintenance import audits, maintenance
from lake_assets.orchestration.names import check_names
from lake_assets.orchestration.report import ledger_asset, report_asset, streams_by_lake
from lake_assets.orchestration.report_page import report_sensor
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.restore import restore_job
from lake_assets.orchestration.schedules import refresh_schedule
from lake_assets.orchestration.sensors import stream_sensor
from lake_assets.orchestration.sync import sync_sensor
from lake_assets.orchestration.translator import LakeAssetsTranslator, StreamSpecs, ledger_spec, specs_of
from lake_assets.streams.stream import OpenStream, open_streams


def build_definitions(
    config: ConfigSource = None,
    pyspark: LazyPySparkResource | None = None,
    translator: LakeAssetsTranslator | None = None,
) -> dg.Definitions:
    """Return the definitions of each stream and each lake, and the resources.

    Nothing is connected or started yet.

    The in-process executor is the default because a run has few steps, and a process for each would start Python and
    Dagster every time.

    Args:
        config: a loaded config, or the path of its file; when None, the config in use (see `load_config`).
        pyspark: the Spark session's resource, where several definitions share one.
        translator: gives each asset its key, group, tags, owners and description; those of the config when None.

    Raises:
        ConfigError: the config cannot be read or is not valid, Dagster refuses an attribute of a stream, or two
            definitions would have one name.
        MissingExtraError: the config has `alerts.slack`, and its package is not installed.
    """
    config = loaded(config)
    streams = open_streams(config).values()
    specs = {stream.name: specs_of(stream, translator) for stream in streams}
    writers = streams_by_lake(config, streams)
    ledgers = {lake: ledger_spec(lake, config.key_prefix, writers[lake], translator) for lake in writers}
    check_names(config, specs, ledgers)
    jobs, schedules = maintenance(config)
    of_streams = [_of_stream(stream, specs[stream.name], config) for stream in streams]
    keyed = {lake: [(stream, specs[stream.name].table.key) for stream in writers[lake]] for lake in writers}
    sensors = [ended_runs_sensor(lake, of_lake) for lake, of_lake in keyed.items()]
    sensors += [sync_sensor(lake, of_lake) for lake, of_lake in keyed.items()]
    sensors += [lost_runs_sensor(lake) for lake in list(keyed)[:1]]
    transforms = any(stream.config.transform is not None for stream in streams)
    shared = dg.Definitions(
        assets=[ledger_asset(writers[lake], specs, ledgers[lake]) for lake in writers],
        jobs=jobs,
        schedules=schedules,
        sensors=[*(sensor for sensor in sensors if sensor is not None), *alert_sensors(config.alerts, list(streams))],
        resources={"pyspark": pyspark or pyspark_resource(config.spark, transforms=transforms)},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(shared, audits(config, keyed), *of_streams)


def _of_stream(stream: OpenStream, specs: StreamSpecs, config: LakeConfig) -> dg.Definitions:
    landing = landing_asset(stream, specs.landing)
    asset = stream_asset(stream, specs, config)
    schedules = [refresh_schedule(stream, specs.table.key), observe_schedule(stream, landing), drain_schedule(stream)]
    checks = stream_checks(stream, specs.table.key)
    report = report_asset(stream, specs)
    sensors = [stream_sensor(stream, specs.table.key), automation_sensor(stream, asset)]
    sensors.append(report_sensor(stream, report))
    return dg.Definitions(
        assets=[landing, asset, report],
        asset_checks=[checks] if checks else [],
        jobs=[ingest_job(stream, specs, config), restore_job(stream, specs.table.key)],
        schedules=[schedule for schedule in schedules if schedule is not None],
        sensors=[sensor for sensor in sensors if sensor is not None],
    )
