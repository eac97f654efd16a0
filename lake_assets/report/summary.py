"""Counts of a stream's partitions: a row for each value of the column beside the time."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.layout.times import TIME_TYPES
from lake_assets.report.state import PartitionState, State, StreamState, counts_of


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over some partitions of a stream."""

    stream: str
    group: str  # such as region=NW; empty for all partitions
    counts: dict[State, int]
    rows: int  # in the lake
    newest_commit: dt.datetime | None


def summarize(state: StreamState) -> list[Summary]:
    """A row for each value of the first column that is no time; one row if there is no such column beside a time."""
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
    """The counts over all summaries."""
    counts: dict[State, int] = {}
    for summary in summaries:
        for state, number in summary.counts.items():
            counts[state] = counts.get(state, 0) + number
    newest = _newest(summary.newest_commit for summary in summaries)
    return Summary("", "", counts, sum(summary.rows for summary in summaries), newest)


def _summary(stream: str, group: str, partitions: Sequence[PartitionState]) -> Summary:
    newest = _newest(partition.committed_at for partition in partitions)
    rows = sum(partition.rows or 0 for partition in partitions)
    return Summary(stream, group, counts_of(partitions), rows, newest)


def _newest(times: Iterable[dt.datetime | None]) -> dt.datetime | None:
    return max((time for time in times if time is not None), default=None)
