"""The report as one self-contained HTML page."""

import base64
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from lake_assets.errors import MissingExtraError
from lake_assets.escapes import visible
from lake_assets.lake.ledger.reading import read_ledger
from lake_assets.lake.ledger.tables import LedgerRow, ledger_table
from lake_assets.report.lines import LINES, Line, lines
from lake_assets.report.picture import heat_map
from lake_assets.report.sheet import COLOURS
from lake_assets.report.state import PartitionState, StreamState
from lake_assets.report.summary import Summary, summarize, total
from lake_assets.streams.stream import OpenStream

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
    image: str  # PNG in base64; empty if the packages for pictures are not installed
    lines: Sequence[Line] = ()

    @property
    def held(self) -> list[PartitionState]:
        """The partitions that a restore keeps refreshes off."""
        return [partition for partition in self.state.partitions if partition.holder is not None]


def section(stream: OpenStream, state: StreamState) -> Section:
    """The page's part for a stream.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    summaries = summarize(state)
    names = [(summary.group or "all", summary) for summary in summaries]
    if len(summaries) > 1:
        names.append(("all", total(summaries)))
    return Section(
        state,
        stream.config.description or f"Table {state.table}, from {stream.source.root}.",
        names,
        _newest_runs(stream),
        _picture(state),
        lines(stream, state),
    )


def _picture(state: StreamState) -> str:
    try:
        return base64.b64encode(heat_map(state)).decode()
    except MissingExtraError:
        return ""


def page(sections: Sequence[Section], title: str, made: dt.datetime) -> str:
    """The page as HTML.

    Every text of a config, a ledger or a path is escaped, control characters too. The page loads nothing, and its
    policy forbids it.

    Args:
        sections: one for each stream.
        title: of the page.
        made: the time of the report, with a time zone.
    """
    environment = Environment(
        loader=PackageLoader("lake_assets", "report"),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["time"] = _time
    return environment.get_template("page.html.j2").render(
        title=title,
        made=made,
        streams=sections,
        totals=[(part.state.stream, total(summarize(part.state))) for part in sections],
        colours=COLOURS,
        limit=LIMIT,
        few=FEW,
        most=LINES,
    )


def _newest_runs(stream: OpenStream) -> list[LedgerRow]:
    with stream.lake.open_if_exists() as lake:
        if lake is None or not lake.exists(ledger_table(lake.config)):
            return []
        return read_ledger(lake, stream.name, limit=RUNS)


def _time(moment: dt.datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}"
