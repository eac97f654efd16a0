"""The plots of the page."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dev.benchmarks.peers.catalogue import PEERS
from dev.benchmarks.peers.results import Backfill, Failure, ManyFiles, Refresh, Results, Writers
from dev.benchmarks.plotted import GROUND, INK, Drawings

# Okabe and Ito's blue, sky blue and vermilion (Color Universal Design, 2008) tell apart under colour blindness.
_OURS, _PEER, _PALE, _BAD = "#0072b2", "#8a9bb0", "#cfd8e3", "#d55e00"

Values = Mapping[str, float | None]  # by peer; None: it has no result


def drawings(results: Results) -> Drawings:
    """A plot of each part."""
    return {
        "refresh": (bool(results.small or results.big), partial(_refresh, results)),
        "writers": (bool(results.writers), partial(_writers, results)),
        "files": (bool(results.files), partial(_files, results)),
        "backfill": (bool(results.backfill), partial(_backfill, results)),
    }


def bars(
    axes: Axes,
    title: str,
    values: Values,
    form: str,
    notes: Mapping[str, str] | None = None,
    missing: str = "no result",
) -> None:
    """A bar for each peer, from top to bottom, with its value; this package has its own colour."""
    names = list(values)
    numbers = [values[name] or 0.0 for name in names]
    colours = [_colour(name) for name in names]
    axes.barh(range(len(names)), numbers, color=colours, height=0.68)
    longest = max(numbers, default=0.0) or 1.0
    for position, name in enumerate(names):
        value = values[name]
        text = missing if value is None else form.format(value)
        note = (notes or {}).get(name, "")
        colour = _BAD if value is None or note.startswith("!") else INK
        label = text + (f" ({note.removeprefix('!')})" if note else "")
        axes.text(numbers[position] + longest * 0.02, position, label, va="center", color=colour)
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
    axes.set_xlim(0, longest * (1.9 if notes else 1.35))
    _plain(axes, names)


def _colour(name: str) -> str:
    return _OURS if name in PEERS and PEERS[name].is_ours else _PEER


def _plain(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [PEERS[name].title if name in PEERS else name for name in names])
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_facecolor(GROUND)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)


def of_each(found: Mapping[str, Any], kind: type[Any], value: Callable[[Any], float | None]) -> Values:
    return {name: value(one) if isinstance(one, kind) else None for name, one in found.items()}


def _refresh(results: Results) -> Figure:
    parts = [(title, found) for title, found in _sizes(results) if found]
    figure = Figure(figsize=(9.6, 2.5 * len(parts)), layout="constrained")
    grid = figure.subplots(len(parts), 3, squeeze=False)
    for row, (title, found) in zip(grid, parts, strict=True):
        bars(row[0], f"{title}: seconds", of_each(found, Refresh, lambda one: one.median), "{:.2f}")
        bars(row[1], "processor seconds", of_each(found, Refresh, lambda one: one.processor_median), "{:.2f}")
        bars(row[2], "peak memory, MB", of_each(found, Refresh, lambda one: one.memory), "{:,.0f}")
        for axes in row[1:]:
            axes.set_yticklabels([])
    return figure


def _sizes(results: Results) -> list[tuple[str, Mapping[str, Refresh | Failure]]]:
    return [(results.small_size, results.small), (results.big_size, results.big)]


def _writers(results: Results) -> Figure:
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    notes = {
        name: ("!" if found.difference or found.refused else "")
        + f"{found.retries} retries, {found.refused} refused"
        + (", other rows" if found.difference else "")
        for name, found in results.writers.items()
        if isinstance(found, Writers)
    }
    values = of_each(results.writers, Writers, lambda one: one.rate)
    bars(figure.subplots(), "commits a second of all writers together", values, "{:.1f}", notes)
    return figure


def _files(results: Results) -> Figure:
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    axes = figure.subplots()
    names = list(results.files)
    longest = 0.0
    for position, name in enumerate(names):
        found = results.files[name]
        if isinstance(found, Failure):
            axes.text(0, position, " no result", va="center", color=_BAD)
            continue
        few, many = found.few.median, found.many.median
        longest = max(longest, few, many)
        axes.barh(position - 0.19, few, color=_PALE, height=0.34)
        axes.barh(position + 0.19, many, color=_colour(name), height=0.34)
        axes.text(few, position - 0.19, f" {few:.2f}", va="center", fontsize=8)
        axes.text(many, position + 0.19, f" {many:.2f} ({many / few:.1f} x)", va="center", fontsize=8)
    counts = {found.files for found in results.files.values() if isinstance(found, ManyFiles)}
    many_files = f"{max(counts):,}" if counts else "many"
    axes.set_title(
        f"seconds of one refresh: pale among few files, dark among {many_files}",
        loc="left",
        fontsize=9.5,
        fontweight="bold",
    )
    axes.set_xlim(0, (longest or 1.0) * 1.25)
    _plain(axes, names)
    return figure


def _backfill(results: Results) -> Figure:
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    each = of_each(results.backfill, Backfill, lambda one: one.milliseconds)
    bars(left, "a commit for each partition: ms a partition", each, "{:,.0f}")
    once = of_each(results.backfill, Backfill, lambda one: one.at_once)
    bars(right, "all partitions together: seconds", once, "{:.1f}", missing="none")
    right.set_yticklabels([])
    return figure
