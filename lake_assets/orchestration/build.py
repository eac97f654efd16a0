"""All of Dagster's definitions for one config."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.assets.landing_asset import automation_sensor, landing_asset, observe_schedule
from lake_assets.orchestration.assets.report_assets import ledger_asset, report_asset, report_sensor
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.jobs import audits, ingest_job, ingest_name, ingest_step, maintenance, restore_job
from lake_assets.orchestration.partition_keys import StreamKeys, step_of
from lake_assets.orchestration.resources import PYSPARK, pyspark_resource
from lake_assets.orchestration.sensors.alert_sensors import alert_sensors
from lake_assets.orchestration.sensors.lost_runs import lost_runs_sensor
from lake_assets.orchestration.sensors.stream_sensor import stream_sensor
from lake_assets.orchestration.sensors.sync import renames_sensor, sync_sensor
from lake_assets.orchestration.stream_checks import step_of_checks, stream_checks
from lake_assets.orchestration.stream_schedules import drain_schedule, refresh_schedule
from lake_assets.orchestration.translator import LakeAssetsTranslator, StreamSpecs, ledger_spec, readers_of, specs_of
from lake_assets.streams.load import ConfigSource, loaded
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
        MissingExtraError: the config has `alerts.slack` or `alerts.teams`, and its package is not installed.
    """
    config = loaded(config)
    streams = open_streams(config).values()
    readers = readers_of(streams)
    all_specs = [specs_of(stream, translator, readers[stream.name]) for stream in streams]
    by_lake: dict[str, list[StreamSpecs]] = {}
    for specs in all_specs:
        by_lake.setdefault(config.lake_name(specs.stream.name), []).append(specs)
    ledgers = {
        lake: ledger_spec(lake, config.key_prefix, [specs.stream for specs in of_lake], translator)
        for lake, of_lake in (by_lake.items() if config.orchestration.ledger_asset else ())
    }
    _check_names(config, all_specs, ledgers)
    sensors = [sync_sensor(lake, of_lake) for lake, of_lake in by_lake.items()]
    sensors += [lost_runs_sensor(lake, all_specs) for lake in list(by_lake)[:1]]
    if earlier := _earlier_names(all_specs):
        sensors.append(renames_sensor(next(iter(by_lake)), earlier))
    transforms = any(specs.stream.config.transform is not None for specs in all_specs)
    shared = dg.Definitions(
        assets=[ledger_asset(by_lake[lake], spec) for lake, spec in ledgers.items()],
        sensors=[*sensors, *alert_sensors(config.alerts, [specs.stream for specs in all_specs])],
        resources={PYSPARK: pyspark or pyspark_resource(config.spark, transforms=transforms)},
        executor=dg.in_process_executor,
    )
    by_name = {specs.stream.name: specs for specs in all_specs}
    definitions = [
        _definitions_of_stream(specs, [by_name[reader.name] for reader in specs.readers], config) for specs in all_specs
    ]
    return dg.Definitions.merge(shared, maintenance(config), audits(config, by_lake), *definitions)


def _definitions_of_stream(specs: StreamSpecs, readers: Sequence[StreamSpecs], config: LakeConfig) -> dg.Definitions:
    stream, key = specs.stream, specs.table.key
    asset = stream_asset(specs, config)
    landing = [landing_asset(readers, specs.landing)] if _has_landing(specs) else []
    report = [report_asset(specs)] if _has_report(specs, config) else []
    checks, ticking = stream_checks(stream, key), _ticking(specs, stream)
    return dg.Definitions(
        assets=[*landing, asset, *report],
        asset_checks=[checks] if checks else [],
        jobs=[ingest_job(specs, config), restore_job(stream, key)],
        schedules=[definition for definition in ticking if isinstance(definition, dg.ScheduleDefinition)],
        sensors=[definition for definition in ticking if isinstance(definition, dg.SensorDefinition)],
    )


def _ticking(specs: StreamSpecs, stream: OpenStream) -> list[dg.ScheduleDefinition | dg.SensorDefinition]:
    """Return the schedules and sensors of a stream, which may have another name than its assets."""
    table = specs.table.key
    made = (
        refresh_schedule(stream, table),
        observe_schedule(stream, specs.landing.key),
        drain_schedule(stream),
        stream_sensor(stream, table),
        automation_sensor(stream, table),
        report_sensor(stream, specs.report.key),
    )
    return [definition for definition in made if definition is not None]


def _earlier_names(all_specs: Sequence[StreamSpecs]) -> dict[str, str]:
    """Return the names of sensors, schedules and dynamic partitions by their earlier ones that no others have now."""

    def names(specs: StreamSpecs, stream: OpenStream) -> list[str]:
        return [*(definition.name for definition in _ticking(specs, stream)), *StreamKeys(stream).dynamic.values()]

    renamed = [(specs, name) for specs in all_specs for name in specs.stream.config.previously]
    present = {name for specs in all_specs for name in names(specs, specs.stream)} if renamed else set()
    pairs = (
        pair
        for specs, name in renamed
        for pair in zip(names(specs, replace(specs.stream, name=name)), names(specs, specs.stream), strict=True)
    )
    return {earlier: name for earlier, name in pairs if earlier not in present}


def _has_landing(specs: StreamSpecs) -> bool:
    """Return whether the asset of the landing zone has the name of this stream, not of another that reads it too."""
    return specs.readers[0] is specs.stream


def _has_report(specs: StreamSpecs, config: LakeConfig) -> bool:
    return config.orchestration.report_asset or specs.stream.config.report is not None


def _check_names(config: LakeConfig, all_specs: Sequence[StreamSpecs], ledgers: Mapping[str, dg.AssetSpec]) -> None:
    """Refuse a config in which two definitions would have one name; the error names both.

    Assets, jobs and their steps share one namespace.
    """
    owners: dict[str, str] = {"__ASSET_JOB": "a job of Dagster's own"}
    for name, owner in _names(config, all_specs, ledgers):
        if name in owners:
            raise ConfigError(
                f"{owner} and {owners[name]} would both be called {name} in Dagster:",
                f"rename {'it' if owners[name].endswith('own') else 'one of them'}.",
            )
        owners[name] = owner
    sets: dict[str, str] = {}
    dynamic = [(specs.stream.name, *item) for specs in all_specs for item in StreamKeys(specs.stream).dynamic.items()]
    for stream, column, name in dynamic:
        owner = f"streams.{stream}.partitions.{column}"
        if name in sets:
            raise ConfigError(
                f"{owner} and {sets[name]} would share the dynamic partitions {name} in Dagster:",
                "rename one of the streams, or give one of the columns its values.",
            )
        sets[name] = owner


def _names(
    config: LakeConfig, all_specs: Sequence[StreamSpecs], ledgers: Mapping[str, dg.AssetSpec]
) -> Iterator[tuple[str, str]]:
    for name in config.lakes:
        if name in ledgers:
            yield step_of(ledgers[name].key), f"the ledger of lakes.{name}"
        yield f"maintain_{name}", f"the maintenance of lakes.{name}"
        yield f"maintain_{name}_lake", f"the maintenance's step of lakes.{name}"
        yield f"audit_{name}", f"the audit of lakes.{name}"
        yield f"audit_{name}_lake", f"the audit's step of lakes.{name}"
    for specs in all_specs:
        name, stream = specs.stream.name, specs.stream.config
        yield step_of(specs.table.key), f"streams.{name}"
        if _has_report(specs, config):
            yield step_of(specs.report.key), f"the report of streams.{name}"
        if _has_landing(specs):
            yield step_of(specs.landing.key), f"the landing zone of streams.{name}"
        yield step_of_checks(name), f"the checks of streams.{name}"
        yield ingest_name(name), f"the ingest of selected partitions of streams.{name}"
        yield ingest_step(name), f"its step of streams.{name}"
        yield f"restore_{name}", f"the restore of streams.{name}"
        yield f"restore_partition_of_{name}", f"the restore's step of streams.{name}"
        if stream.schedule:
            yield f"refresh_{name}", f"the schedule's job of streams.{name}"
        if stream.automation:
            yield f"observe_{name}", f"the automation's job of streams.{name}"
        if stream.landing and stream.landing.buffer:
            yield f"drain_{name}", f"the buffer's job of streams.{name}"
            yield f"drain_{name}_buffer", f"the buffer's step of streams.{name}"
