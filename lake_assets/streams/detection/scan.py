"""One scan of the landing zone: it finds what has landed since the scan before, by a cursor, within a time budget.

A scan has three passes. It lists the *active* partitions, those of the last days, every time: each folder above them (a
region) by one request, from the first active day on. It reads key ranges that were *never read*, at first the whole
bucket, as far as time allows. After these it reads a slice of the *older* partitions, the next slice at the next scan,
sweep after sweep, so that late objects are found.
"""

import datetime as dt
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from lake_assets.base.errors import KeyOrderError, LakeAssetsError
from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition
from lake_assets.config.sections import ObjectSensor
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.overlapping import listing_position
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.detection.cursor import Cursor
from lake_assets.streams.detection.prefixes import TimePrefix
from lake_assets.streams.detection.reading import (
    DigestRange,
    DigestRanges,
    Listing,
    Reader,
    Reading,
    ScannedFolder,
    ScanPosition,
    UnmatchedKey,
    total_digest,
)
from lake_assets.streams.detection.run_plan import MOST_CHANGED, RunPlan, ScanResult
from lake_assets.streams.key_cells import Cells
from lake_assets.streams.left_out import LeftOutClass, left_out_text, refuse_tables
from lake_assets.streams.locator import PartitionLocator, folder_prefixes

_LISTINGS = 16  # prefixes that are listed in parallel
MOST_REMEMBERED = 500  # unmatched objects in the cursor; further ones are counted

InLake = Callable[[Mapping[Partition, Manifest]], Collection[Partition]]
"""Which partitions need no run, of some with their landed objects: the lake has these, or no refresh reads them."""

_MARGIN = 3600  # seconds: clocks differ, and the time of an object is that at which its writing began


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How much a scan may find, what of it the lake has, and what time it is."""

    most: int = MOST_CHANGED  # as of `RunPlan`
    # Asked until the whole landing zone has been read once, as there is no scan before to compare with
    in_lake: InLake = lambda _: ()
    now: dt.datetime = field(default_factory=partial(dt.datetime.now, dt.UTC))
    clock: Callable[[], float] = time.monotonic  # of the time budget, in seconds


def scan(stream: StreamConfig, listing: Listing, cursor: str | None, options: ScanOptions | None = None) -> ScanResult:
    """Find the partitions whose objects have changed since the scan before; after an error the cursor is unchanged.

    `cursor` is of the scan before; None at first, and after a reset.
    """
    options = options or ScanOptions()
    begun = partial(Cursor.load, cursor, stream)  # a scan changes the one that it gets
    try:
        return _Scan(stream, listing, begun(), options).run()
    except KeyOrderError:
        return _Scan(stream, listing, begun().in_tree_order(), options).run()


class _Scan:
    def __init__(self, stream: StreamConfig, listing: Listing, cursor: Cursor, options: ScanOptions) -> None:
        assert isinstance(stream.sensor, ObjectSensor)  # noqa: S101 - the caller has one
        self.sensor = stream.sensor
        self.is_emptied = stream.empties_source
        self.root = stream.source.root
        self.listing = listing
        self.cursor = cursor
        self.now = options.now
        self.find_in_lake = options.in_lake
        self.time_prefix = TimePrefix.of(stream, self.now)
        self.locator = PartitionLocator(stream, Calendar(stream, self.now))
        self.cells = Cells(stream)
        self.run_plan = RunPlan(options.most, self.cells.noun)
        self.reader = Reader(
            listing,
            self.time_prefix.depth,
            self.locator,
            options.clock() + self.sensor.budget,
            cursor.tree,
            keeps=not cursor.sweeps,
            clock=options.clock,
        )
        self.in_lake: set[Partition] = set()  # partitions that need no run
        self.unmatched: dict[int, UnmatchedKey] = {}
        self.left_out: dict[str, LeftOutClass] = {}
        self.active_objects = self.old_objects = 0

    def run(self) -> ScanResult:
        """Scan, within the budget of the sensor."""
        cursor = self.cursor
        cursor.sweep_begun = cursor.sweep_begun or self.now.timestamp()
        self._retire()
        if self.time_prefix.active_from is not None:
            self._scan_active(self.time_prefix.prefixes(self.listing))
        if cursor.first:
            self._read_first()
        else:
            self._read_older()
        cursor.ranges.shrink()
        unmatched, unremembered = self._new_unmatched()
        return ScanResult(self.run_plan.targets, unmatched, cursor.dump(), self._summary(), unremembered)

    def _retire(self) -> None:
        """Move folders that are no longer active to the older ones."""
        active = self.cursor.active
        for path in [path for path in active if not self.time_prefix.is_active(path)]:
            self.cursor.ranges.add(path, active.pop(path))

    def _scan_active(self, prefixes: list[str]) -> None:
        cursor = self.cursor
        for prefix in prefixes:
            # A prefix is new unless the first reading of the whole bucket has yet to reach it.
            at = listing_position(prefix, tree=cursor.tree)
            is_ahead = any(not p.prefix and listing_position(p.after, tree=cursor.tree) <= at for p in cursor.first)
            if prefix not in cursor.prefixes and not is_ahead:
                cursor.first.append(ScanPosition(prefix))
        cursor.prefixes = set(prefixes)
        turn = int(self.now.timestamp()) % max(len(prefixes), 1)  # rotates the order, in case time runs out
        with ThreadPoolExecutor(_LISTINGS) as pool:
            readings = list(pool.map(self._read_prefix, [*prefixes[turn:], *prefixes[:turn]]))
        cursor.paused = {reading.start.prefix: reading.rest for reading in readings if reading.rest is not None}
        folders = {folder.path: folder for reading in readings for folder in reading.folders}
        self._compare(folders.values(), readings)
        for folder in folders.values():
            self._reconcile_active(folder)
        covered = {reading.start.prefix: reading for reading in readings}
        for path in sorted(cursor.active.keys() - folders.keys()):
            reading = covered.get(self.time_prefix.prefix_of(path))
            if reading is None or reading.covers(path):
                self._forget_active(path)
        for reading in readings:
            self.active_objects += reading.objects
            self._note_unmatched(reading)

    def _read_prefix(self, prefix: str) -> Reading:
        return self.reader.read(
            self.cursor.paused.get(prefix) or ScanPosition(prefix, f"{prefix}{self.time_prefix.active_from}")
        )

    def _compare(self, folders: Iterable[ScannedFolder], readings: Sequence[Reading]) -> None:
        """Note the partitions of folders that need no run, if the readings have all objects of the partition.

        A part of them may be what the lake has, while the others are new.
        """
        landed: dict[Partition, list[LandedObject]] = {}
        partial: set[Partition] = set()
        for folder in folders:
            for partition, objects in folder.partitions.items():
                landed.setdefault(partition, []).extend(objects)
                if not folder.is_kept:
                    partial.add(partition)
        manifests = {
            partition: Manifest(tuple(sorted(objects, key=lambda landed: landed.key)))
            for partition, objects in landed.items()
            if objects and partition not in partial and self._is_listed(partition, readings)
        }
        if manifests:
            self.in_lake |= set(self.find_in_lake(manifests))

    def _is_listed(self, partition: Partition, readings: Sequence[Reading]) -> bool:
        prefixes = folder_prefixes(self.time_prefix.template, partition)
        return all(any(reading.lists(prefix) for reading in readings) for prefix in prefixes)

    def _take(self, folders: Iterable[ScannedFolder]) -> bool:
        changed = [folder for folder in folders if not self.in_lake.issuperset(folder.partitions)]
        return self.run_plan.take([({*map(self.cells.of, folder.partitions)}, folder.size) for folder in changed])

    def _reconcile_active(self, folder: ScannedFolder) -> None:
        cursor = self.cursor
        before = cursor.active.get(folder.path)
        range_ = cursor.ranges.of(folder.path)
        if before is None and range_ is not None and range_.folders == 1:
            # It was an older folder until `lookback` was raised.
            cursor.ranges.remove(range_)
            before = range_.digest
        if before == folder.digest or self._take([folder]):
            cursor.active[folder.path] = folder.digest
        elif before is not None:
            cursor.active[folder.path] = before

    def _forget_active(self, path: str) -> None:
        """Report an active folder that has no objects any more; the run applies the stream's `on_empty`."""
        partition = self.locator.find_of_folder(path)
        # Not a partition any more, because the config has changed; or the lake has its rows, and took the objects away.
        if isinstance(partition, LakeAssetsError) or self.is_emptied:
            del self.cursor.active[path]
            return
        if self.run_plan.take([({self.cells.of(partition)}, 0)]):
            del self.cursor.active[path]

    def _read_first(self) -> None:
        cursor = self.cursor
        while cursor.first:
            position = self._reconcile(self._read(cursor.first[0]))
            if position is not None:
                cursor.first[0] = position
                return
            del cursor.first[0]
            if self.reader.is_late():
                break
        if not cursor.first and not cursor.sweeps:
            self._end_sweep()

    def _read_older(self) -> None:
        position = self._reconcile(self._read(self.cursor.sweep, most=self.sensor.scan))
        if position is None:
            self._end_sweep()
        self.cursor.sweep = position or ScanPosition("")

    def _end_sweep(self) -> None:
        cursor = self.cursor
        # Unmatched objects that a whole sweep did not meet have vanished.
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
        self._note_unmatched(reading)
        return reading

    @property
    def since(self) -> float:
        """The time before which objects had landed when the older partitions were last read."""
        return self.cursor.since - _MARGIN

    def _reconcile(self, reading: Reading) -> ScanPosition | None:
        """Add changed older folders to the run plan, and update their digests; None at the end of the range of keys.

        A removed object is not a change here, although it is one in the active partitions: landing zones are cleaned by
        age, and the lake must keep the rows. Returns the position to continue from.
        """
        cursor = self.cursor
        before = list(cursor.ranges)
        seen: set[DigestRange] = set()
        older = [folder for folder in reading.folders if not self.time_prefix.is_active(folder.path)]
        active = [folder.digest.objects for folder in reading.folders if self.time_prefix.is_active(folder.path)]
        self.old_objects += reading.objects - sum(active)
        self._compare(older, [reading])
        for range_, folders in _by_range(older, cursor.ranges):
            if range_ is not None:
                seen.add(range_)
                # Joined with its neighbour during the sweep, or with one below another prefix: a sweep reads it whole.
                if not reading.covers(range_.first) or not range_.last.startswith(reading.start.prefix):
                    continue
                if not reading.covers(range_.last):
                    reading.rest = ScanPosition(reading.start.prefix, range_.first)
                    break
            changed = changed_folders(range_, folders, self.since)
            if changed and not self._take(changed):
                reading.rest = ScanPosition(reading.start.prefix, range_.first if range_ else folders[0].path)
                break
            if range_ is not None:
                cursor.ranges.remove(range_)
            cursor.ranges.put(_range_of(folders))
        for range_ in before:
            if range_ not in seen and reading.covers(range_.first) and reading.covers(range_.last):
                cursor.ranges.remove(range_)
        return reading.rest

    def _note_unmatched(self, reading: Reading) -> None:
        cursor = self.cursor
        unmatched = {item.hash: item for item in reading.unmatched}
        cursor.unmatched |= {number: cursor.sweeps for number in unmatched if number in cursor.unmatched}
        self.unmatched |= unmatched
        self.left_out |= reading.left_out
        refuse_tables(self.root, ["", *(folder.path for folder in reading.folders)], reading.left_out)

    def _new_unmatched(self) -> tuple[tuple[UnmatchedKey, ...], int]:
        """Return the unmatched objects to report, as many as the cursor can hold, and the number of further ones."""
        cursor = self.cursor
        new = [number for number in self.unmatched if number not in cursor.unmatched]
        reported = new[: MOST_REMEMBERED - len(cursor.unmatched)]
        cursor.unmatched |= dict.fromkeys(reported, cursor.sweeps)
        if len(cursor.unmatched) < MOST_REMEMBERED:
            cursor.unremembered = 0
        unremembered = len(new) - len(reported)
        is_new = unremembered > cursor.unremembered  # a scan reads a part of the bucket, and counts fewer or more
        cursor.unremembered = max(cursor.unremembered, unremembered)
        return tuple(self.unmatched[number] for number in reported), unremembered if is_new else 0

    def _summary(self) -> str:
        new, text = len(self.run_plan), self.run_plan.changed
        if new and self.in_lake:
            text = f"{new:,} of {count(new + len(self.in_lake), 'partition')} are not in the lake"
        text += f" ({count(self.active_objects + self.old_objects, 'object')} checked"
        following = self.cursor.first[0] if self.cursor.first else self.cursor.sweep
        text += f", up to {following.after!r})." if following.after else ")."
        return f"{text} {left_out_text(self.left_out.values())}." if self.left_out else text


def changed_folders(
    range_: DigestRange | None, folders: Sequence[ScannedFolder], since: float
) -> Sequence[ScannedFolder]:
    """Return the folders of a range with new objects; all if that is not certain, or if the range is None, so new.

    Objects before `since`, Unix time in seconds, had landed when the range was last read.
    """
    if range_ is None:
        return folders
    now = _range_of(folders).digest
    if now == range_.digest:
        return ()
    fresh = [folder for folder in folders if folder.newest >= since]
    if not fresh and now.objects < range_.digest.objects:
        return ()
    # If the digest without the new objects is unchanged, nothing else has changed.
    is_rest_unchanged = total_digest(folder.older for folder in folders) == range_.digest
    return fresh if fresh and is_rest_unchanged else folders


def _by_range(
    folders: Sequence[ScannedFolder], ranges: DigestRanges
) -> list[tuple[DigestRange | None, list[ScannedFolder]]]:
    """Return the folders grouped by the range that holds them; None for a new folder."""
    groups: list[tuple[DigestRange | None, list[ScannedFolder]]] = []
    for folder in folders:
        range_ = ranges.of(folder.path)
        if range_ is not None and groups and groups[-1][0] is range_:
            groups[-1][1].append(folder)
        else:
            groups.append((range_, [folder]))
    return groups


def _range_of(folders: Sequence[ScannedFolder]) -> DigestRange:
    """Return the range of neighbouring folders."""
    digest = total_digest(folder.digest for folder in folders)
    return DigestRange(folders[0].path, folders[-1].path, digest, len(folders))
