"""The changed partitions of one scan, and the runs to request for them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.detection.digests import FolderDigest, hash_of
from lake_assets.detection.reading import UnmatchedKey
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.layout.times import TIME_TYPES

# Steps between two partitions of one run, tried in turn. Each partition between them costs one listing.
_GAPS = (1, 7, 31)


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A run to request: of one partition, or of all between two, in each column."""

    first: Partition
    last: Partition  # equal to `first` if it is one partition
    state: str  # a hash of the changes in hexadecimal; equal only for the same scan
    size: int = 0  # bytes of the objects in its changed folders, as far as the scan has read them


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a sensor found at one tick, by listings or by the messages of a queue."""

    targets: tuple[RunTarget, ...]
    unmatched: tuple[UnmatchedKey, ...]  # objects and messages that were not reported before
    cursor: str  # for the next tick, once the runs are requested
    summary: str  # of the tick, one sentence
    unremembered: int = 0  # further unmatched objects, too many for the cursor; 0 if the number was reported before


@dataclass(frozen=True, slots=True)
class ChangedFolder:
    """A folder that has changed."""

    path: str
    digest: FolderDigest  # of its objects now; `NOTHING` if it has none
    partitions: tuple[Partition, ...]  # of its objects
    size: int = 0  # bytes of its objects, as far as they are known


class RunPlan:
    """The changed partitions of one scan, as many as fit into `max_runs` runs.

    Args:
        columns: of the stream; partitions that differ only in the first time column may share a run.
        max_runs: the number of runs that a scan may request.
    """

    def __init__(self, columns: Sequence[PartitionColumn], max_runs: int) -> None:
        self._time = next((number for number, column in enumerate(columns) if column.type in TIME_TYPES), None)
        self._max_runs = max_runs
        self._changed: dict[Partition, list[ChangedFolder]] = {}
        self._steps: dict[tuple[PartitionValue, ...], list[int]] = {}
        self._runs = 0

    def __len__(self) -> int:
        return len(self._changed)

    def take(self, folders: Iterable[ChangedFolder]) -> bool:
        """Add changed folders; False, and nothing is added, if that would need too many runs.

        The first folders are always added, because otherwise they would never be.
        """
        folders = tuple(folders)
        new = {partition for folder in folders for partition in folder.partitions if partition not in self._changed}
        runs = self._runs
        for partition in new:
            self._runs += self._insert(partition)
        if self._runs > self._max_runs and self._changed:
            for partition in new:
                self._steps[self._group(partition)].remove(self._step(partition))
            self._runs = runs
            return False
        for folder in folders:
            for partition in folder.partitions:
                self._changed.setdefault(partition, []).append(folder)
        return True

    def _insert(self, partition: Partition) -> int:
        """Insert a partition's time; returns by how many the number of ranges grows."""
        steps, step = self._steps.setdefault(self._group(partition), []), self._step(partition)
        at = bisect_left(steps, step)
        before, behind = steps[at - 1 : at] if at else [], steps[at : at + 1]
        steps.insert(at, step)
        if self._time is None:
            return 1
        joins = [step - other <= _GAPS[-1] for other in before] + [other - step <= _GAPS[-1] for other in behind]
        were_joined = bool(before and behind) and behind[0] - before[0] <= _GAPS[-1]
        return 1 - sum(joins) + were_joined

    def targets(self, scan: int) -> tuple[RunTarget, ...]:
        """The runs: one for each partition, or, if these are too many, one for each range of times in a group.

        Args:
            scan: the number of the scan, which is part of `RunTarget.state`. Dagster ignores a run key that it has
                seen, and a folder may return to an earlier state. A repeated scan has the same number.
        """
        if len(self._changed) <= self._max_runs or self._time is None:
            return tuple(self._target([partition], scan) for partition in self._changed)
        ranges: list[list[Partition]] = []
        for gap in _GAPS:
            ranges = self._ranges(gap)
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
        return RunTarget(partitions[0], partitions[-1], f"{hash_of(scan, *texts, bits=64):016x}", size)

    def _group(self, partition: Partition) -> tuple[PartitionValue, ...]:
        return tuple(value for number, value in enumerate(partition.values) if number != self._time)

    def _ranges(self, gap: int) -> list[list[Partition]]:
        """The partitions by group and time, split between two that are more than `gap` steps apart."""
        ranges: list[list[Partition]] = []
        for partition in sorted(self._changed, key=lambda p: (str(self._group(p)), self._step(p))):
            before = ranges[-1][-1] if ranges else None
            if (
                before is not None
                and self._group(before) == self._group(partition)
                and self._step(partition) - self._step(before) <= gap
            ):
                ranges[-1].append(partition)
            else:
                ranges.append([partition])
        return ranges

    def _step(self, partition: Partition) -> int:
        if self._time is None:
            return 0
        kind = TIME_TYPES[partition.columns[self._time].type]
        return kind.number(kind.start(partition.values[self._time]))
