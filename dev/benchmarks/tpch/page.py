"""The figures of docs/explanation/tpch.md, between its markers; the rest of that page is written by hand."""

from collections.abc import Iterator, Mapping

from dev.benchmarks.pages import table, with_sections
from dev.benchmarks.peers.catalogue import OURS
from dev.benchmarks.peers.page import measured_on, reason, title_of
from dev.benchmarks.peers.results import Failure
from dev.benchmarks.tpch.parts import PARTS
from dev.benchmarks.tpch.results import Measured, Results

_MORE = {"reader": ("reads", "wrong", "errors"), "killed": ("reads", "wrong"), "writers": ("errors",)}
_HEAD = ("peer", "partitions", "seconds", "processor seconds", "peak MB", "MB read", "MB written", "times ours")


def with_figures(page: str, results: Results, more: Mapping[str, Results]) -> str:
    """The page with the figures of these results between `<!-- NAME -->` and `<!-- end NAME -->`.

    Args:
        page: as it is written.
        results: on local files.
        more: other runs, each by the name of its section.

    Raises:
        ValueError: the page lacks a marker.
    """
    machine = measured_on(results.measured, results.machine, results.versions)
    sections = {"machine": machine, "parts": _parts(results), "queries": _queries(results)}
    return with_sections(page, sections | {name: _compact(found) for name, found in more.items()})


def _compact(results: Results) -> Iterator[str]:
    """Yield a table with a column for each peer."""
    peers = list(dict.fromkeys(name for found in results.parts.values() for name in found))
    rows = []
    for part, found in results.parts.items():
        cells = []
        for name in peers:
            one = found.get(name)
            text = "" if one is None else reason(one) if isinstance(one, Failure) else _cell(one)
            cells.append(text)
        rows.append((PARTS[part], *cells))
    yield from table(("part", *map(title_of, peers)), rows)


def _cell(one: Measured) -> str:
    errors = f", {sum(one.errors.values())} errors" if one.errors else ""
    return f"{one.wall:.1f} s ({one.processor:.1f}), {one.done:,}, {one.memory:,.0f} MB{errors}"


def _parts(results: Results) -> Iterator[str]:
    for part, found in results.parts.items():
        ours = found.get(OURS)
        yield f"### {PARTS[part]}"
        yield ""
        more = _MORE.get(part, ())
        rows = []
        for name, one in found.items():
            if isinstance(one, Failure):
                rows.append((title_of(name), reason(one), *[""] * (len(_HEAD) + len(more) - 2)))
                continue
            of = _wall if part == "killed" else _pace
            ratio = f"{of(one) / of(ours):.2f}" if isinstance(ours, Measured) else ""
            moved = ("" if figure is None else f"{figure:,.0f}" for figure in (one.read, one.written))
            figures = {"reads": one.reads, "wrong": one.wrong, "errors": sum(one.errors.values())}
            rows.append(
                (
                    title_of(name),
                    f"{one.done:,}",
                    f"{one.wall:.1f}",
                    f"{one.processor:.1f}",
                    f"{one.memory:,.0f}",
                    *moved,
                    ratio,
                    *(str(figures[figure]) for figure in more),
                )
            )
        yield from table((*_HEAD, *more), rows)
        yield ""


def _pace(one: Measured) -> float:
    """Return the seconds of a partition: a part that has a limit of time does not do all of them with each peer."""
    return one.wall / max(one.done, 1)


def _wall(one: Measured) -> float:
    """Return the seconds: how many partitions are left after a kill is a part of what is compared."""
    return one.wall


def _queries(results: Results) -> Iterator[str]:
    rows = []
    peers = dict.fromkeys(name for found in results.queries.values() for name in found)
    for name in peers:
        cells = []
        for found in results.queries.values():
            one = found.get(name)
            text = "" if one is None else reason(one) if isinstance(one, Failure) else f"{one[0]:.2f}, {one[1]:.2f}"
            cells.append(text)
        rows.append((title_of(name), *cells))
    yield from table(("peer", *results.queries), rows)
