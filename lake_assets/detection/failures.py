"""Failed partitions whose objects still wait: which may succeed as they are, and when they are tried again."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable

from lake_assets.detection.requests import pause_after
from lake_assets.errors import may_pass
from lake_assets.lake.ledger.read import last_runs, read_ledger
from lake_assets.layout.partition import Partition
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import list_scope
from lake_assets.streams.pending import pending_in
from lake_assets.streams.stream import OpenStream

_SINCE = dt.timedelta(days=30)  # before now, in which a failed run is tried again
_ROWS = 10_000  # failed rows of the ledger that are read


def failed_for_good(stream: OpenStream, partitions: Iterable[Partition]) -> dict[Partition, bool]:
    """Return those of some partitions that are pending, and whether a run failed by the objects that are there now."""
    listed, _ = list_scope(stream, partitions)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table, list(listed))
    found = {}
    for partition, manifest in pending_in(stream, listed, runs).items():
        newest = runs[partition.path].newest if partition.path in runs else None
        is_of_run = newest is not None and newest.status == "failed" and not may_pass(newest.error or "")
        found[partition] = bool(newest and is_of_run and stream.has_read(manifest, newest.source_fingerprint))
    return found


def due_again(stream: OpenStream, now: dt.datetime) -> list[Partition]:
    """Return the pending partitions that failed by what passes, and whose next try is due by now.

    The pause before it is as of `pause_after`, for the runs that failed since the partition's last success.
    """
    calendar = Calendar(stream.config, now)
    with stream.lake.open_if_exists() as lake:
        rows = [] if lake is None else read_ledger(lake, stream.name, None, _ROWS, ("failed",), since=now - _SINCE)
        failed = defaultdict(list)
        for row in rows:
            failed[row.load_partition].append(row)
        partitions = [p for p in stream.config.by_partition(failed) if calendar.outside(p) is None]
        runs = last_runs(lake, stream.table, partitions) if lake is not None and partitions else {}
    due = []
    for partition in partitions:
        last = runs.get(partition.path)
        if last is None or last.status != "failed":
            continue
        since = None if last.source is None else last.source.moment
        tries = len({row.run_id for row in failed[partition.path] if since is None or row.moment > since})
        if last.newest.moment + dt.timedelta(seconds=pause_after(tries)) <= now:
            due.append(partition)
    return [partition for partition, for_good in failed_for_good(stream, due).items() if not for_good] if due else []
