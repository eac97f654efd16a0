"""The partitions that one look found changed, and the runs that are asked for them."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.arrivals.marks import Mark, hash_of
from lake_assets.partition import TIME_FORMATS, Partition, PartitionColumn, PartitionType, PartitionValue

# Partitions of a range that need not be there, tried in turn: what has not changed costs one listing each.
_GAPS = (1, 7, 31, 366, 10**9)


@dataclass(frozen=True, slots=True)
class Request:
    """A run that is asked for: of one partition, or of all from one to another that differ in their time alone.

    Attributes:
        first: the first partition.
        last: the last; the first again where it is one.
        state: names what was found in hexadecimal digits: the same for the same look, another for any other.
        changed: how many of its partitions have changed.
    """

    first: Partition
    last: Partition
    state: str
    changed: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A folder that is not as it was.

    Attributes:
        folder: its path.
        mark: what it holds now; `NOTHING` where it is gone.
        partitions: to which its objects belong.
    """

    folder: str
    mark: Mark
    partitions: tuple[Partition, ...]


class Batch:
    """What one look found, in no more groups than there may be runs.

    Args:
        columns: of the stream; the partitions that differ in one that is a time may go in one run.
        max_runs: runs that a look may ask for.
    """

    def __init__(self, columns: Sequence[PartitionColumn], max_runs: int) -> None:
        self._time = next((number for number, column in enumerate(columns) if column.type in TIME_FORMATS), None)
        self._max_runs = max_runs
        self._found: dict[Partition, list[Change]] = {}
        self._groups: set[tuple[PartitionValue, ...]] = set()

    def __len__(self) -> int:
        return len(self._found)

    def take(self, changes: Iterable[Change]) -> bool:
        """Take changed folders in; False, and nothing taken, if that would ask for too many runs.

        The first are always taken, however many they are, or they would wait for ever.
        """
        changes = tuple(changes)
        groups = self._groups | {self._group(partition) for change in changes for partition in change.partitions}
        if len(groups) > self._max_runs and self._found:
            return False
        self._groups = groups
        for change in changes:
            for partition in change.partitions:
                self._found.setdefault(partition, []).append(change)
        return True

    def requests(self, look: int) -> tuple[Request, ...]:
        """The runs: one a partition, or, if these would be too many, one for each stretch of time in a group.

        Args:
            look: the number of the look. A state that comes back must be sent again, and Dagster drops a run key
                that it has seen; a look that is repeated has the same number.
        """
        if len(self._found) <= self._max_runs or self._time is None:
            return tuple(self._request([partition], look) for partition in self._found)
        stretches: list[list[Partition]] = []
        for gap in _GAPS:
            stretches = self._stretches(gap)
            if len(stretches) <= self._max_runs:
                break
        return tuple(self._request(stretch, look) for stretch in stretches)

    def _request(self, partitions: Sequence[Partition], look: int) -> Request:
        found = [
            f"{partition.path}\n{change.folder}\n{change.mark.digest}\n{change.mark.objects}"
            for partition in partitions
            for change in self._found[partition]
        ]
        return Request(partitions[0], partitions[-1], f"{hash_of(look, *found, bits=64):016x}", len(partitions))

    def _group(self, partition: Partition) -> tuple[PartitionValue, ...]:
        return tuple(value for number, value in enumerate(partition.values) if number != self._time)

    def _stretches(self, gap: int) -> list[list[Partition]]:
        """The partitions by group and time, cut where more than so many steps lie between two."""
        stretches: list[list[Partition]] = []
        for partition in sorted(self._found, key=lambda p: (str(self._group(p)), self._step(p))):
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
        assert self._time is not None  # noqa: S101 - the caller looked
        return _steps(partition.columns[self._time].type, partition.values[self._time])


def _steps(type_: PartitionType, value: PartitionValue) -> int:
    """A time in units of its type, so that neighbours differ by one."""
    if isinstance(value, dt.date):
        return value.toordinal()
    if type_ == "year":
        return int(str(value))
    if type_ == "month":
        return int(str(value)[:4]) * 12 + int(str(value)[5:7])
    return int(dt.datetime.strptime(str(value), TIME_FORMATS["hour"]).replace(tzinfo=dt.UTC).timestamp()) // 3600
