"""A sensor for each stream that has one, by listings or messages: it requests a run where objects have landed."""

import datetime as dt
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from ipaddress import ip_address
from itertools import accumulate
from urllib.parse import urlsplit

import dagster as dg

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import count, hash_of, several
from lake_assets.config.layout.partition import Partition
from lake_assets.config.sections import SensorBase, SqsSensor
from lake_assets.config.storages import AnyStorage
from lake_assets.orchestration.dagster_private import delete_texts, store_text, stored_text
from lake_assets.orchestration.partition_keys import StreamKeys, ValueOrder, partition_key
from lake_assets.orchestration.queued_runs import QueuedRuns
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.orchestration.stream_schedules import run_request
from lake_assets.streams.detection.notifications import Notifications, QueueCursor
from lake_assets.streams.detection.requests import RequestedCells
from lake_assets.streams.detection.run_plan import RunTarget, ScanResult, runs_of
from lake_assets.streams.detection.scan import ScanOptions, scan
from lake_assets.streams.pending import PartitionVerdict, not_pending, scan_landing
from lake_assets.streams.stream import OpenStream

NAMED_KEYS = 10
MAKE_SECONDS = 20.0  # in which Dagster makes the runs of a tick: it plans each partition
CHEAP_SECONDS = 5  # between two ticks whose requests cost little; the daemon has no shorter interval
PRICED_SECONDS = 30  # between two of others
_OWN_NAMES = (".internal", ".lan", ".local", ".localhost", ".svc")  # endings of names in a network of one's own
_REFERENCE = re.compile(r"state (([0-9a-f]{12})-([0-9a-f]{8})-[0-9a-f]{16})$")
_PLACES = "lake_assets/"  # the keys in Dagster's database begin so
_ABANDONED = 90 * 86_400_000  # milliseconds, after which a sensor that begins deletes the states that others have left


def stream_sensor(stream: OpenStream, asset: dg.AssetKey) -> dg.SensorDefinition | None:
    """Return the sensor `<stream>_sensor` of the config's type; None if the stream has none."""
    config = stream.config.sensor
    if config is None:
        return None
    if isinstance(config, SqsSensor):
        find, reason = _find_by_messages(stream, Queue(config)), f"for which {config.queue_url} has a notification"
    else:
        find, reason = _find_by_listing(stream), f"in which objects have landed below {stream.source.root}"

    @dg.sensor(
        name=f"{stream.name}_sensor",
        # Not as `target`: of that Dagster makes a job for each sensor, each by a look at every asset.
        asset_selection=dg.AssetSelection.assets(asset),
        # The daemon looks about every five seconds, and leaves a sensor out whose minimum is not over by some
        # milliseconds: with a minimum of 5 most ticks would be 10 seconds apart.
        minimum_interval_seconds=interval_of(config, stream.config.source) - 1,
        default_status=dg.DefaultSensorStatus(config.status.upper()),
        description=f"Requests a run of each partition {reason}.",
    )
    def changes(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        runs = QueuedRuns(stream, asset, context.instance)
        kept = KeptState(context.instance, context.cursor)
        state, _, requested = (kept.text or "").partition("\n")
        requests = RequestedCells.load(requested, StreamKeys(stream).columns)
        until = time.monotonic() + config.budget
        try:
            scanned = find(state or None, requests, until)
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        _settle(context, stream, requests, runs, until)
        now = time.time()
        requests.add(scanned.targets, runs.have, now)
        # A run that is queued lists later, so what has changed shares the next one.
        waiting = () if runs.are_of(context.sensor_name) else requests.take(now)
        most = runs.makes(context.sensor_name, MAKE_SECONDS) if waiting else 0
        targets = _runs(context.instance, stream, waiting, most)
        requests.note(targets, now)
        summary = f"{scanned.summary} {requests.text(now)}".rstrip()
        _log(context, stream, scanned)
        cursor = kept.store("\n".join(filter(None, [scanned.cursor, requests.dump()])))
        if not targets:
            return dg.SensorResult(skip_reason=summary, cursor=cursor)
        context.log.info(summary)
        at = dt.datetime.fromtimestamp(now, dt.UTC).isoformat(timespec="milliseconds")
        return dg.SensorResult(
            # The UI shows the asset as the run's target, because a sensor's job has no name.
            run_requests=[run_request(target, at, [asset]) for target in targets],
            cursor=cursor,
            dynamic_partitions_requests=[
                dg.AddDynamicPartitionsRequest(name, keys)
                for name, keys in _new_keys(context.instance, stream, targets).items()
            ],
        )

    return changes


def _settle(
    context: dg.SensorEvaluationContext, stream: OpenStream, requests: RequestedCells, runs: QueuedRuns, until: float
) -> None:
    """Forget what the lake has of what was requested, and log what has failed since the last tick."""
    now = time.time()
    try:
        failed = requests.settle(runs.newest, partial(_verdicts, stream), now, lambda: time.monotonic() > until)
    except LakeAssetsError as error:
        context.log.warning(f"What has failed is looked for at the next tick: {error}")
        return
    blocked = "failed by its objects, and is requested when these change"
    later = "failed, and is requested again {:.0f} seconds from now, if its objects still wait"
    of_cells = ((cell.path, state.phase == "blocked", state.due - now) for cell, state in failed.items())
    _warn(context, "", ((path, blocked if is_blocked else later.format(due)) for path, is_blocked, due in of_cells))


def _verdicts(stream: OpenStream, cells: Collection[Partition]) -> dict[Partition, PartitionVerdict]:
    """Return what the lake says of cells whose runs have ended without success."""
    keys = StreamKeys(stream)
    partitions = {cell: keys.partitions(partition_key(cell)) for cell in cells}
    scan = scan_landing(stream, [partition for of_cell in partitions.values() for partition in of_cell])
    verdicts: dict[Partition, PartitionVerdict] = {}
    for cell, of_cell in partitions.items():
        of_partitions = {scan.verdict(partition) for partition in of_cell} - {"done"}
        verdicts[cell] = "failed" if "failed" in of_partitions else "blocked" if of_partitions else "done"
    return verdicts


FindChanges = Callable[[str | None, RequestedCells, float], ScanResult]
"""Finds changed partitions by the state of the tick before: as many as may wait beside the requests, in time.

The time is of the monotonic clock.
"""


def _find_by_listing(stream: OpenStream) -> FindChanges:
    def find(state: str | None, requests: RequestedCells, _until: float) -> ScanResult:
        return scan(stream.config, stream.source, state, ScanOptions(requests.room, partial(not_pending, stream)))

    return find


def _find_by_messages(stream: OpenStream, queue: Queue) -> FindChanges:
    """Read notifications from SQS.

    Dagster stores the run requests together with the cursor, after the tick. So the cursor holds the receipts of the
    messages, and the next tick deletes them: after a lost tick all messages are still in the queue, and come again.
    """

    def find(state: str | None, requests: RequestedCells, until: float) -> ScanResult:
        cursor = QueueCursor.load(state, stream.config)
        if not requests.waits:  # or a reset of the cursor would lose what waits
            cursor.receipts = [*queue.delete(cursor.receipts, until)]
        messages = queue.receive(until) if requests.room else ()
        return Notifications(stream.config, cursor, requests.room).classify(messages)

    return find


def interval_of(config: SensorBase, source: AnyStorage) -> int:
    """Return the seconds between two ticks: those of the config, or few where nobody pays for a tick's requests."""
    if config.interval is not None:
        return config.interval
    is_cheap = isinstance(config, SqsSensor) or source.is_local or _is_own_server(source)
    return CHEAP_SECONDS if is_cheap else PRICED_SECONDS


def _is_own_server(source: AnyStorage) -> bool:
    """Return whether a storage is a server of one's own network."""
    host = urlsplit(source.server or "").hostname
    if not host:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:  # a name
        return "." not in host or host.endswith(_OWN_NAMES)


def without_traceback(error: LakeAssetsError) -> LakeAssetsError:
    """Return the error without its traceback, which Dagster would show with the tick."""
    return error.with_traceback(None)


def _warn(context: dg.SensorEvaluationContext, begin: str, named: Iterable[tuple[str, str]]) -> None:
    """Log a warning for each reason, with the first of its names."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in named:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        context.log.warning(f"{begin}{several(names, NAMED_KEYS)}: {reason}")


def _log(context: dg.SensorEvaluationContext, stream: OpenStream, scanned: ScanResult) -> None:
    _warn(context, f"below {stream.source.root}: ", ((key.key, key.reason) for key in scanned.unmatched))
    if scanned.unremembered:
        another = count(scanned.unremembered, "object")
        context.log.warning(f"below {stream.source.root}: another {another} in no partition")


def _new_keys(instance: dg.DagsterInstance, stream: OpenStream, targets: Sequence[RunTarget]) -> dict[str, list[str]]:
    cells = [cell for target in targets for cell in (target.first, target.last, *target.cells)]
    return StreamKeys(stream).missing(instance, cells)


def _runs(
    instance: dg.DagsterInstance, stream: OpenStream, targets: Sequence[RunTarget], partitions: int
) -> Sequence[RunTarget]:
    """Return the runs of targets: neighbours share one, and a tick requests no more than the config says.

    They have no more than so many partitions together, but there is one.
    """
    order, sensor = ValueOrder(stream, instance, _new_keys(instance, stream, targets)), stream.config.sensor
    assert sensor is not None  # noqa: S101 - its tick calls this
    most = min(sensor.group_runs, stream.config.max_partitions_per_run or sensor.group_runs, partitions)
    runs = runs_of(targets, order.position, most=most, max_runs=sensor.max_runs)
    totals = accumulate(run.partitions for run in runs)
    return [
        run for number, (run, total) in enumerate(zip(runs, totals, strict=True)) if total <= partitions or not number
    ]


class KeptState:
    """The state of a sensor in Dagster's database, so that the cursor, which the UI shows, is one short line.

    `text` is the state that the cursor of the tick before names, or None; a cursor of an earlier version is the state.

    The state is stored before Dagster stores the cursor with the run requests of the tick. Each tick has a place of its
    own, which its cursor names: the time, the sensor, and a hash of the state. So a lost tick leaves the state of the
    tick before, and a tick that the daemon has given up replaces no state when it ends. A tick deletes the states that
    are older than the one that it began with. If a state is missing, the sensor begins again, as after a reset of its
    cursor, which is safe.
    """

    def __init__(self, instance: dg.DagsterInstance, cursor: str | None) -> None:
        self._instance = instance
        reference = _REFERENCE.search(cursor or "")
        place, time, self._id = reference.groups() if reference else ("", "0", secrets.token_hex(4))
        self._time = int(time, 16)
        self.text = stored_text(instance, f"{_PLACES}{place}") if reference else cursor

    def store(self, text: str) -> str:
        """Store the state of a tick, and return its cursor: the state itself if Dagster's database does not take it."""
        now = dt.datetime.now(dt.UTC)
        time = max(int(now.timestamp() * 1000), self._time + 1)
        place = f"{time:012x}-{self._id}-{hash_of(text, bits=64):016x}"
        if not store_text(self._instance, f"{_PLACES}{place}", text):
            return text
        if self._time:
            delete_texts(self._instance, f"{_PLACES}%-{self._id}-%", f"{_PLACES}{self._time:012x}")
        else:
            delete_texts(self._instance, f"{_PLACES}%", f"{_PLACES}{time - _ABANDONED:012x}")
        return f"{now:%Y-%m-%d %H:%M:%S} UTC, state {place}"
