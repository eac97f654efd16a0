"""Pending partitions: those whose landed objects are not the ones that a run read last; and their age, the lag."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lake_assets.config.layout.partition import Partition
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import last_runs
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.landing_zone import list_scope
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.stream import OpenStream


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


def pending_in(
    stream: OpenStream, landed: Mapping[Partition, Manifest], runs: Mapping[str, LastRuns]
) -> dict[Partition, Manifest]:
    """Return the pending partitions of a listing, with their objects; the newest runs are by the partitions' paths."""
    return {p: manifest for p, manifest in landed.items() if is_pending(stream, manifest, runs.get(p.path))}


def not_pending(stream: OpenStream, landed: Mapping[Partition, Manifest]) -> set[Partition]:
    """Return the partitions of a listing that no refresh needs to read, by the ledger of just these."""
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table, list(landed))
    return landed.keys() - pending_in(stream, landed, runs).keys()


@dataclass(frozen=True, slots=True)
class LandingScan:
    """The partitions and objects that a listing of the landing zone found."""

    landed: Mapping[Partition, Manifest]  # each partition that has objects
    pending: Mapping[Partition, Manifest]  # those that a refresh would change
    left_out: LeftOut | None  # the objects that no refresh reads; None if only some folders were listed


def scan_landing(stream: OpenStream, partitions: Iterable[Partition] | None = None) -> LandingScan:
    """List some partitions one by one, or the whole landing zone at once, and find the pending partitions."""
    listed, left_out = list_scope(stream, partitions)
    landed = {partition: manifest for partition, manifest in listed.items() if manifest.objects}
    with stream.lake.open_if_exists() as lake:
        # For the whole landing zone the ledger is read at once.
        wanted = None if partitions is None else list(listed)
        runs = {} if lake is None else last_runs(lake, stream.table, wanted)
    return LandingScan(landed, pending_in(stream, listed, runs), left_out)


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
    """Return the lag of a stream, by a listing of its landing zone and a query of its ledger.

    The whole landing zone is listed when `partitions` is None. Ages are counted from `now`, with a time zone; the
    present when None.
    """
    now = now or dt.datetime.now(dt.UTC)
    landed, _ = list_scope(stream, partitions)
    wanted = None if partitions is None else list(landed)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table, wanted)
    return lag_by(stream, landed, runs, now)


def lag_by(
    stream: OpenStream, landed: Mapping[Partition, Manifest], runs: Mapping[str, LastRuns], now: dt.datetime
) -> Lag:
    """Return the lag of a stream, by the landed objects and the newest runs of its partitions, these by path."""
    calendar = Calendar(stream.config, now)
    pending = {
        partition: _since(manifest, runs.get(partition.path))
        for partition, manifest in pending_in(stream, landed, runs).items()
        if calendar.outside(partition) is None
    }
    times = [since for since in pending.values() if since is not None]
    commits = [last.committed_at for last in runs.values() if last.committed_at is not None]
    return Lag(
        stream.name,
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
