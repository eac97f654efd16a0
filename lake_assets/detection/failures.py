"""Failed partitions whose objects still wait: which may succeed as they are, and when they are tried again."""

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Iterable

from lake_assets.detection.digests import hash_of
from lake_assets.detection.requests import LOOKED, pause_after
from lake_assets.errors import may_pass
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import last_runs, read_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import list_scope
from lake_assets.streams.pending import pending_in
from lake_assets.streams.stream import OpenStream

_SINCE = dt.timedelta(days=30)  # before now, in which a failed run is tried again
BUDGET_SECONDS = 20.0  # of the listings for one tick of a schedule
_ROWS = 10_000  # failed rows of the ledger that are read


def failed_for_good(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, bool]:
    """Return those of some partitions that are pending, and whether a run failed by the objects that are there now."""
    listed, _ = list_scope(stream, partitions)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table, list(listed))
    pending = pending_in(stream, listed, runs)
    return {p: is_of_objects(stream, manifest, runs.get(p.path)) for p, manifest in pending.items()}


def is_of_objects(stream: OpenStream, manifest: Manifest, last: LastRuns | None) -> bool:
    """Return whether the newest run of a partition failed by the objects that are there now."""
    if last is None or last.status != "failed" or may_pass(last.newest.error or ""):
        return False
    return stream.has_read(manifest, last.newest.source_fingerprint)


def next_tries(stream: OpenStream, lake: LakeSession, now: dt.datetime) -> dict[Partition, dt.datetime]:
    """Return the partitions whose newest run failed, and when the next one is due, which may be past.

    The pause before it is as of `pause_after`, for the runs that failed since the partition's last success.
    """
    failed = defaultdict(list)
    for row in read_ledger(lake, stream.names, None, _ROWS, ("failed",), since=now - _SINCE):
        failed[row.load_partition].append(row)
    of_partitions = stream.config.by_partition(failed)
    runs = last_runs(lake, stream.table, list(of_partitions)) if of_partitions else {}
    tries = {}
    for partition, rows in of_partitions.items():
        last = runs.get(partition.path)
        if last is not None and last.status == "failed":
            since = None if last.source is None else last.source.moment
            number = len({row.run_id for row in rows if since is None or row.moment > since})
            tries[partition] = last.newest.moment + dt.timedelta(seconds=pause_after(number))
    return tries


def due_again(stream: OpenStream, now: dt.datetime, most: int) -> list[Partition]:
    """Return the pending partitions that failed by what passes, and whose next try is due by now, up to a number.

    Their objects are listed, for `BUDGET_SECONDS` at most. If that is too short for all, each call begins elsewhere.
    """
    until = time.monotonic() + BUDGET_SECONDS
    calendar = Calendar(stream.config, now)
    with stream.lake.open_if_exists() as lake:
        tries = {} if lake is None else next_tries(stream, lake, now)
    due = [partition for partition, at in tries.items() if at <= now and calendar.outside(partition) is None]
    turn = hash_of(now) % len(due) if due else 0
    due = due[turn:] + due[:turn]
    again: list[Partition] = []
    for begin in range(0, len(due), LOOKED):
        if len(again) >= most or time.monotonic() > until:
            break
        pending = failed_for_good(stream, due[begin : begin + LOOKED])
        again += [partition for partition, for_good in pending.items() if not for_good]
    return again[:most]
