"""A sensor for each stream that has one, by listings or messages: it requests a run where objects have landed."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

import dagster as dg

from lake_assets.config.sections import SensorBase, SqsSensor
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.detection.deliveries import QueueCursor, classify
from lake_assets.detection.failures import failed_for_good
from lake_assets.detection.requests import Requests, Verdict
from lake_assets.detection.run_plan import RunTarget, ScanResult, runs_of
from lake_assets.detection.scan import scan
from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count, several
from lake_assets.orchestration.partition_keys import ValueOrder, keys_of, partition_key
from lake_assets.orchestration.queued_runs import QueuedRuns
from lake_assets.orchestration.sensors.kept_state import KeptState
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.orchestration.stream_schedules import run_range
from lake_assets.streams.pending import not_pending
from lake_assets.streams.stream import OpenStream

NAMED_KEYS = 10
CHEAP_SECONDS = 5  # between two ticks whose requests cost little; the daemon has no shorter interval
PRICED_SECONDS = 30  # between two of others
_OWN_NAMES = (".internal", ".lan", ".local", ".localhost", ".svc")  # endings of names in a network of one's own


def stream_sensor(stream: OpenStream, asset: dg.AssetKey) -> dg.SensorDefinition | None:
    """Return the sensor `<stream>_sensor` of the config's type; None if the stream has none."""
    config = stream.config.sensor
    if config is None:
        return None
    if isinstance(config, SqsSensor):
        find, what = _by_messages(stream, Queue(config)), f"for which {config.queue_url} has a notification"
    else:
        find, what = _by_listing(stream), f"in which objects have landed below {stream.source.root}"

    @dg.sensor(
        name=f"{stream.name}_sensor",
        # Not as `target`: of that Dagster makes a job for each sensor, each by a look at every asset.
        asset_selection=dg.AssetSelection.assets(asset),
        # The daemon looks about every five seconds, and leaves a sensor out whose minimum is not over by some
        # milliseconds: with a minimum of 5 most ticks would be 10 seconds apart.
        minimum_interval_seconds=interval_of(config, stream.config.source) - 1,
        default_status=dg.DefaultSensorStatus(config.status.upper()),
        description=f"Requests a run of each partition {what}.",
    )
    def changes(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        runs = QueuedRuns(stream, asset, context.instance)
        kept = KeptState(context.instance, context.cursor)
        state, _, waiting = (kept.text or "").partition("\n")
        requests = Requests.load(waiting, keys_of(stream).columns)
        try:
            scanned = find(state or None, context.last_tick_completion_time, requests)
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        now = time.time()
        targets = _requested(context, stream, scanned, requests, runs)
        scanned = replace(scanned, targets=tuple(_runs(context.instance, stream, targets)))
        requests.note(scanned.targets, now)
        scanned = replace(scanned, summary=f"{scanned.summary} {requests.text(now)}".rstrip())
        _log(context, stream, scanned)
        text = "\n".join(filter(None, [scanned.cursor, requests.dump()]))
        return _result(context, stream, asset, replace(scanned, cursor=kept.store(text)))

    return changes


def _requested(
    context: dg.SensorEvaluationContext, stream: OpenStream, scanned: ScanResult, requests: Requests, runs: QueuedRuns
) -> Sequence[RunTarget]:
    """Return what is to be requested at this tick: nothing while a run of the sensor is queued."""
    now = time.time()
    try:
        failed = requests.settle(runs.newest, partial(_verdicts, stream), now)
    except LakeAssetsError as error:
        context.log.warning(f"What has failed is looked for at the next tick: {error}")
        failed = {}
    for cell, waiting in failed.items():
        again = f"it is requested again {waiting.due - now:.0f} seconds from now, if its objects still wait"
        why = "by its objects, and is requested when these change" if waiting.phase == "blocked" else f"and {again}"
        context.log.warning(f"{visible_name(cell.path)} failed {why}")
    requests.add(scanned.targets, runs.have, now)
    return () if runs.are_of(context.sensor_name) else requests.take(now)


def _verdicts(stream: OpenStream, cells: Collection[Partition]) -> dict[Partition, Verdict]:
    """Return what the lake says of cells whose runs have ended without success."""
    keys = keys_of(stream)
    partitions = {cell: keys.partitions(partition_key(cell)) for cell in cells}
    pending = failed_for_good(stream, [one for of_cell in partitions.values() for one in of_cell])
    verdicts: dict[Partition, Verdict] = {}
    for cell, of_cell in partitions.items():
        found = [pending[partition] for partition in of_cell if partition in pending]
        verdicts[cell] = "done" if not found else "blocked" if all(found) else "failed"
    return verdicts


Find = Callable[[str | None, float | None, Requests], ScanResult]
"""Finds changed partitions at a tick, as many as may wait beside others.

By the state that the tick before has left, and the time when it ended.
"""


def _by_listing(stream: OpenStream) -> Find:
    def find(state: str | None, scanned_at: float | None, requests: Requests) -> ScanResult:
        in_lake = partial(not_pending, stream)
        return scan(stream.config, stream.source, state, scanned_at=scanned_at, most=requests.room, in_lake=in_lake)

    return find


def _by_messages(stream: OpenStream, queue: Queue) -> Find:
    """Read notifications from SQS.

    Dagster stores the run requests together with the cursor, after the tick. So the cursor holds the receipts of the
    messages, and the next tick deletes them: after a lost tick all messages are still in the queue, and come again.
    """

    def find(state: str | None, _scanned_at: float | None, requests: Requests) -> ScanResult:
        cursor = QueueCursor.load(state, stream.config)
        if not requests.waits:  # or a reset of the cursor would lose what waits
            queue.delete(cursor.receipts)
            cursor.receipts = []
        messages = queue.receive() if requests.room else ()
        return classify(stream.config, messages, cursor, most=requests.room)

    return find


def interval_of(config: SensorBase, source: AnyStorage) -> int:
    """Return the seconds between two ticks: those of the config, or few where nobody pays for a tick's requests."""
    if config.interval is not None:
        return config.interval
    is_cheap = isinstance(config, SqsSensor) or isinstance(source, LocalStorage) or _is_own_server(source)
    return CHEAP_SECONDS if is_cheap else PRICED_SECONDS


def _is_own_server(source: AnyStorage) -> bool:
    """Return whether a storage is an S3 server of one's own network, by its endpoint."""
    host = urlsplit(source.endpoint or "").hostname if isinstance(source, S3Storage) else None
    if not host:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:  # a name
        return "." not in host or host.endswith(_OWN_NAMES)


def without_traceback(error: LakeAssetsError) -> LakeAssetsError:
    """Return the error without its traceback, which Dagster would show with the tick."""
    return error.with_traceback(None)


def _log(context: dg.SensorEvaluationContext, stream: OpenStream, scanned: ScanResult) -> None:
    """Log the objects that belong to no partition, and the summary if Dagster does not show it as the skip reason."""
    by_reason: dict[str, list[str]] = {}
    for unmatched in scanned.unmatched:
        by_reason.setdefault(unmatched.reason, []).append(unmatched.key)
    for reason, keys in by_reason.items():
        context.log.warning(f"below {stream.source.root}: {several(keys, NAMED_KEYS)}: {reason}")
    if scanned.unremembered:
        another = count(scanned.unremembered, "object")
        context.log.warning(f"below {stream.source.root}: another {another} in no partition")
    if scanned.targets:
        context.log.info(scanned.summary)


def _result(
    context: dg.SensorEvaluationContext, stream: OpenStream, asset: dg.AssetKey, scanned: ScanResult
) -> dg.SensorResult:
    """Return the result of a tick: the runs, the dynamic partitions that they need, and the cursor."""
    if not scanned.targets:
        return dg.SensorResult(skip_reason=dg.SkipReason(scanned.summary), cursor=scanned.cursor)
    return dg.SensorResult(
        run_requests=[run_request(asset, target) for target in scanned.targets],
        cursor=scanned.cursor,
        dynamic_partitions_requests=[
            dg.AddDynamicPartitionsRequest(name, keys)
            for name, keys in _new_keys(context.instance, stream, scanned.targets).items()
        ],
    )


def _new_keys(instance: dg.DagsterInstance, stream: OpenStream, targets: Sequence[RunTarget]) -> dict[str, list[str]]:
    cells = [cell for target in targets for cell in (target.first, target.last, *target.cells)]
    return keys_of(stream).missing(instance, cells)


def _runs(instance: dg.DagsterInstance, stream: OpenStream, targets: Sequence[RunTarget]) -> Sequence[RunTarget]:
    """Return the runs of targets: neighbours share one, and a tick requests no more than the config says."""
    order, sensor = ValueOrder(stream, instance, _new_keys(instance, stream, targets)), stream.config.sensor
    assert sensor is not None  # noqa: S101 - its tick calls this
    most = min(sensor.group_runs, stream.config.max_partitions_per_run or sensor.group_runs)
    return runs_of(targets, keys_of(stream).columns, order.position, most=most, max_runs=sensor.max_runs)


def run_request(asset: dg.AssetKey, target: RunTarget) -> dg.RunRequest:
    """Return the run of one partition, or of the range between two.

    Its run key names the partition and the state of its objects, so a repeated tick starts no second run.
    """
    first, last = partition_key(target.first), partition_key(target.last)
    return dg.RunRequest(
        run_key=f"{first if first == last else f'{first}...{last}'}:{target.state}",
        asset_selection=[asset],  # the UI shows it as the run's target, because a sensor's job has no name
        **run_range(first, last),
    )
