"""One look at the landing zone: what has arrived since the last one, told by a cursor, within a budget of time.

Three passes. The *active* partitions, those of the last days, are listed at every look: the folders above them (the
regions) by one request each, and each of these from the first active day on. Stretches that were *never read*, as all
of the bucket is at first, are read as far as time allows. When there are none left, a slice of the *older* partitions
is read, the next one at the next look, round and round, so that what arrives late is found as well.
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
from lake_assets.detection.locator import Admission
from lake_assets.detection.older import change_of, settle
from lake_assets.detection.prefixes import Route
from lake_assets.detection.reading import Folder, Place, Reader, Reading, Stray
from lake_assets.detection.run_plan import Batch, Change, Request
from lake_assets.errors import KeyOrderError, LakeAssetsError
from lake_assets.storage.walk import position

LISTINGS = 16  # branches that are listed side by side
MOST_OUTSIDE = 500  # strays that are remembered; of those beyond, their number is told
# Clocks differ, and an object bears the time at which its writing began.
_MARGIN = 3600  # seconds


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a look found.

    Attributes:
        requests: the runs to ask for.
        strays: objects that belong to no partition and were not told before.
        untold: how many such objects there are besides, too many to remember; 0 where that was told before.
        cursor: for the next look, once the requests are recorded.
        summary: what was looked at, one sentence.
    """

    requests: tuple[Request, ...]
    strays: tuple[Stray, ...]
    untold: int
    cursor: str
    summary: str


def look(
    stream: Stream,
    listing: Listing,
    cursor: str | None,
    *,
    looked_at: float | None = None,
    now: dt.datetime | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Arrivals:
    """Look what has arrived.

    Args:
        stream: with a sensor of type `objects`.
        listing: its landing zone.
        cursor: that of the look before; None at first, and after a reset.
        looked_at: when the look before was recorded, in seconds of Unix time. With it the run keys that follow a reset
            are other ones than those before, and those of a look that is repeated the same.
        now: with time zone; the present when None.
        clock: by which the budget is kept, in seconds.

    Raises:
        StorageError: the landing zone cannot be listed. The cursor stays as it is, and nothing is lost.
    """
    now = now or dt.datetime.now(dt.UTC)
    looks = int(looked_at or 0)
    try:
        return _Look(stream, listing, Cursor.load(cursor, stream, looks), now, clock).done()
    except KeyOrderError:
        return _Look(stream, listing, Cursor.load(cursor, stream, looks).in_tree_order(), now, clock).done()


class _Look:
    def __init__(
        self, stream: Stream, listing: Listing, cursor: Cursor, now: dt.datetime, clock: Callable[[], float]
    ) -> None:
        assert isinstance(stream.sensor, ObjectSensor)  # noqa: S101 - the caller has one
        self.sensor = stream.sensor
        self.listing = listing
        self.cursor = cursor
        self.now = now
        self.route = Route.of(stream)
        self.floor = self.route.floor(stream, now)
        self.admission = Admission(stream, now)
        self.batch = Batch(stream.columns, self.sensor.max_runs)
        self.reader = Reader(
            listing, stream.files, self.route.depth, self.admission, clock() + self.sensor.budget, cursor.tree, clock
        )
        self.strays: dict[int, Stray] = {}
        self.active_objects = self.old_objects = 0

    def done(self) -> Arrivals:
        """Look, and tell."""
        cursor = self.cursor
        cursor.lap_begun = cursor.lap_begun or self.now.timestamp()
        self._retire()
        if self.floor is not None:
            self._look_at_active(self.route.branches(self.listing))
        if cursor.first:
            self._read_first()
        else:
            self._read_on()
        cursor.cells.shrink()
        requests = self.batch.requests(cursor.looks)
        cursor.looks += bool(requests)
        strays, untold = self._new_strays()
        return Arrivals(requests, strays, untold, cursor.dump(), self._summary())

    def _retire(self) -> None:
        """What was active and is no longer is one of the older ones."""
        active = self.cursor.active
        for path in [path for path in active if not self.route.is_active(path, self.floor)]:
            self.cursor.cells.add(path, active.pop(path))

    def _look_at_active(self, branches: list[str]) -> None:
        cursor = self.cursor
        for branch in branches:
            # The first reading of the whole bucket comes by, if it has not yet.
            at = position(branch, tree=cursor.tree)
            is_ahead = any(not p.prefix and position(p.after, tree=cursor.tree) <= at for p in cursor.first)
            if branch not in cursor.branches and not is_ahead:
                cursor.first.append(Place(branch))
        cursor.branches = set(branches)
        turn = int(self.now.timestamp()) % max(len(branches), 1)  # that none is always last, should time run out
        with ThreadPoolExecutor(LISTINGS) as pool:
            readings = list(pool.map(self._read_branch, [*branches[turn:], *branches[:turn]]))
        cursor.paused = {reading.begun.prefix: reading.left for reading in readings if reading.left is not None}
        seen = {folder.path: folder for reading in readings for folder in reading.folders}
        for folder in seen.values():
            self._settle_active(folder)
        covered = {reading.begun.prefix: reading for reading in readings}
        for path in sorted(cursor.active.keys() - seen.keys()):
            reading = covered.get(self.route.branch_of(path))
            if reading is None or reading.covers(path):
                self._forget_active(path)
        for reading in readings:
            self.active_objects += reading.objects
            self._note_strays(reading)

    def _read_branch(self, branch: str) -> Reading:
        return self.reader.read(self.cursor.paused.get(branch) or Place(branch, f"{branch}{self.floor}"))

    def _settle_active(self, folder: Folder) -> None:
        cursor = self.cursor
        before = cursor.active.get(folder.path)
        cell = cursor.cells.of(folder.path)
        if before is None and cell is not None and cell.folders == 1:
            # It was one of the older ones, until `lookback` was raised.
            cursor.cells.remove(cell)
            before = cell.mark
        if before == folder.mark or self.batch.take([change_of(folder)]):
            cursor.active[folder.path] = folder.mark
        elif before is not None:
            cursor.active[folder.path] = before

    def _forget_active(self, path: str) -> None:
        """All objects of an active folder are gone: the stream's `on_empty` says what the run makes of it."""
        try:
            partition = self.admission.of(f"{path}object")
        except LakeAssetsError:  # the config has changed: it is no partition any more
            del self.cursor.active[path]
            return
        if self.batch.take([Change(path, NOTHING, (partition,))]):
            del self.cursor.active[path]

    def _read_first(self) -> None:
        cursor = self.cursor
        while cursor.first:
            left = self._settle(self._read(cursor.first[0]))
            if left is not None:
                cursor.first[0] = left
                return
            del cursor.first[0]
            if self.reader.is_late():
                break
        if not cursor.first and not cursor.laps:
            self._end_lap()

    def _read_on(self) -> None:
        left = self._settle(self._read(self.cursor.lap, most=self.sensor.scan))
        if left is None:
            self._end_lap()
        self.cursor.lap = left or Place("")

    def _end_lap(self) -> None:
        cursor = self.cursor
        # What was not met in a whole round is gone, and makes room.
        cursor.outside = {number: lap for number, lap in cursor.outside.items() if lap == cursor.laps}
        cursor.laps += 1
        cursor.since, cursor.lap_begun = cursor.lap_begun, self.now.timestamp()

    def _read(self, place: Place, most: int | None = None) -> Reading:
        of = self.cursor.cells.of
        reading = self.reader.read(
            place,
            since=self.since,
            most=most,
            may_stop=lambda before, after: of(after) is None or of(before) is not of(after),
        )
        self.old_objects += reading.objects
        self._note_strays(reading)
        return reading

    @property
    def since(self) -> float:
        """Objects that are older than this had landed when the older partitions were read before."""
        return self.cursor.since - _MARGIN

    def _settle(self, reading: Reading) -> Place | None:
        return settle(
            reading, self.cursor.cells, self.batch, self.since, lambda path: self.route.is_active(path, self.floor)
        )

    def _note_strays(self, reading: Reading) -> None:
        cursor = self.cursor
        found = {stray.hash: stray for stray in reading.strays}
        cursor.outside |= {number: cursor.laps for number in found if number in cursor.outside}
        self.strays |= found

    def _new_strays(self) -> tuple[tuple[Stray, ...], int]:
        """Those that were not told before, as long as there is room to remember that they were, and how many more."""
        cursor = self.cursor
        new = [number for number in self.strays if number not in cursor.outside]
        told = new[: MOST_OUTSIDE - len(cursor.outside)]
        cursor.outside |= dict.fromkeys(told, cursor.laps)
        if len(cursor.outside) < MOST_OUTSIDE:
            cursor.untold = 0
        untold = len(new) - len(told)
        is_news = untold > cursor.untold  # a tick sees a part of the bucket, and not always the same number
        cursor.untold = max(cursor.untold, untold)
        return tuple(self.strays[number] for number in told), untold if is_news else 0

    def _summary(self) -> str:
        cursor = self.cursor
        parts = []
        if self.floor is not None:
            parts.append(f"{self.active_objects:,} objects of the partitions from {self.floor} on")
        older = "objects" if self.floor is None else "older objects"
        if cursor.first:
            parts.append(f"{self.old_objects:,} {older} of those that were never read, up to {cursor.first[0].after!r}")
        else:
            parts.append(f"{self.old_objects:,} {older} (round {cursor.laps + 1})")
        text = f"Looked at {' and '.join(parts)}: {len(self.batch):,} partitions have changed."
        return f"{text} {len(self.strays):,} objects belong to no partition." if self.strays else text
