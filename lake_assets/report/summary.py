"""Counts of a stream's partitions: a row for each value of the column beside the time."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.documented import Documented
from lake_assets.layout.times import TIME_TYPES
from lake_assets.report.state import STATES, PartitionState, State, StreamState, counts_of


@dataclass(frozen=True, slots=True)
class Summary(Documented):
    """The number of a stream's partitions in each state, for each value of the first column that is not a time."""

    stream: str
    """Its name."""
    partitions: str
    """The value, such as `region=NW`; empty for all partitions."""
    committed: int
    """Partitions: the lake has the landed objects."""
    held: int
    """Partitions: restored with a hold, so no refresh changes them."""
    stale: int
    """Partitions: the landed objects have changed since the last commit."""
    failed: int
    """Partitions: the newest run failed."""
    missing: int
    """Partitions: objects have landed and were never committed."""
    absent: int
    """Partitions: nothing has landed."""
    outside: int
    """Partitions that the config does not have."""
    rows: int
    """In the lake."""
    newest_commit: dt.datetime | None
    """Its time, with a time zone; null without a commit."""

    @property
    def counts(self) -> dict[State, int]:
        """The number of partitions in each state, for every state."""
        return {state: getattr(self, state) for state in STATES}


def summarize(state: StreamState) -> list[Summary]:
    """Count partitions by value of the first column that is not a time; all in one row if none is beside a time."""
    groups: dict[str, list[PartitionState]] = {}
    columns = [index for index, column in enumerate(state.columns) if column.type not in TIME_TYPES]
    beside = columns[0] if columns and len(state.columns) > 1 else None
    for partition in state.partitions:
        if beside is None:
            group = ""
        else:
            column = state.columns[beside]
            group = f"{column.name}={column.text(partition.partition.values[beside])}"
        groups.setdefault(group, []).append(partition)
    return [_summary(state.stream, group, partitions) for group, partitions in groups.items()]


def total(summaries: Sequence[Summary]) -> Summary:
    """Return the counts over all summaries."""
    counts = {state: sum(summary.counts[state] for summary in summaries) for state in STATES}
    newest = _newest(summary.newest_commit for summary in summaries)
    return Summary("", "", **counts, rows=sum(summary.rows for summary in summaries), newest_commit=newest)


def _summary(stream: str, group: str, partitions: Sequence[PartitionState]) -> Summary:
    newest = _newest(partition.committed_at for partition in partitions)
    rows = sum(partition.rows or 0 for partition in partitions)
    return Summary(stream, group, **counts_of(partitions), rows=rows, newest_commit=newest)


def _newest(times: Iterable[dt.datetime | None]) -> dt.datetime | None:
    return max((time for time in times if time is not None), default=None)
