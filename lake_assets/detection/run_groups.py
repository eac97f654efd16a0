"""Fewer runs for the changed partitions of one scan: neighbours share a run, where they are few and small."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from lake_assets.detection.digests import hash_of
from lake_assets.detection.run_plan import MOST_BYTES, RunTarget
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.layout.times import TIME_TYPES

Position = Callable[[Partition, PartitionColumn], int]
"""The number of a partition's value among the values of a column that is not a time, in Dagster's order."""


def grouped(
    targets: Iterable[RunTarget], columns: Sequence[PartitionColumn], position: Position, most: int
) -> tuple[RunTarget, ...]:
    """Join targets that are neighbours in one column and equal in the others.

    A group has no partition that is in none of its targets. So no run is launched for an unchanged partition, which
    Dagster would show as failed if that run failed.

    Args:
        targets: of one scan; those of more than `MOST_BYTES` stay alone.
        columns: of the stream.
        position: of the values of the other columns; times are numbered by the calendar.
        most: the number of partitions that a group may have.
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
        return RunTarget(first.first, last.last, state, self.size)


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
    """Both boxes as one; None if they are no neighbours."""
    (first, end), (begin, last) = before.spans[axis], behind.spans[axis]
    if before.others(axis) != behind.others(axis) or end + 1 != begin:
        return None
    spans = (*before.spans[:axis], (first, last), *before.spans[axis + 1 :])
    return replace(before, spans=spans, members=before.members + behind.members)
