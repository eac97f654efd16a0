"""The changed partitions of one scan, and the runs to request for them: fewer, where neighbours are few and small.

A partition is here a cell of the stream (`Cells`), because runs are those of Dagster's keys.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from lake_assets.detection.digests import FolderDigest, hash_of
from lake_assets.detection.reading import UnmatchedKey
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.layout.texts import count
from lake_assets.layout.times import TIME_TYPES

# Steps between two partitions of one run, tried in turn. Each partition between them costs one listing.
_GAPS = (1, 7, 31)

MOST_BYTES = 2**30  # of objects in a shared run; as many as one Spark job reads

Position = Callable[[Partition, PartitionColumn], int]
"""The number of a partition's value among the values of a column that is not a time, in Dagster's order."""

IsQueued = Callable[[Partition], bool]
"""Whether a run of the partition has yet to begin. It will list the partition, so no other needs to be requested."""


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A run to request: of one partition, or of all between two, in each column."""

    first: Partition
    last: Partition  # equal to `first` if it is one partition
    state: str  # a hash of the changes in hexadecimal; equal only for the same scan
    size: int = 0  # bytes of the objects in its changed folders, as far as the scan has read them
    cells: tuple[Partition, ...] = ()  # those of its partitions that have changed


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a sensor found at one tick, by listings or by the messages of a queue."""

    targets: tuple[RunTarget, ...]
    unmatched: tuple[UnmatchedKey, ...]  # objects and messages that were not reported before
    cursor: str  # for the next tick, once the runs are requested
    summary: str  # the tick in one sentence
    unremembered: int = 0  # further unmatched objects, too many for the cursor; 0 if the number was reported before
    queued: tuple[Partition, ...] = ()  # changed partitions that queued runs have


@dataclass(frozen=True, slots=True)
class ChangedFolder:
    """A folder that has changed."""

    path: str
    digest: FolderDigest  # of its objects now; `NOTHING` if it has none
    partitions: tuple[Partition, ...]  # of its objects: their cells, each once
    size: int = 0  # bytes of its objects, as far as they are known


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which partitions `grouped` joins, so that a scan may have more of them than runs.

    Attributes:
        axis: the number of a column that is not a time.
        most: partitions of a shared run.
        position: the number of a partition's value among those of the column, in Dagster's order.
    """

    axis: int
    most: int
    position: Callable[[Partition], int]


class RunPlan:
    """The changed partitions of one scan, as many as fit into `max_runs` runs.

    Args:
        max_runs: the number of runs that a scan may request.
        sharing: of the targets, which are grouped behind the scan; None if they are not.
        noun: what a partition is called: a key, where a key of Dagster's has several.
    """

    def __init__(
        self,
        columns: Sequence[PartitionColumn],
        max_runs: int,
        sharing: Sharing | None = None,
        noun: str = "partition",
    ) -> None:
        self._noun = noun
        self._time = next((number for number, column in enumerate(columns) if column.type in TIME_TYPES), None)
        self._max_runs = max_runs
        self._sharing = sharing
        self._changed: dict[Partition, list[ChangedFolder]] = {}
        self._ranges = _Segments(_GAPS[-1])  # of times
        self._neighbours: _Segments | None = None  # in the column of `sharing`, once there are too many ranges
        self._bytes = 0  # the folders' sizes, each as no more than `MOST_BYTES`
        self.queued: tuple[Partition, ...] = ()  # changed partitions that need no run; set by `targets`

    def __len__(self) -> int:
        return len(self._changed)

    @property
    def changed(self) -> str:
        """The changed partitions in words, and the number of those that need no run."""
        queued = f", {len(self.queued):,} of them in queued runs" if self.queued else ""
        return f"{count(len(self), self._noun)} changed{queued}" if self else "No changes"

    def take(self, folders: Iterable[ChangedFolder]) -> bool:
        """Add changed folders; False, and nothing is added, if that would need too many runs.

        The first folders are always added, because otherwise they would never be.
        """
        folders = tuple(folders)
        new = {partition for folder in folders for partition in folder.partitions if partition not in self._changed}
        size = sum(min(folder.size, MOST_BYTES) for folder in folders)
        self._add(new, size)
        if self._changed and self._ranges.count > self._max_runs and not self._are_shared():
            self._drop(new, size)
            return False
        for folder in folders:
            for partition in folder.partitions:
                self._changed.setdefault(partition, []).append(folder)
        return True

    def _add(self, partitions: Iterable[Partition], size: int) -> None:
        partitions = tuple(partitions)
        self._bytes += size
        for partition in partitions:
            self._ranges.add(self._group(partition), self._step(partition))
        if self._neighbours is None and self._sharing is not None and self._ranges.count > self._max_runs:
            self._neighbours = _Segments(1)
            partitions = (*self._changed, *partitions)
        if self._neighbours is not None:
            for partition in partitions:
                self._neighbours.add(*self._place(partition))

    def _drop(self, partitions: Iterable[Partition], size: int) -> None:
        self._bytes -= size
        for partition in partitions:
            self._ranges.remove(self._group(partition), self._step(partition))
            if self._neighbours is not None:
                self._neighbours.remove(*self._place(partition))

    def _are_shared(self) -> bool:
        """Return whether `grouped` makes few enough runs of the partitions: each limit splits a run of neighbours."""
        if self._sharing is None or self._neighbours is None:
            return False
        runs = self._neighbours.count
        splits = (self._neighbours.size - runs) // self._sharing.most + 2 * self._bytes // MOST_BYTES
        return runs + splits <= self._max_runs

    def _place(self, partition: Partition) -> tuple[tuple[PartitionValue, ...], int]:
        assert self._sharing is not None  # noqa: S101 - only its neighbours have places
        axis = self._sharing.axis
        return partition.values[:axis] + partition.values[axis + 1 :], self._sharing.position(partition)

    def targets(self, scan: int, is_queued: IsQueued) -> tuple[RunTarget, ...]:
        """Return the runs: one for each partition, or, if these are too many, one for each range of times in a group.

        The number of the scan is part of `RunTarget.state`. Dagster ignores a run key that it has seen, and a folder
        may return to an earlier state. A repeated scan has the same number. `is_queued` is asked of partitions that are
        in no run of the result; a range ends before such a partition.
        """
        changed = [partition for partition in self._changed if not is_queued(partition)]
        self.queued = tuple(self._changed.keys() - set(changed))
        if len(changed) <= self._max_runs or self._time is None or self._are_shared():
            return tuple(self._target([partition], scan) for partition in changed)
        ranges: list[list[Partition]] = []
        for gap in _GAPS:
            ranges = self._split(changed, gap, is_queued)
            if len(ranges) <= self._max_runs:
                break
        return tuple(self._target(partitions, scan) for partitions in ranges)

    def _target(self, partitions: Sequence[Partition], scan: int) -> RunTarget:
        texts = sorted(
            f"{partition.path}\n{folder.path}\n{folder.digest.hash_sum}\n{folder.digest.objects}"
            for partition in partitions
            for folder in self._changed[partition]
        )
        size = sum(folder.size for partition in partitions for folder in self._changed[partition])
        state = f"{hash_of(scan, *texts, bits=64):016x}"
        return RunTarget(partitions[0], partitions[-1], state, size, tuple(partitions))

    def _group(self, partition: Partition) -> tuple[PartitionValue, ...]:
        return tuple(value for number, value in enumerate(partition.values) if number != self._time)

    def _split(self, changed: Sequence[Partition], gap: int, is_queued: IsQueued) -> list[list[Partition]]:
        """Group partitions by group and time, split at more than `gap` steps between two, and at a queued partition."""
        ranges: list[list[Partition]] = []
        for partition in sorted(changed, key=lambda p: (str(self._group(p)), self._step(p))):
            before = ranges[-1][-1] if ranges else None
            if (
                before is not None
                and self._group(before) == self._group(partition)
                and self._step(partition) - self._step(before) <= gap
                and not any(map(is_queued, self._between(before, partition)))
            ):
                ranges[-1].append(partition)
            else:
                ranges.append([partition])
        return ranges

    def _between(self, before: Partition, behind: Partition) -> Iterator[Partition]:
        """Yield the partitions between two of one group."""
        assert self._time is not None  # noqa: S101 - others are in no range
        column, values = before.columns[self._time], before.values
        kind = TIME_TYPES[column.type]
        for number in range(self._step(before) + 1, self._step(behind)):
            value = column.parse(kind.text(kind.at(number)))
            yield replace(before, values=(*values[: self._time], value, *values[self._time + 1 :]))

    def _step(self, partition: Partition) -> int:
        if self._time is None:
            return 0
        kind = TIME_TYPES[partition.columns[self._time].type]
        return kind.number(kind.start(partition.values[self._time]))


class _Segments:
    """Numbers on several lines, each once, in segments: of numbers that are at most `gap` apart on a line.

    Attributes:
        count: of the segments.
        size: of the numbers.
    """

    def __init__(self, gap: int) -> None:
        self.count = self.size = 0
        self._gap = gap
        self._lines: dict[Hashable, list[int]] = {}

    def add(self, line: Hashable, number: int) -> None:
        """Add a number, which the line does not have."""
        self.count += self._adds(line, number)
        self.size += 1
        insort(self._lines.setdefault(line, []), number)

    def remove(self, line: Hashable, number: int) -> None:
        """Remove a number, which the line has."""
        self._lines[line].remove(number)
        self.size -= 1
        self.count -= self._adds(line, number)

    def _adds(self, line: Hashable, number: int) -> int:
        """Return how many segments a number that is not there adds: 1, 0, or -1 if it joins two."""
        numbers = self._lines.get(line, [])
        at = bisect_left(numbers, number)
        before, behind = numbers[at - 1 : at] if at else [], numbers[at : at + 1]
        joins = [number - other <= self._gap for other in before] + [other - number <= self._gap for other in behind]
        were_joined = bool(before and behind) and behind[0] - before[0] <= self._gap
        return 1 - sum(joins) + were_joined


def grouped(
    targets: Iterable[RunTarget], columns: Sequence[PartitionColumn], position: Position, most: int
) -> tuple[RunTarget, ...]:
    """Join targets that are neighbours in one column and equal in the others, of `most` partitions or fewer.

    A group has no partition that is in none of its targets. So no run is launched for an unchanged partition, which
    Dagster would show as failed if that run failed. Targets of more than `MOST_BYTES` stay alone. `position` is of the
    values of the other columns; times are numbered by the calendar.
    """
    boxes = [_box(target, columns, position) for target in targets]
    # Times first: a group of days for each region, then a group of the regions that have the same days. Or the other
    # way round, if these are fewer: the regions of each day.
    axes = sorted(range(len(columns)), key=lambda axis: columns[axis].type not in TIME_TYPES)
    ways = [_joined_by(boxes, order, most) for order in (axes, axes[::-1])]
    return tuple(box.target() for box in min(ways, key=len))


@dataclass(frozen=True, slots=True)
class _Box:
    """Targets that are one run: all combinations of a span of numbers in each column."""

    spans: tuple[tuple[int, int], ...]  # first and last number in each column, both included
    members: tuple[RunTarget, ...]  # in the order of their numbers, so the first and the last are its corners

    def others(self, axis: int) -> tuple[tuple[int, int], ...]:
        return self.spans[:axis] + self.spans[axis + 1 :]

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members)

    @property
    def partitions(self) -> int:
        return prod(last - first + 1 for first, last in self.spans)

    def target(self) -> RunTarget:
        first, last = self.members[0], self.members[-1]
        if first is last:
            return first
        state = f"{hash_of(*sorted(member.state for member in self.members), bits=64):016x}"
        cells = tuple(cell for member in self.members for cell in member.cells)
        return RunTarget(first.first, last.last, state, self.size, cells)


def _box(target: RunTarget, columns: Sequence[PartitionColumn], position: Position) -> _Box:
    def number(partition: Partition, column: PartitionColumn, value: object) -> int:
        if column.type in TIME_TYPES:
            kind = TIME_TYPES[column.type]
            return kind.number(kind.start(value))
        return position(partition, column)

    ends = zip(columns, target.first.values, target.last.values, strict=True)
    spans = ((number(target.first, c, first), number(target.last, c, last)) for c, first, last in ends)
    return _Box(tuple(spans), (target,))


def _joined_by(boxes: Sequence[_Box], axes: Iterable[int], most: int) -> Sequence[_Box]:
    """Return the boxes, with neighbours joined on one axis after the other."""
    for axis in axes:
        boxes = _joined(boxes, axis, most)
    return boxes


def _joined(boxes: Iterable[_Box], axis: int, most: int) -> list[_Box]:
    """Return the boxes, with neighbours on one axis joined."""
    joined: list[_Box] = []
    for box in sorted(boxes, key=lambda box: (box.others(axis), box.spans[axis])):
        before = joined[-1] if joined else None
        union = None if before is None else _union(before, box, axis)
        if union is not None and union.partitions <= most and union.size <= MOST_BYTES:
            joined[-1] = union
        else:
            joined.append(box)
    return joined


def _union(before: _Box, behind: _Box, axis: int) -> _Box | None:
    """Return both boxes as one; None if they are not neighbours."""
    (first, end), (begin, last) = before.spans[axis], behind.spans[axis]
    if before.others(axis) != behind.others(axis) or end + 1 != begin:
        return None
    spans = (*before.spans[:axis], (first, last), *before.spans[axis + 1 :])
    return replace(before, spans=spans, members=before.members + behind.members)
