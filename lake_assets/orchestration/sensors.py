"""A sensor for each stream that has one, by listings or messages: it requests a run where objects have landed."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import dagster as dg

from lake_assets.config.sections import ObjectSensor, SensorBase, SqsSensor
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.detection.deliveries import MOST_WAITING, QueueCursor, classify
from lake_assets.detection.reading import UnmatchedKey
from lake_assets.detection.run_plan import RunTarget, Sharing, grouped
from lake_assets.detection.scan import scan
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.layout.texts import count, several
from lake_assets.layout.times import TIME_TYPES
from lake_assets.orchestration.dagster_private import RANGE_END, RANGE_START
from lake_assets.orchestration.partitions import (
    dimension_key,
    dimensions,
    dynamic_name,
    keys_of,
    new_dynamic_keys,
    partition_key,
)
from lake_assets.orchestration.queued_runs import QueuedRuns
from lake_assets.orchestration.queues import Queue
from lake_assets.orchestration.schedules import landed_only
from lake_assets.streams.stream import OpenStream

NAMED_KEYS = 10
CHEAP_SECONDS = 5  # between two ticks whose requests cost little; the daemon has no shorter interval
PRICED_SECONDS = 30  # between two of others
_OWN_NAMES = (".internal", ".lan", ".local", ".localhost", ".svc")  # endings of names in a network of one's own


def object_sensor(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.SensorDefinition | None:
    """Return the sensor that lists the landing zone; None if the stream has none of this type."""
    config = stream.config.sensor
    if not isinstance(config, ObjectSensor):
        return None

    @dg.sensor(
        name=sensor_name(stream),
        target=asset,
        minimum_interval_seconds=minimum_interval(config, stream.config.source),
        default_status=default_status(config),
        description=f"Requests a run of each partition in which objects have landed below {stream.source.root}.",
    )
    def objects(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            scanned = scan(
                stream.config,
                stream.source,
                context.cursor,
                scanned_at=context.last_tick_completion_time,
                sharing=sharing(stream, context.instance),
                is_queued=QueuedRuns(stream, asset.key, context.instance).have,
            )
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        log_unmatched(context, stream, scanned.unmatched)
        if scanned.unremembered:
            context.log.warning(
                f"below {stream.source.root}: another {count(scanned.unremembered, 'object')} in no partition"
            )
        return result(context, stream, asset.key, scanned.targets, scanned.cursor, scanned.summary)

    return objects


def interval_of(config: SensorBase, source: AnyStorage) -> int:
    """Seconds between two ticks: those of the config, or few where nobody pays for a tick's requests."""
    if config.interval is not None:
        return config.interval
    is_cheap = isinstance(config, SqsSensor) or isinstance(source, LocalStorage) or _is_own_server(source)
    return CHEAP_SECONDS if is_cheap else PRICED_SECONDS


def minimum_interval(config: SensorBase, source: AnyStorage) -> int:
    """Return the interval in seconds as Dagster's daemon wants it, a second below the one that is meant.

    The daemon looks about every five seconds, and leaves a sensor out whose minimum is not over by some milliseconds:
    with a minimum of 5 most ticks would be 10 seconds apart.
    """
    return interval_of(config, source) - 1


def _is_own_server(source: AnyStorage) -> bool:
    """Return whether a storage is an S3 server of one's own network, by its endpoint."""
    host = urlsplit(source.endpoint or "").hostname if isinstance(source, S3Storage) else None
    if not host:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:  # a name
        return "." not in host or host.endswith(_OWN_NAMES)


def sensor_name(stream: OpenStream) -> str:
    """Return the sensor's name, under which Dagster stores its cursor."""
    return f"{stream.name}_sensor"


def default_status(config: SensorBase) -> dg.DefaultSensorStatus:
    """Return whether the sensor is on or off from the start."""
    return dg.DefaultSensorStatus.RUNNING if config.status == "running" else dg.DefaultSensorStatus.STOPPED


def without_traceback(error: LakeAssetsError) -> LakeAssetsError:
    """Return the error without its traceback, which Dagster would show with the tick."""
    return error.with_traceback(None)


def result(
    context: dg.SensorEvaluationContext,
    stream: OpenStream,
    asset: dg.AssetKey,
    targets: Sequence[RunTarget],
    cursor: str,
    summary: str,
) -> dg.SensorResult:
    """Return the result of a tick: the runs, the dynamic partitions that they need, and the cursor."""
    context.log.info(summary)
    if not targets:
        return dg.SensorResult(skip_reason=dg.SkipReason(summary), cursor=cursor)
    partitions = [partition for target in targets for partition in (target.first, target.last)]
    new_keys = new_dynamic_keys(stream, context.instance, partitions)
    return dg.SensorResult(
        run_requests=[run_request(asset, run) for run in _runs(stream, context.instance, targets, new_keys)],
        cursor=cursor,
        dynamic_partitions_requests=[dg.AddDynamicPartitionsRequest(name, keys) for name, keys in new_keys.items()],
    )


def _runs(
    stream: OpenStream,
    instance: dg.DagsterInstance,
    targets: Sequence[RunTarget],
    new_keys: Mapping[str, Sequence[str]],
) -> Sequence[RunTarget]:
    """Return the targets, those of neighbouring partitions as one where the config permits it."""
    most = _most(stream)
    if most == 1 or len(targets) == 1:
        return targets
    positions = {
        name: _positions([*keys_of(definition, instance), *new_keys.get(dynamic_name(stream.name, name), ())])
        for name, definition in dimensions(stream).items()
        if stream.config.partitions[name].type not in TIME_TYPES
    }

    def position(partition: Partition, column: PartitionColumn) -> int:
        return positions[column.name][dimension_key(partition.texts()[column.name])]

    return grouped(targets, stream.config.columns, position, most)


def sharing(stream: OpenStream, instance: dg.DagsterInstance) -> Sharing | None:
    """Return which partitions of a tick will share runs, in the last column that is not a time; None if none do."""
    columns, most = stream.config.columns, _most(stream)
    axis = next((number for number, column in reversed([*enumerate(columns)]) if column.type not in TIME_TYPES), None)
    if most == 1 or axis is None:
        return None
    name = columns[axis].name
    positions: dict[str, int] = {}

    def position(partition: Partition) -> int:
        if not positions:  # read where a tick has many changes only
            positions.update(_positions(keys_of(dimensions(stream)[name], instance)))
        return positions.setdefault(dimension_key(partition.texts()[name]), len(positions))  # a new value is the last

    return Sharing(axis, most, position)


def _most(stream: OpenStream) -> int:
    """Return the number of partitions that may share a run."""
    config = stream.config
    assert config.sensor is not None  # noqa: S101 - its tick calls this
    return min(config.sensor.group_runs, config.max_partitions_per_run or config.sensor.group_runs)


def _positions(keys: Sequence[str]) -> dict[str, int]:
    return {key: number for number, key in enumerate(keys)}


def run_request(asset: dg.AssetKey, target: RunTarget) -> dg.RunRequest:
    """Return the run of one partition, or of the range between two.

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


def sqs_sensor(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.SensorDefinition | None:
    """Return the sensor that reads notifications from SQS; None if the stream has none of this type.

    Dagster stores the run requests together with the cursor, after the tick. So the cursor holds the receipts of the
    messages, and the next tick deletes them: after a lost tick all messages are still in the queue, and come again.
    """
    config = stream.config.sensor
    if not isinstance(config, SqsSensor):
        return None
    queue = Queue(config)

    @dg.sensor(
        name=sensor_name(stream),
        target=asset,
        minimum_interval_seconds=minimum_interval(config, stream.config.source),
        default_status=default_status(config),
        description=f"Requests a run of each partition for which {config.queue_url} has a notification.",
    )
    def notifications(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = QueueCursor.load(context.cursor, stream.config)
        try:
            queue.delete(cursor.receipts)
            cursor.receipts = []
            # Messages that are kept count against those that may be received.
            messages = queue.receive() if len(cursor.waiting) < MOST_WAITING else ()
            delivered = classify(
                stream.config,
                messages,
                cursor,
                sharing=sharing(stream, context.instance),
                is_queued=QueuedRuns(stream, asset.key, context.instance).have,
            )
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        log_unmatched(context, stream, delivered.unmatched)
        return result(context, stream, asset.key, delivered.targets, delivered.cursor, delivered.summary)

    return notifications
