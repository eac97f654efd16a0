"""The plots of the page."""

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dev.benchmarks.plotted import GROUND, INK, Drawings
from dev.benchmarks.scale.results import Grown, Results

# Okabe and Ito (Color Universal Design, 2008): they tell apart under colour blindness.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def drawings(results: Results) -> Drawings:
    """A plot of each part."""
    return {
        "writers": (bool(results.writers), partial(_writers, results)),
        "table": (bool(results.table), partial(_table, results)),
        "ledger": (bool(results.ledger), partial(_one, "ledger rows", results.ledger)),
        "objects": (bool(results.objects), partial(_one, "objects", results.objects)),
    }


def _writers(results: Results) -> Figure:
    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    axes = figure.subplots()
    one_lake = [rate for rate in results.writers if rate.lakes == rate.tables == 1 and not rate.latency]
    counts = sorted({rate.writers for rate in one_lake})
    for number, batch in enumerate(sorted({rate.batch for rate in one_lake})):
        of_batch = {rate.writers: rate.partitions for rate in one_lake if rate.batch == batch}
        known = [count for count in counts if count in of_batch]
        _line(axes, number, known, [of_batch[count] for count in known], f"commit_batch: {batch}")
    _plain(axes, "partitions a second of all writers together", "writers of one table")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_ylim(bottom=0)
    return figure


def _table(results: Results) -> Figure:
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _grown(left, "seconds", "partitions", results.table)
    _grown(right, "with the index of partition values", "partitions", results.indexed)
    return figure


def _one(what: str, grown: Sequence[Grown]) -> Figure:
    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    _grown(figure.subplots(), "seconds", what, grown)
    return figure


def _grown(axes: Axes, title: str, what: str, grown: Sequence[Grown]) -> None:
    """A line for each work, on logarithmic scales: a cost that grows with the size has the slope of a diagonal."""
    sizes = [one.size for one in grown]
    for number, name in enumerate(grown[0].seconds if grown else {}):
        _line(axes, number, sizes, [one.seconds[name] for one in grown], name)
    _plain(axes, title, what)
    axes.set_xscale("log")
    axes.set_yscale("log")


def _line(axes: Axes, number: int, x: Sequence[float], y: Sequence[float], label: str) -> None:
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.5, label=label)


def _plain(axes: Axes, title: str, what: str) -> None:
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
    axes.set_xlabel(what)
    axes.set_facecolor(GROUND)
    axes.grid(color="#dfe3e8", linewidth=0.6)
    axes.tick_params(length=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
