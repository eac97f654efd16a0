"""The figures of docs/explanation/benchmarks.md, between its markers; the rest of that page is written by hand."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence

from dev.benchmarks.pages import table, with_sections
from dev.benchmarks.peers.catalogue import OURS, PEERS
from dev.benchmarks.peers.results import Backfill, Failure, Machine, ManyFiles, Refresh, Results, Writers

_LONGEST = 160  # characters of a cell
_ABOUT = 1.05  # a smaller ratio of two times does not count


def with_figures(page: str, results: Results) -> str:
    """The page with the figures of these results between `<!-- NAME -->` and `<!-- end NAME -->`.

    Raises:
        ValueError: the page lacks a marker.
    """
    sections: Mapping[str, Callable[[Results], Iterator[str]]] = {
        "machine": _machine,
        "refresh": _refresh,
        "better": _better,
        "writers": _writers,
        "readers": _readers,
        "files": _files,
        "backfill": _backfill,
    }
    return with_sections(page, {name: lines(results) for name, lines in sections.items()})


def title_of(name: str) -> str:
    """A peer, and how it refreshes; this package in bold."""
    kind = PEERS[name]
    title = f"{kind.title}, {kind.refresh}"
    return f"**{title}**" if kind.is_ours else title


def _cell(text: str) -> str:
    return " ".join(text.split())[:_LONGEST].replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def reason(failure: Failure) -> str:
    """Why a peer has no figures."""
    return f"{'cannot' if failure.cannot else 'failed'}: {_cell(failure.error)}"


def _machine(results: Results) -> Iterator[str]:
    if results.quick:
        yield "*These are the figures of `--quick`: little data, few rounds. They only show that everything runs.*"
        yield ""
    yield from measured_on(results.measured, results.machine, results.versions)


def measured_on(day: dt.date, machine: Machine, versions_of: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """When, on which machine, and with which versions of the peers."""
    yield (
        f"Measured on {day:%Y-%m-%d}: {machine.cores} cores of {machine.processor}, {machine.memory:g} GB,"
        f" {machine.system}, Python {machine.python}."
    )
    yield ""
    versions = (
        (
            f"**{PEERS[name].title}**" if name == OURS else PEERS[name].title,
            ", ".join(" ".join(one) for one in v.items()),
        )
        for name, v in versions_of.items()
    )
    yield from table(("peer", "versions"), list(versions))


def _refresh(results: Results) -> Iterator[str]:
    for size, found in ((results.small_size, results.small), (results.big_size, results.big)):
        if not found:
            continue
        ours = found.get(OURS)
        rows = []
        for name, one in found.items():
            if isinstance(one, Failure):
                rows.append((title_of(name), reason(one), "", "", ""))
                continue
            ratio = f"{one.median / ours.median:.2f}" if isinstance(ours, Refresh) else ""
            memory = f"{one.memory:,.0f}"
            spread = f"{one.median:.2f} ({min(one.wall):.2f}-{max(one.wall):.2f})"
            rows.append((title_of(name), spread, f"{one.processor_median:.2f}", memory, ratio))
        yield from table((size, "seconds", "processor seconds", "peak MB", "times ours"), rows)
        yield ""


def _better(results: Results) -> Iterator[str]:
    """What a peer does better than this package, from the figures alone."""
    lines = [*_better_refresh(results), *_better_elsewhere(results)]
    yield from lines or ["In no line of these tables a peer is better."]


def _better_refresh(results: Results) -> Iterator[str]:
    measures: Sequence[tuple[str, str, Callable[[Refresh], float]]] = (
        ("time", " s", lambda one: one.median),
        ("processor time", " s", lambda one: one.processor_median),
        ("memory", " MB", lambda one: one.memory or 0.0),
    )
    for size, found in ((results.small_size, results.small), (results.big_size, results.big)):
        ours = found.get(OURS)
        if not isinstance(ours, Refresh):
            continue
        for words, unit, value in measures:
            form = "{:,.0f}" if unit == " MB" else "{:.2f}"
            better = [
                f"{PEERS[name].title} ({form.format(value(one))}{unit})"
                for name, one in found.items()
                if isinstance(one, Refresh) and not PEERS[name].is_ours and value(one) * _ABOUT < value(ours)
            ]
            if better:
                here = f"{form.format(value(ours))}{unit}"
                yield f"- {size}: less {words} than this package ({here}): {', '.join(better)}."


def _better_elsewhere(results: Results) -> Iterator[str]:
    ours = results.writers.get(OURS)
    if isinstance(ours, Writers):
        better = [
            f"{PEERS[name].title} ({one.rate:.1f})"
            for name, one in results.writers.items()
            if isinstance(one, Writers) and one.rate > ours.rate * _ABOUT and not one.difference
        ]
        if better:
            yield f"- Writers: more commits a second than this package ({ours.rate:.1f}): {', '.join(better)}."
    many = results.files.get(OURS)
    if isinstance(many, ManyFiles):
        better = [
            f"{PEERS[name].title} ({one.many.median:.2f} s)"
            for name, one in results.files.items()
            if isinstance(one, ManyFiles) and one.many.median * _ABOUT < many.many.median
        ]
        if better:
            here = f"{many.many.median:.2f} s"
            yield f"- Among {many.files:,} files: less time than this package ({here}): {', '.join(better)}."
    each = results.backfill.get(OURS)
    if isinstance(each, Backfill) and each.milliseconds:
        better = [
            f"{PEERS[name].title} ({one.milliseconds:.0f} ms)"
            for name, one in results.backfill.items()
            if isinstance(one, Backfill) and one.milliseconds and one.milliseconds * _ABOUT < each.milliseconds
        ]
        if better:
            yield (
                f"- Backfill: less time for a partition with a commit of its own than this package"
                f" ({each.milliseconds:.0f} ms): {', '.join(better)}."
            )
        once = [
            f"{PEERS[name].title} ({one.at_once:.1f} s)"
            for name, one in results.backfill.items()
            if isinstance(one, Backfill) and one.at_once and each.at_once and one.at_once * _ABOUT < each.at_once
        ]
        if once:
            yield f"- Backfill: less time for all together than this package ({each.at_once:.1f} s): {', '.join(once)}."


def _writers(results: Results) -> Iterator[str]:
    rows = []
    for name, one in results.writers.items():
        if isinstance(one, Failure):
            rows.append((title_of(name), reason(one), "", "", "", ""))
            continue
        errors = "; ".join(f"{number} x {text}" for text, number in one.errors.items())
        rows.append(
            (
                title_of(name),
                f"{one.rate:.1f}",
                str(one.retries),
                str(one.refused),
                "as landed" if one.difference is None else _cell(one.difference),
                _cell(errors),
            )
        )
    head = ("peer", "commits a second", "retries", "refused", "rows at the end", "errors of failed attempts")
    yield from table(head, rows)


def _readers(results: Results) -> Iterator[str]:
    rows = []
    for name, one in results.readers.items():
        if isinstance(one, Failure):
            rows.append((title_of(name), reason(one), "", "", ""))
            continue
        found = ", ".join(f"{int(count):,} rows: {times}" for count, times in one.counts.items())
        errors = "; ".join(f"{number} x {text}" for text, number in one.errors.items())
        rows.append(
            (title_of(name), str(one.refreshes), str(one.reads), _cell(found) or "none", _cell(errors) or "none")
        )
    head = ("peer", "refreshes", "reads", "reads with other numbers of rows", "failed reads")
    yield from table(head, rows)


def _files(results: Results) -> Iterator[str]:
    rows = []
    for name, one in results.files.items():
        if isinstance(one, Failure):
            rows.append((title_of(name), reason(one), "", "", ""))
            continue
        few, many = one.few.median, one.many.median
        added = f"{one.fill:.1f}"
        rows.append((title_of(name), f"{few:.2f}", f"{many:.2f}", f"{many / few:.2f}", added))
    counts = [one.files for one in results.files.values() if isinstance(one, ManyFiles)]
    head = (
        "peer",
        "seconds in a small table",
        f"among {max(counts, default=0):,} files",
        "ratio",
        "adding the files, s",
    )
    yield from table(head, rows)


def _backfill(results: Results) -> Iterator[str]:
    rows = []
    for name, one in results.backfill.items():
        if isinstance(one, Failure):
            rows.append((title_of(name), reason(one), "", ""))
            continue
        done = f"{one.each:,} of {one.partitions:,} in {one.each_seconds:.1f} s"
        once = _cell(one.why_not or "") if one.at_once is None else f"{one.at_once:.1f} s"
        rows.append((title_of(name), done, f"{one.milliseconds or 0:.0f} ms", once))
    yield from table(("peer", "a commit for each partition", "a partition", "all together"), rows)
