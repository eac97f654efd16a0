"""The figures of docs/explanation/scale.md."""

from collections.abc import Iterator, Mapping, Sequence

from dev.benchmarks.pages import table, with_sections
from dev.benchmarks.scale.results import Grown, Rate, Results


def with_figures(page: str, results: Results) -> str:
    """The page with the figures of these results.

    Raises:
        ValueError: the page lacks a marker.
    """
    return with_sections(
        page,
        {
            "machine": _machine(results),
            "writers": _writers(results.writers),
            "table": _table(results),
            "ledger": _grown("ledger rows", results.ledger),
            "objects": _grown("objects", results.objects),
            "driver": _grown("partitions of a run", results.driver),
        },
    )


def _machine(results: Results) -> Iterator[str]:
    machine = results.machine
    if results.quick:
        yield "*These are the figures of `--quick`: small sizes, few rounds. They only show that everything runs.*"
        yield ""
    parts: dict[str, list[str]] = {}
    for part, day in results.measured.items():
        parts.setdefault(f"{day:%Y-%m-%d}", []).append(part)
    days = "; ".join(f"{', '.join(of_day)} on {day}" for day, of_day in parts.items())
    yield (
        f"{machine.cores} cores of {machine.processor}, {machine.memory:g} GB, {machine.system}, "
        f"Python {machine.python}. Measured: {days}."
    )


def _writers(rates: Sequence[Rate]) -> Iterator[str]:
    head = (
        "writers",
        "lakes",
        "tables",
        "`commit_batch`",
        "files",
        "commits a second",
        "partitions a second",
        "one commit, with its wait",
    )
    yield from table(
        head,
        [
            (
                str(one.writers),
                str(one.lakes),
                str(one.tables),
                str(one.batch),
                f"S3, {one.latency * 1000:.0f} ms a request" if one.latency else "local",
                f"{one.rate:.1f}",
                f"{one.partitions:.0f}",
                shown(one.median),
            )
            for one in rates
        ],
    )


def _table(results: Results) -> Iterator[str]:
    for title, grown in (("partitions", results.table), ("partitions, with the index", results.indexed)):
        yield from _grown(title, grown)
        yield ""


def _grown(what: str, grown: Sequence[Grown]) -> Iterator[str]:
    names: Mapping[str, float] = grown[0].seconds if grown else {}
    rows = [(f"{one.size:,}", *(shown(one.seconds[name]) for name in names)) for one in grown]
    yield from table((what, *names), rows)


def shown(seconds: float) -> str:
    """Seconds with two digits that matter."""
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
