"""The plots of the page."""

from functools import partial

from matplotlib.figure import Figure

from dev.benchmarks.peers.plots import bars, of_each
from dev.benchmarks.plotted import Drawings
from dev.benchmarks.tpch.parts import PARTS
from dev.benchmarks.tpch.results import Measured, Results

_HEADLINE = ("once", "each", "restated", "writers")


def drawings(results: Results) -> Drawings:
    """The headline, and the queries."""
    return {
        "headline": (any(results.parts.values()), partial(_headline, results)),
        "queries": (any(results.queries.values()), partial(_queries, results)),
    }


def _headline(results: Results) -> Figure:
    """Wall and processor seconds of the parts, and what readers have found."""
    figure = Figure(figsize=(9.6, 10.4), layout="constrained")
    grid = figure.subplots(len(_HEADLINE) + 1, 2, squeeze=False)
    for row, part in zip(grid, _HEADLINE, strict=False):
        found = results.parts.get(part, {})
        if part == "each":  # not all peers do all partitions in the time that they have
            walls = of_each(found, Measured, lambda one: 1000 * one.wall / one.done)
            processors = of_each(found, Measured, lambda one: 1000 * one.processor / one.done)
            unit, form = "ms each", "{:,.0f}"
        else:
            walls = of_each(found, Measured, lambda one: one.wall)
            processors = of_each(found, Measured, lambda one: one.processor)
            unit, form = "s", "{:.1f}"
        bars(row[0], f"{PARTS[part]}: {unit}", walls, form)
        bars(row[1], f"processor {unit}", processors, form)
    found = results.parts.get("reader", {})
    bars(grid[-1][0], "Wrong reads", of_each(found, Measured, lambda one: one.wrong), "{:,.0f}")
    failed = of_each(found, Measured, lambda one: sum(one.errors.values()))
    bars(grid[-1][1], "failed reads", failed, "{:,.0f}")
    for row in grid:
        row[1].set_yticklabels([])
    figure.suptitle(
        f"TPC-H's lineitem of scale {results.scale:g}: {results.rows:,} rows in {results.partitions:,} partitions,"
        f" {results.storage}",
        fontsize=10,
    )
    return figure


def _queries(results: Results) -> Figure:
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    for number, (axes, (name, found)) in enumerate(
        zip(figure.subplots(1, len(results.queries)), results.queries.items(), strict=True)
    ):
        bars(axes, f"{name}: s", of_each(found, tuple, lambda one: one[1]), "{:.2f}")
        if number:
            axes.set_yticklabels([])
    return figure
