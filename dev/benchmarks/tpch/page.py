"""The figures of docs/explanation/tpch.md, between its markers."""

from collections.abc import Iterator

from dev.benchmarks.pages import table, with_sections
from dev.benchmarks.peers.catalogue import OURS, PEERS
from dev.benchmarks.peers.page import measured_on, reason
from dev.benchmarks.peers.results import Failure
from dev.benchmarks.tpch.parts import PARTS
from dev.benchmarks.tpch.results import Measured, Results

_FULL = 1.0  # the scale of the page
_HEAD = ("seconds", "times ours", "processor seconds", "peak MB", "MB read", "MB written", "partitions", "wrong reads")


def with_figures(page: str, results: Results, on_servers: Results | None) -> str:
    """The page with the figures of these results.

    Args:
        page: as it is written.
        results: of local files.
        on_servers: of SeaweedFS with PostgreSQL, if it was measured.

    Raises:
        ValueError: the page lacks a marker.
    """
    parts = {part: _part(results, part) for part in PARTS}
    servers = _whole(on_servers) if on_servers else iter(["Not measured yet."])
    sections = {"machine": _machine(results), **parts, "queries": _queries(results), "servers": servers}
    return with_sections(page, sections)


def _whole(results: Results) -> Iterator[str]:
    yield from _machine(results)
    for part in PARTS:
        yield ""
        yield from _part(results, part)
    yield ""
    yield from _queries(results)


def _machine(results: Results) -> Iterator[str]:
    if results.scale < _FULL:
        yield f"*These are the figures of scale {results.scale:g}. They only show that everything runs.*"
        yield ""
    yield (
        f"Scale {results.scale:g}: {results.rows:,} rows in {results.partitions:,} partitions, of which"
        f" {results.restated:,} are restated; {results.storage}."
    )
    yield ""
    yield from measured_on(results.measured, results.machine, results.versions)


def _title(name: str) -> str:
    title = PEERS[name].title
    return f"**{title}**" if PEERS[name].is_ours else title


def _part(results: Results, part: str) -> Iterator[str]:
    found = results.parts.get(part, {})
    ours = found.get(OURS)
    rows = []
    for name, one in found.items():
        if isinstance(one, Failure):
            rows.append((_title(name), reason(one), *[""] * (len(_HEAD) - 1)))
            continue
        ratio = f"{_compared(part, one) / _compared(part, ours):.2f}" if isinstance(ours, Measured) else ""
        amounts = ("" if value is None else f"{value:,.0f}" for value in (one.memory, one.read, one.written))
        reads = f"{one.wrong} of {one.reads}" if one.reads else ""
        errors = "".join(f"; {number} x {text}" for text, number in one.errors.items()).replace("|", "\\|")
        done = f"{one.done:,}" + (f", {one.refused} refused" if one.refused else "")
        rows.append(
            (
                _title(name),
                f"{one.wall:.2f}",
                ratio,
                f"{one.processor:.2f}",
                *amounts,
                done,
                (reads + errors).strip("; "),
            )
        )
    yield from table((PARTS[part], *_HEAD), rows)


def _compared(part: str, one: Measured) -> float:
    """Seconds; a backfill by single commits may have ended early, so those of a partition."""
    return one.wall / one.done if part == "each" else one.wall


def _queries(results: Results) -> Iterator[str]:
    rows = []
    for name in PEERS:
        cells = [found.get(name) for found in results.queries.values()]
        if any(cells):
            shown = (
                reason(cell) if isinstance(cell, Failure) else f"{cell[0]:.3f}, {cell[1]:.3f}" if cell else ""
                for cell in cells
            )
            rows.append((_title(name), *shown))
    yield from table(("seconds before, after", *results.queries), rows)
