"""What of the landing zone the lake lacks, by the ledger: pending partitions, their age, and next tries of failed ones.

The other source of a sensor is `detection`: what has landed since the last scan, whatever the lake has.
"""

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from lake_assets.base.errors import failure_may_pass
from lake_assets.base.texts import hash_of
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import LedgerFilter, last_runs, read_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream, list_scope

FIRST, LONGEST = 60.0, 3600.0  # seconds between a failed run and the next one
LOOKED = 100  # cells or partitions whose objects are listed at once, to see whether the lake has them
BUDGET_SECONDS = 20.0  # of the listings for one tick of a schedule
_SINCE = dt.timedelta(days=30)  # before now, in which a failed run is tried again
_ROWS = 10_000  # failed rows of the ledger that are read

PartitionVerdict = Literal["done", "failed", "blocked"]
"""What the lake says of a partition or cell: it has the objects; a run failed by what passes, or never ran; or by the
objects that are there now."""


def is_pending(stream: OpenStream, landed: Manifest, last: LastRuns | None) -> bool:
    """Return whether a refresh would change the partition; none reads the objects of a held partition.

    A partition whose objects have all vanished is not pending: `on_empty` decides on it. It is pending if its folder
    still has objects, none of which may hold its rows, and the lake has rows of it. `last` has its newest runs, with
    holds; None if it was never run.
    """
    if last is None or not (landed.objects or landed.folder):
        return bool(landed.objects)
    if not landed.objects and (last.commit is None or last.rows == 0):
        return False
    return not last.is_held and not stream.has_read(landed, last.fingerprint)


def failed_by_objects(stream: OpenStream, landed: Manifest, last: LastRuns | None) -> bool:
    """Return whether the newest run of a partition failed by the objects that are there now."""
    if last is None or last.status != "failed" or failure_may_pass(last.newest.error or ""):
        return False
    return stream.has_read(landed, last.newest.source_fingerprint)


@dataclass(frozen=True)
class LandingScan:
    """A listing of the landing zone, or of some partitions, beside the newest runs of these."""

    stream: OpenStream
    listed: Mapping[Partition, Manifest]  # also those of the partitions that were asked for and have no objects
    runs: Mapping[str, LastRuns]  # by the partitions' paths
    left_out: LeftOut | None = None  # the objects that no refresh reads; None if only some folders were listed

    @cached_property
    def landed(self) -> dict[Partition, Manifest]:
        """Each partition that has objects."""
        return {partition: manifest for partition, manifest in self.listed.items() if manifest.objects}

    @cached_property
    def pending(self) -> dict[Partition, Manifest]:
        """The partitions that a refresh would change."""
        return {p: m for p, m in self.listed.items() if is_pending(self.stream, m, self.last(p))}

    def last(self, partition: Partition) -> LastRuns | None:
        """Return the newest runs of a partition; None if it was never run."""
        return self.runs.get(partition.path)

    def verdict(self, partition: Partition) -> PartitionVerdict:
        """Return what the lake says of a listed partition."""
        if partition not in self.pending:
            return "done"
        return "blocked" if failed_by_objects(self.stream, self.listed[partition], self.last(partition)) else "failed"


def scan_landing(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> LandingScan:
    """List some partitions one by one, or the whole landing zone at once, and read the ledger of just these."""
    listed, left_out = list_scope(stream, partitions)
    return LandingScan(stream, listed, _last_runs(stream, None if partitions is None else listed), left_out)


def not_pending(stream: OpenStream, landed: Mapping[Partition, Manifest]) -> set[Partition]:
    """Return the partitions of a listing that no refresh needs to read."""
    return landed.keys() - LandingScan(stream, landed, _last_runs(stream, landed)).pending.keys()


def _last_runs(stream: OpenStream, partitions: Iterable[Partition] | None) -> Mapping[str, LastRuns]:
    with stream.lake.open_if_exists() as lake:
        return {} if lake is None else last_runs(lake, stream.table, None if partitions is None else list(partitions))


def next_tries(stream: OpenStream, lake: LakeSession, now: dt.datetime) -> dict[Partition, dt.datetime]:
    """Return the partitions whose newest run failed, and when the next one is due, which may be past.

    The pause before it is as of `pause_after`, for the runs that failed since the partition's last success.
    """
    failed = defaultdict(list)
    for row in read_ledger(lake, LedgerFilter(stream.names, statuses=("failed",), since=now - _SINCE), _ROWS):
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


def pause_after(tries: int) -> float:
    """Return the seconds between the last of so many failed runs and the next one."""
    return min(FIRST * (1 << min(tries - 1, 10)), LONGEST)


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
    late: list[Partition] = []
    for begin in range(0, len(due), LOOKED):
        if len(late) >= most or time.monotonic() > until:
            break
        scan = scan_landing(stream, due[begin : begin + LOOKED])
        late += [partition for partition in scan.pending if scan.verdict(partition) == "failed"]
    return late[:most]


@dataclass(frozen=True, slots=True)
class Lag:
    """What a refresh of a stream would bring into the lake, and since when it could.

    Partitions that the config does not have, and held ones, do not count: no refresh reads them.
    """

    stream: str
    read_at: dt.datetime
    pending: tuple[Partition, ...]  # partitions whose landed objects are not those in the lake
    since: dt.datetime | None  # when the oldest object landed that came after the last commit of its partition
    undated: int  # pending partitions without such an object: objects vanished, or files kept an older time
    newest_commit: dt.datetime | None  # of any partition that was listed

    @property
    def seconds(self) -> float:
        """The age of the oldest such object; zero if there is none."""
        return 0.0 if self.since is None else max(0.0, (self.read_at - self.since).total_seconds())


def lag_of(stream: OpenStream, partitions: Iterable[Partition] | None = None, now: dt.datetime | None = None) -> Lag:
    """Return the lag of a stream's partitions; of the whole landing zone when None.

    Ages are counted from `now`, with a time zone; the present when None.
    """
    now = now or dt.datetime.now(dt.UTC)
    return lag_by(scan_landing(stream, partitions), now)


def lag_by(scan: LandingScan, now: dt.datetime) -> Lag:
    """Return the lag of a stream by a listing that was made."""
    calendar = Calendar(scan.stream.config, now)
    pending = {
        partition: _since(manifest, scan.last(partition))
        for partition, manifest in scan.pending.items()
        if calendar.outside(partition) is None
    }
    times = [since for since in pending.values() if since is not None]
    commits = [last.committed_at for last in scan.runs.values() if last.committed_at is not None]
    return Lag(
        scan.stream.name,
        now,
        tuple(pending),
        min(times, default=None),
        len(pending) - len(times),
        max(commits, default=None),
    )


def _since(manifest: Manifest, last: LastRuns | None) -> dt.datetime | None:
    committed = None if last is None else last.committed_at
    for objects in (manifest.objects, manifest.folder.objects if manifest.folder else ()):
        times = [obj.last_modified for obj in objects]
        if new := [time for time in times if committed is None or time > committed]:
            return min(new)
    return None  # rows may have left the partition with another object of its folder, but objects kept an older time
