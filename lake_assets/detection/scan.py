"""One scan of the landing zone: what has arrived since the last one, by a cursor, within a budget of time.

Three passes. The *active* partitions, those of the last days, are listed at every scan: the folders above them (the
regions) by one request each, and each of these from the first active day on. Stretches that were *never read*, as all
of the bucket is at first, are read as far as time allows. When there are none left, a slice of the *older* partitions
is read, the next one at the next scan, sweep after sweep, so that what arrives late is found as well.
"""

import datetime as dt
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lake_assets.config.sensors import ObjectSensor
from lake_assets.config.streams import Stream
from lake_assets.detection.cursor import Cursor
from lake_assets.detection.digests import NOTHING
from lake_assets.detection.listing import Listing
from lake_assets.detection.older import changed_folder, reconcile
from lake_assets.detection.prefixes import TimePrefix
from lake_assets.detection.reading import Folder, Reader, Reading, ScanPosition, UnmatchedKey
from lake_assets.detection.run_plan import ChangedFolder, RunPlan, RunTarget
from lake_assets.errors import KeyOrderError, LakeAssetsError
from lake_assets.storage.walk import position
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.locator import PartitionLocator

LISTINGS = 16  # prefixes that are listed side by side
MOST_REMEMBERED = 500  # unmatched objects that are remembered; the others are counted
# Clocks differ, and an object bears the time at which its writing began.
_MARGIN = 3600  # seconds


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan found.

    Attributes:
        targets: the runs to ask for.
        unmatched: objects that belong to no partition and were not reported before.
        unremembered: how many such objects there are besides, too many to remember; 0 where that was reported before.
        cursor: for the next scan, once the requests are recorded.
        summary: what was scanned, one sentence.
    """

    targets: tuple[RunTarget, ...]
    unmatched: tuple[UnmatchedKey, ...]
    unremembered: int
    cursor: str
    summary: str


def scan(
    stream: Stream,
    listing: Listing,
    cursor: str | None,
    *,
    scanned_at: float | None = None,
    now: dt.datetime | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> ScanResult:
    """Find what has arrived.

    Args:
        stream: with a sensor of type `objects`.
        listing: its landing zone.
        cursor: that of the scan before; None at first, and after a reset.
        scanned_at: when the scan before was recorded, in seconds of Unix time. With it the run keys that follow a reset
            are other ones than those before, and those of a scan that is repeated the same.
        now: with time zone; the present when None.
        clock: by which the budget is kept, in seconds.

    Raises:
        StorageError: the landing zone cannot be listed. The cursor stays as it is, and nothing is lost.
    """
    now = now or dt.datetime.now(dt.UTC)
    scans = int(scanned_at or 0)
    try:
        return _Scan(stream, listing, Cursor.load(cursor, stream, scans), now, clock).done()
    except KeyOrderError:
        return _Scan(stream, listing, Cursor.load(cursor, stream, scans).in_tree_order(), now, clock).done()


class _Scan:
    def __init__(
        self, stream: Stream, listing: Listing, cursor: Cursor, now: dt.datetime, clock: Callable[[], float]
    ) -> None:
        assert isinstance(stream.sensor, ObjectSensor)  # noqa: S101 - the caller has one
        self.sensor = stream.sensor
        self.listing = listing
        self.cursor = cursor
        self.now = now
        self.time_prefix = TimePrefix.of(stream)
        self.active_from = self.time_prefix.active_from(stream, now)
        self.locator = PartitionLocator(stream, Calendar(stream, now))
        self.run_plan = RunPlan(stream.columns, self.sensor.max_runs)
        self.reader = Reader(
            listing,
            stream.files,
            self.time_prefix.depth,
            self.locator,
            clock() + self.sensor.budget,
            cursor.tree,
            clock,
        )
        self.unmatched: dict[int, UnmatchedKey] = {}
        self.active_objects = self.old_objects = 0

    def done(self) -> ScanResult:
        """Scan."""
        cursor = self.cursor
        cursor.sweep_begun = cursor.sweep_begun or self.now.timestamp()
        self._retire()
        if self.active_from is not None:
            self._scan_active(self.time_prefix.prefixes(self.listing))
        if cursor.first:
            self._read_first()
        else:
            self._read_on()
        cursor.ranges.shrink()
        targets = self.run_plan.targets(cursor.scans)
        cursor.scans += bool(targets)
        unmatched, unremembered = self._new_unmatched()
        return ScanResult(targets, unmatched, unremembered, cursor.dump(), self._summary())

    def _retire(self) -> None:
        """What was active and is no longer is one of the older ones."""
        active = self.cursor.active
        for path in [path for path in active if not self._is_active(path)]:
            self.cursor.ranges.add(path, active.pop(path))

    def _is_active(self, path: str) -> bool:
        return self.time_prefix.is_active(path, self.active_from)

    def _scan_active(self, prefixes: list[str]) -> None:
        cursor = self.cursor
        for prefix in prefixes:
            # The first reading of the whole bucket comes by, if it has not yet.
            at = position(prefix, tree=cursor.tree)
            is_ahead = any(not p.prefix and position(p.after, tree=cursor.tree) <= at for p in cursor.first)
            if prefix not in cursor.prefixes and not is_ahead:
                cursor.first.append(ScanPosition(prefix))
        cursor.prefixes = set(prefixes)
        turn = int(self.now.timestamp()) % max(len(prefixes), 1)  # that none is always last, should time run out
        with ThreadPoolExecutor(LISTINGS) as pool:
            readings = list(pool.map(self._read_prefix, [*prefixes[turn:], *prefixes[:turn]]))
        cursor.paused = {reading.start.prefix: reading.left for reading in readings if reading.left is not None}
        seen = {folder.path: folder for reading in readings for folder in reading.folders}
        for folder in seen.values():
            self._reconcile_active(folder)
        covered = {reading.start.prefix: reading for reading in readings}
        for path in sorted(cursor.active.keys() - seen.keys()):
            reading = covered.get(self.time_prefix.prefix_of(path))
            if reading is None or reading.covers(path):
                self._forget_active(path)
        for reading in readings:
            self.active_objects += reading.objects
            self._note_unmatched(reading)

    def _read_prefix(self, prefix: str) -> Reading:
        return self.reader.read(self.cursor.paused.get(prefix) or ScanPosition(prefix, f"{prefix}{self.active_from}"))

    def _reconcile_active(self, folder: Folder) -> None:
        cursor = self.cursor
        before = cursor.active.get(folder.path)
        range_ = cursor.ranges.of(folder.path)
        if before is None and range_ is not None and range_.folders == 1:
            # It was one of the older ones, until `lookback` was raised.
            cursor.ranges.remove(range_)
            before = range_.digest
        if before == folder.digest or self.run_plan.take([changed_folder(folder)]):
            cursor.active[folder.path] = folder.digest
        elif before is not None:
            cursor.active[folder.path] = before

    def _forget_active(self, path: str) -> None:
        """All objects of an active folder are gone: the stream's `on_empty` says what the run makes of it."""
        try:
            partition = self.locator.of(f"{path}object")
        except LakeAssetsError:  # the config has changed: it is no partition any more
            del self.cursor.active[path]
            return
        if self.run_plan.take([ChangedFolder(path, NOTHING, (partition,))]):
            del self.cursor.active[path]

    def _read_first(self) -> None:
        cursor = self.cursor
        while cursor.first:
            left = self._reconcile(self._read(cursor.first[0]))
            if left is not None:
                cursor.first[0] = left
                return
            del cursor.first[0]
            if self.reader.is_late():
                break
        if not cursor.first and not cursor.sweeps:
            self._end_sweep()

    def _read_on(self) -> None:
        left = self._reconcile(self._read(self.cursor.sweep, most=self.sensor.scan))
        if left is None:
            self._end_sweep()
        self.cursor.sweep = left or ScanPosition("")

    def _end_sweep(self) -> None:
        cursor = self.cursor
        # What was not met in a whole sweep is gone, and makes room.
        cursor.unmatched = {number: sweep for number, sweep in cursor.unmatched.items() if sweep == cursor.sweeps}
        cursor.sweeps += 1
        cursor.since, cursor.sweep_begun = cursor.sweep_begun, self.now.timestamp()

    def _read(self, start: ScanPosition, most: int | None = None) -> Reading:
        of = self.cursor.ranges.of
        reading = self.reader.read(
            start,
            since=self.since,
            most=most,
            may_stop=lambda before, after: of(after) is None or of(before) is not of(after),
        )
        self.old_objects += reading.objects
        self._note_unmatched(reading)
        return reading

    @property
    def since(self) -> float:
        """Objects that are older than this had landed when the older partitions were read before."""
        return self.cursor.since - _MARGIN

    def _reconcile(self, reading: Reading) -> ScanPosition | None:
        return reconcile(
            reading,
            self.cursor.ranges,
            self.run_plan,
            self.since,
            self._is_active,
        )

    def _note_unmatched(self, reading: Reading) -> None:
        cursor = self.cursor
        found = {item.hash: item for item in reading.unmatched}
        cursor.unmatched |= {number: cursor.sweeps for number in found if number in cursor.unmatched}
        self.unmatched |= found

    def _new_unmatched(self) -> tuple[tuple[UnmatchedKey, ...], int]:
        """Those that were not reported before, as many as can be remembered, and how many more."""
        cursor = self.cursor
        new = [number for number in self.unmatched if number not in cursor.unmatched]
        reported = new[: MOST_REMEMBERED - len(cursor.unmatched)]
        cursor.unmatched |= dict.fromkeys(reported, cursor.sweeps)
        if len(cursor.unmatched) < MOST_REMEMBERED:
            cursor.unremembered = 0
        unremembered = len(new) - len(reported)
        is_news = unremembered > cursor.unremembered  # a tick sees a part of the bucket, and not always the same number
        cursor.unremembered = max(cursor.unremembered, unremembered)
        return tuple(self.unmatched[number] for number in reported), unremembered if is_news else 0

    def _summary(self) -> str:
        cursor = self.cursor
        parts = []
        if self.active_from is not None:
            parts.append(f"{self.active_objects:,} objects of the partitions from {self.active_from} on")
        older = "objects" if self.active_from is None else "older objects"
        if cursor.first:
            parts.append(f"{self.old_objects:,} {older} of those that were never read, up to {cursor.first[0].after!r}")
        else:
            parts.append(f"{self.old_objects:,} {older} (round {cursor.sweeps + 1})")
        text = f"Looked at {' and '.join(parts)}: {len(self.run_plan):,} partitions have changed."
        return f"{text} {len(self.unmatched):,} objects belong to no partition." if self.unmatched else text
