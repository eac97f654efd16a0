"""A sensor for each stream that has one: it asks for a run of each partition in which something has landed."""

from collections.abc import Iterable, Sequence

import dagster as dg

from lake_assets.config.sensors import ObjectSensor, SensorBase
from lake_assets.detection.reading import UnmatchedKey
from lake_assets.detection.run_plan import RunTarget
from lake_assets.detection.scan import scan
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import several
from lake_assets.layout.times import TIME_TYPES
from lake_assets.orchestration.dagster_private import RANGE_END, RANGE_START
from lake_assets.orchestration.partitions import dimension_key, dynamic_name, partition_key
from lake_assets.orchestration.schedules import landed_only
from lake_assets.streams.stream import OpenStream

NAMED_KEYS = 10


def object_sensor(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.SensorDefinition | None:
    """The sensor that lists the landing zone; None where the stream has none of this type."""
    config = stream.config.sensor
    if not isinstance(config, ObjectSensor):
        return None

    @dg.sensor(
        name=sensor_name(stream),
        target=asset,
        minimum_interval_seconds=config.interval,
        default_status=default_status(config),
        description=f"Asks for a run of each partition in which objects have landed below `{stream.source.root}`.",
    )
    def objects(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            found = scan(stream.config, stream.source, context.cursor, scanned_at=context.last_tick_completion_time)
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        log_unmatched(context, stream, found.unmatched)
        if found.unremembered:
            context.log.warning(
                f"below {stream.source.root}: {found.unremembered:,} more objects belong to no partition"
            )
        return result(context, stream, asset.key, found.targets, found.cursor, found.summary)

    return objects


def sensor_name(stream: OpenStream) -> str:
    """By which Dagster keeps the sensor's cursor."""
    return f"{stream.name}_sensor"


def default_status(config: SensorBase) -> dg.DefaultSensorStatus:
    """Whether the sensor runs until someone turns it off, or the other way round."""
    return dg.DefaultSensorStatus.RUNNING if config.status == "running" else dg.DefaultSensorStatus.STOPPED


def without_traceback(error: LakeAssetsError) -> LakeAssetsError:
    """The error without where it came from: Dagster shows the tick's error with all that led to it."""
    return error.with_traceback(None)


def result(
    context: dg.SensorEvaluationContext,
    stream: OpenStream,
    asset: dg.AssetKey,
    targets: Sequence[RunTarget],
    cursor: str,
    summary: str,
) -> dg.SensorResult:
    """What a tick returns: the runs, the dynamic partitions that they need, and the cursor."""
    context.log.info(summary)
    if not targets:
        return dg.SensorResult(skip_reason=dg.SkipReason(summary), cursor=cursor)
    partitions = [partition for request in targets for partition in (request.first, request.last)]
    return dg.SensorResult(
        run_requests=[run_request(asset, request) for request in targets],
        cursor=cursor,
        dynamic_partitions_requests=_new_keys(context.instance, stream, partitions),
    )


def run_request(asset: dg.AssetKey, request: RunTarget) -> dg.RunRequest:
    """The run of one partition, or of the range between two.

    Its run key names the partition and what was found there, so that a tick that is repeated starts nothing twice.
    A range may hold partitions in which nothing has landed; these are passed over.
    """
    first, last = partition_key(request.first), partition_key(request.last)
    target = [asset]  # the job of a sensor has no name that says it; the UI shows this as the run's target
    if first == last:
        return dg.RunRequest(run_key=f"{first}:{request.state}", partition_key=first, asset_selection=target)
    return dg.RunRequest(
        run_key=f"{first}...{last}:{request.state}",
        tags={RANGE_START: first, RANGE_END: last},
        run_config=landed_only(asset),
        asset_selection=target,
    )


def log_unmatched(context: dg.SensorEvaluationContext, stream: OpenStream, unmatched: Sequence[UnmatchedKey]) -> None:
    """Name the objects that belong to no partition, in the tick's log."""
    by_reason: dict[str, list[str]] = {}
    for item in unmatched:
        by_reason.setdefault(item.reason, []).append(item.key)
    for reason, keys in by_reason.items():
        context.log.warning(f"below {stream.source.root}: {several(keys, NAMED_KEYS)}: {reason}")


def _new_keys(
    instance: dg.DagsterInstance, stream: OpenStream, partitions: Iterable[Partition]
) -> list[dg.AddDynamicPartitionsRequest]:
    """What must be added before these partitions can be run."""
    partitions = list(partitions)
    targets = []
    for column in stream.config.columns:
        field = stream.config.partitions[column.name]
        if column.type in TIME_TYPES or field.values is not None:
            continue
        name = dynamic_name(stream.name, column.name)
        keys = sorted({dimension_key(partition.texts()[column.name]) for partition in partitions})
        if new := [key for key in keys if not instance.has_dynamic_partition(name, key)]:
            targets.append(dg.AddDynamicPartitionsRequest(name, new))
    return targets
