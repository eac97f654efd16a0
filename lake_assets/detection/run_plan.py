"""The partitions that one scan found changed, and the runs that are asked for them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.detection.digests import FolderDigest, hash_of
from lake_assets.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.layout.times import TIME_TYPES

# How far apart two partitions of one range may lie, tried in turn: what lies between costs one listing each.
_GAPS = (1, 7, 31)


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A run that is asked for: of one partition, or of all from one to another that differ in their time alone.

    Attributes:
        first: the first partition.
        last: the last; the first again where it is one.
        state: names what was found in hexadecimal digits: the same for the same scan, another for any other.
    """

    first: Partition
    last: Partition
    state: str


@dataclass(frozen=True, slots=True)
class ChangedFolder:
    """A folder that is not as it was.

    Attributes:
        path: its path.
        digest: what it holds now; `NOTHING` where it is gone.
        partitions: to which its objects belong.
    """

    path: str
    digest: FolderDigest
    partitions: tuple[Partition, ...]


class RunPlan:
    """What one scan found, as much of it as can go in so many runs.

    Args:
        columns: of the stream; partitions that differ in the first that is a time may go in one run.
        max_runs: runs that a scan may ask for.
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
        """Take changed folders in; False, and nothing taken, if that would ask for too many runs.

        The first are always taken, however many they are, or they would wait for ever.
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
        """Note a partition's time; how many ranges more that makes."""
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
        """The runs: one a partition, or, if these would be too many, one for each stretch of time in a group.

        Args:
            scan: the number of the scan. A state that comes back must be sent again, and Dagster drops a run key
                that it has seen; a scan that is repeated has the same number.
        """
        if len(self._changed) <= self._max_runs or self._time is None:
            return tuple(self._target([partition], scan) for partition in self._changed)
        stretches: list[list[Partition]] = []
        for gap in _GAPS:
            stretches = self._stretches(gap)
            if len(stretches) <= self._max_runs:
                break
        return tuple(self._target(stretch, scan) for stretch in stretches)

    def _target(self, partitions: Sequence[Partition], scan: int) -> RunTarget:
        texts = sorted(
            f"{partition.path}\n{folder.path}\n{folder.digest.hash_sum}\n{folder.digest.objects}"
            for partition in partitions
            for folder in self._changed[partition]
        )
        return RunTarget(partitions[0], partitions[-1], f"{hash_of(scan, *texts, bits=64):016x}")

    def _group(self, partition: Partition) -> tuple[PartitionValue, ...]:
        return tuple(value for number, value in enumerate(partition.values) if number != self._time)

    def _stretches(self, gap: int) -> list[list[Partition]]:
        """The partitions by group and time, cut where more than so many steps lie between two."""
        stretches: list[list[Partition]] = []
        for partition in sorted(self._changed, key=lambda p: (str(self._group(p)), self._step(p))):
            before = stretches[-1][-1] if stretches else None
            if (
                before is not None
                and self._group(before) == self._group(partition)
                and self._step(partition) - self._step(before) <= gap
            ):
                stretches[-1].append(partition)
            else:
                stretches.append([partition])
        return stretches

    def _step(self, partition: Partition) -> int:
        if self._time is None:
            return 0
        kind = TIME_TYPES[partition.columns[self._time].type]
        return kind.number(kind.start(partition.values[self._time]))
