"""A sensor for each stream that has one: it requests a run of each partition in which objects have landed."""

from collections.abc import Sequence

import dagster as dg

from lake_assets.config.sensors import ObjectSensor, SensorBase
from lake_assets.detection.reading import UnmatchedKey
from lake_assets.detection.run_plan import RunTarget
from lake_assets.detection.scan import scan
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.texts import count, several
from lake_assets.orchestration.dagster_private import RANGE_END, RANGE_START
from lake_assets.orchestration.partitions import new_dynamic_keys, partition_key
from lake_assets.orchestration.schedules import landed_only
from lake_assets.streams.stream import OpenStream

NAMED_KEYS = 10


def object_sensor(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.SensorDefinition | None:
    """The sensor that lists the landing zone; None if the stream has none of this type."""
    config = stream.config.sensor
    if not isinstance(config, ObjectSensor):
        return None

    @dg.sensor(
        name=sensor_name(stream),
        target=asset,
        minimum_interval_seconds=config.interval,
        default_status=default_status(config),
        description=f"Requests a run of each partition in which objects have landed below `{stream.source.root}`.",
    )
    def objects(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            scanned = scan(stream.config, stream.source, context.cursor, scanned_at=context.last_tick_completion_time)
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        log_unmatched(context, stream, scanned.unmatched)
        if scanned.unremembered:
            context.log.warning(
                f"below {stream.source.root}: another {count(scanned.unremembered, 'object')} in no partition"
            )
        return result(context, stream, asset.key, scanned.targets, scanned.cursor, scanned.summary)

    return objects


def sensor_name(stream: OpenStream) -> str:
    """The sensor's name, under which Dagster stores its cursor."""
    return f"{stream.name}_sensor"


def default_status(config: SensorBase) -> dg.DefaultSensorStatus:
    """Whether the sensor is on or off from the start."""
    return dg.DefaultSensorStatus.RUNNING if config.status == "running" else dg.DefaultSensorStatus.STOPPED


def without_traceback(error: LakeAssetsError) -> LakeAssetsError:
    """The error without its traceback, which Dagster would show with the tick."""
    return error.with_traceback(None)


def result(
    context: dg.SensorEvaluationContext,
    stream: OpenStream,
    asset: dg.AssetKey,
    targets: Sequence[RunTarget],
    cursor: str,
    summary: str,
) -> dg.SensorResult:
    """The result of a tick: the runs, the dynamic partitions that they need, and the cursor."""
    context.log.info(summary)
    if not targets:
        return dg.SensorResult(skip_reason=dg.SkipReason(summary), cursor=cursor)
    partitions = [partition for target in targets for partition in (target.first, target.last)]
    return dg.SensorResult(
        run_requests=[run_request(asset, target) for target in targets],
        cursor=cursor,
        dynamic_partitions_requests=[
            dg.AddDynamicPartitionsRequest(name, keys)
            for name, keys in new_dynamic_keys(stream, context.instance, partitions).items()
        ],
    )


def run_request(asset: dg.AssetKey, target: RunTarget) -> dg.RunRequest:
    """The run of one partition, or of the range between two.

    Its run key names the partition and the state of its objects, so a repeated tick starts no second run. In a range,
    partitions in which nothing has landed are skipped.
    """
    first, last = partition_key(target.first), partition_key(target.last)
    selection = [asset]  # the UI shows it as the run's target, because a sensor's job has no name
    if first == last:
        return dg.RunRequest(run_key=f"{first}:{target.state}", partition_key=first, asset_selection=selection)
    return dg.RunRequest(
        run_key=f"{first}...{last}:{target.state}",
        tags={RANGE_START: first, RANGE_END: last},
        run_config=landed_only(asset),
        asset_selection=selection,
    )


def log_unmatched(context: dg.SensorEvaluationContext, stream: OpenStream, unmatched: Sequence[UnmatchedKey]) -> None:
    """Log the objects that belong to no partition."""
    by_reason: dict[str, list[str]] = {}
    for unmatched_key in unmatched:
        by_reason.setdefault(unmatched_key.reason, []).append(unmatched_key.key)
    for reason, keys in by_reason.items():
        context.log.warning(f"below {stream.source.root}: {several(keys, NAMED_KEYS)}: {reason}")
