"""A stream's partitions in a few rows: one for each value of the column beside the time."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.layout.times import TIME_TYPES
from lake_assets.report.state import PartitionState, State, StreamState, counts_of


@dataclass(frozen=True, slots=True)
class Summary:
    """Some partitions of a stream together."""

    stream: str
    group: str  # such as region=NW; empty where it is all of them
    counts: dict[State, int]
    rows: int  # in the lake
    newest_commit: dt.datetime | None


def summarize(state: StreamState) -> list[Summary]:
    """A row for each value of the first column that is no time; one row where there is none beside it."""
    groups: dict[str, list[PartitionState]] = {}
    columns = [index for index, column in enumerate(state.columns) if column.type not in TIME_TYPES]
    beside = columns[0] if columns and len(state.columns) > 1 else None
    for one in state.partitions:
        if beside is None:
            group = ""
        else:
            column = state.columns[beside]
            group = f"{column.name}={column.text(one.partition.values[beside])}"
        groups.setdefault(group, []).append(one)
    return [_summary(state.stream, group, some) for group, some in groups.items()]


def total(summaries: Sequence[Summary]) -> Summary:
    """All of them together."""
    counts: dict[State, int] = {}
    for summary in summaries:
        for state, number in summary.counts.items():
            counts[state] = counts.get(state, 0) + number
    newest = _newest(summary.newest_commit for summary in summaries)
    return Summary("", "", counts, sum(summary.rows for summary in summaries), newest)


def _summary(stream: str, group: str, partitions: Sequence[PartitionState]) -> Summary:
    newest = _newest(one.committed_at for one in partitions)
    return Summary(stream, group, counts_of(partitions), sum(one.rows or 0 for one in partitions), newest)


def _newest(times: Iterable[dt.datetime | None]) -> dt.datetime | None:
    return max((time for time in times if time is not None), default=None)
