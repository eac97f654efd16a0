"""The report as one self-contained HTML page."""

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import age, count, figure, moment, visible
from lake_assets.ingest.view import view_partition
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.ledger.read import LedgerFilter, read_ledger
from lake_assets.lake.ledger.tables import LEDGER, LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.report.grid import COLOURS, DEPTHS, HeatMap, heat_map
from lake_assets.upkeep.report.state import PartitionState, StreamState, Summary, summarize, total_counts

PREVIEWS = 20  # partitions: each costs the reading of a data file
LINES = 1_000
_NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """A partition that has landed, or is in the ledger."""

    partition: PartitionState
    age: str  # of its newest commit; empty without one
    preview: PartitionView | None = None  # the first rows; None if they were not read
    unread: str = ""  # why they could not be read; empty otherwise


def lines(stream: OpenStream, state: StreamState) -> list[Line]:
    """Return the lines of a stream's partitions: the newest run first, then those that were never run.

    Absent partitions are left out. Those of an encrypted lake have no preview, because the page is a plain file.
    """
    present = [partition for partition in state.partitions if partition.state != "absent"]
    newest = sorted(present, key=lambda partition: partition.finished_at or _NEVER, reverse=True)[:LINES]
    with nullcontext() if stream.lake_config.is_encrypted else stream.lake.open_if_exists() as lake:
        return list(_lines(stream, state, newest, lake))


def _lines(
    stream: OpenStream, state: StreamState, newest: Sequence[PartitionState], lake: LakeSession | None
) -> Iterator[Line]:
    previews = 0
    for partition in newest:
        when = partition.committed_at
        text = age((state.read_at - when).total_seconds()) if when is not None else ""
        if lake is None or when is None or previews == PREVIEWS:
            yield Line(partition, text)
            continue
        previews += 1
        try:
            view = view_partition(lake, stream.table, partition.partition, partition.rows)
        except LakeAssetsError as error:
            yield Line(partition, text, unread=str(error))
        else:
            yield Line(partition, text, view)


LIMIT = 100  # of partitions in a table
FEW = 20  # of partitions without runs, which are often many
RUNS = 20


@dataclass(frozen=True, slots=True)
class Section:
    """The page's part for one stream."""

    state: StreamState
    description: str
    groups: Sequence[tuple[str, Summary]]
    runs: Sequence[LedgerRow]
    heat_map: HeatMap
    lines: Sequence[Line] = ()


def section(stream: OpenStream, state: StreamState) -> Section:
    """Return the page's part for a stream."""
    summaries = summarize(state)
    names = [(summary.partitions or "all", summary) for summary in summaries]
    if len(summaries) > 1:
        names.append(("all", total_counts(summaries)))
    return Section(
        state,
        stream.config.description or f"Table {state.table}, from {stream.source.root}.",
        names,
        _newest_runs(stream),
        heat_map(state),
        lines(stream, state),
    )


def page(sections: Sequence[Section], title: str, made: dt.datetime) -> str:
    """Return the page as HTML.

    Every text of a config, a ledger or a path is escaped, control characters too. The page loads nothing, and its
    policy forbids it.
    """
    environment = Environment(
        loader=PackageLoader("lake_assets", "upkeep/report"),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"time": moment, "count": count, "number": figure}
    return environment.get_template("page.html.j2").render(
        title=title,
        made=made,
        streams=sections,
        totals=[(part.state.stream, total_counts(summarize(part.state))) for part in sections],
        colours=COLOURS,
        depths=DEPTHS,
        limit=LIMIT,
        few=FEW,
        most=LINES,
    )


def _newest_runs(stream: OpenStream) -> list[LedgerRow]:
    with stream.lake.open_if_exists() as lake:
        if lake is None or not lake.exists(LEDGER.name(lake.config)):
            return []
        return read_ledger(lake, LedgerFilter(stream.names), RUNS)
