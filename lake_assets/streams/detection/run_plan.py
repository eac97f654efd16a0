"""The changed partitions of one scan, and the runs to request for them: fewer, where neighbours are few and small.

A partition is here a cell of the stream (`Cells`), because runs are those of Dagster's keys.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod

from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.streams.detection.reading import UnmatchedKey

# Steps between two partitions of one run, tried in turn. Each partition between them costs one listing.
_GAPS = (1, 7, 31)

MOST_BYTES = 2**30  # of objects in a shared run; as many as one Spark job reads

Position = Callable[[Partition, PartitionColumn], int]
"""The number of a partition's value among the values of a column that is not a time, in Dagster's order."""

MOST_CHANGED = 2_000  # partitions that may wait for their runs; a scan takes no more until these have begun


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A run to request: of one partition, or of all between two, in each column."""

    first: Partition
    last: Partition  # equal to `first` if it is one partition
    size: int = 0  # bytes of the objects in its changed folders, as far as the scan has read them
    cells: tuple[Partition, ...] = ()  # those of its partitions that have changed
    partitions: int = 1  # all of them, which Dagster plans

    @classmethod
    def of(cls, cell: Partition, size: int) -> "RunTarget":
        """Return the run of one cell, with the bytes of its objects."""
        return cls(cell, cell, size, (cell,))


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a sensor found at one tick, by listings or by the messages of a queue."""

    targets: tuple[RunTarget, ...]  # each of one changed partition
    unmatched: tuple[UnmatchedKey, ...]  # objects and messages that were not reported before
    cursor: str  # for the next tick, once the runs are requested
    summary: str  # the tick in one sentence
    unremembered: int = 0  # further unmatched objects, too many for the cursor; 0 if the number was reported before


class RunPlan:
    """The changed partitions of one scan, `most` at most. `noun` is *key* where a key of Dagster's has several."""

    def __init__(self, most: int, noun: str = "partition") -> None:
        self._most = most
        self._noun = noun
        self._changed: dict[Partition, int] = {}  # with the bytes of its changed folders

    def __len__(self) -> int:
        return len(self._changed)

    @property
    def changed(self) -> str:
        """The changed partitions in words."""
        return f"{count(len(self), self._noun)} changed" if self else "No changes"

    def take(self, folders: Collection[tuple[AbstractSet[Partition], int]]) -> bool:
        """Add changed folders; False, and nothing is added, if they are of too many partitions.

        A folder is the cells of its objects, and the bytes of these as far as they are known. The first folders are
        added, unless none may be, because otherwise they would never be.
        """
        partitions = {partition for cells, _ in folders for partition in cells}
        number = len(self._changed.keys() | partitions)
        if partitions and number > self._most and (self._changed or not self._most):
            return False
        for cells, size in folders:
            for partition in cells:
                self._changed[partition] = self._changed.get(partition, 0) + size
        return True

    @property
    def targets(self) -> tuple[RunTarget, ...]:
        """A target of each partition."""
        return tuple(RunTarget.of(partition, size) for partition, size in self._changed.items())


def runs_of(targets: Sequence[RunTarget], position: Position, *, most: int, max_runs: int) -> tuple[RunTarget, ...]:
    """Return the runs of targets, `max_runs` at most: each of `most` partitions that are neighbours, as of `grouped`.

    If these would be too many, a run is of a range of times, with the partitions that have not changed in its gaps.
    What is left has no run.
    """
    runs = grouped(targets, position, most)
    for gap in _GAPS:
        if len(runs) <= max_runs:
            return runs
        runs = min(runs, _ranges(targets, gap), key=len)
    return runs[:max_runs]


def _ranges(targets: Sequence[RunTarget], gap: int) -> tuple[RunTarget, ...]:
    """Return the targets joined where they differ in their time only, by no more than `gap` steps."""
    columns = targets[0].first.columns
    time = next((number for number, column in enumerate(columns) if column.type in TIME_TYPES), None)
    if time is None:
        return tuple(targets)
    kind = TIME_TYPES[columns[time].type]

    def place(target: RunTarget) -> tuple[str, int]:
        values = target.first.values
        return str(values[:time] + values[time + 1 :]), kind.number(kind.start(values[time]))

    ranges: list[list[RunTarget]] = []
    for target in sorted(targets, key=place):
        (group, step), before = place(target), place(ranges[-1][-1]) if ranges else None
        if before is not None and before[0] == group and step - before[1] <= gap:
            ranges[-1].append(target)
        else:
            ranges.append([target])
    return tuple(_joint(members, place(members[-1])[1] - place(members[0])[1] + 1) for members in ranges)


def _joint(members: Sequence[RunTarget], partitions: int) -> RunTarget:
    """Return targets as one, from the first to the last, of so many partitions."""
    if len(members) == 1:
        return members[0]
    cells = tuple(cell for member in members for cell in member.cells)
    size = sum(member.size for member in members)
    return RunTarget(members[0].first, members[-1].last, size, cells, partitions)


def grouped(targets: Sequence[RunTarget], position: Position, most: int) -> tuple[RunTarget, ...]:
    """Join targets that are neighbours in one column and equal in the others, of `most` partitions or fewer.

    A group has no partition that is in none of its targets. So no run is launched for an unchanged partition, which
    Dagster would show as failed if that run failed. Targets of more than `MOST_BYTES` stay alone. `position` is of the
    values of the other columns; times are numbered by the calendar.
    """
    columns = targets[0].first.columns if targets else ()
    boxes = [_box(target, position) for target in targets]
    # Times first: a group of days for each region, then a group of the regions that have the same days. Or the other
    # way round, if these are fewer: the regions of each day.
    axes = sorted(range(len(columns)), key=lambda axis: columns[axis].type not in TIME_TYPES)
    ways = [reduce(partial(_joined, most=most), order, boxes) for order in (axes, axes[::-1])]
    return tuple(_joint(box.members, box.partitions) for box in min(ways, key=len))


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


def _box(target: RunTarget, position: Position) -> _Box:
    def number(partition: Partition, column: PartitionColumn, value: object) -> int:
        if column.type in TIME_TYPES:
            kind = TIME_TYPES[column.type]
            return kind.number(kind.start(value))
        return position(partition, column)

    ends = zip(target.first.columns, target.first.values, target.last.values, strict=True)
    spans = ((number(target.first, c, first), number(target.last, c, last)) for c, first, last in ends)
    return _Box(tuple(spans), (target,))


def _joined(boxes: Iterable[_Box], axis: int, *, most: int) -> list[_Box]:
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
