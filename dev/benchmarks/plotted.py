"""The results of a measurement, as JSON and plots of a page of the documentation.

A plot is SVG by matplotlib. It has a light ground of its own, so it reads on a dark page too.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.figure import Figure
from pydantic import BaseModel

GROUND, INK = "#f7f8fa", "#24292f"
SETTINGS: Any = {
    "svg.fonttype": "none",  # texts stay texts: they can be searched and read aloud
    "svg.hashsalt": "lake_assets",  # the same results give the same file
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": "#c4cad1",
}

Results = TypeVar("Results", bound=BaseModel)
# By name of the file: whether the part was measured, and its plot.
Drawings = Mapping[str, tuple[bool, Callable[[], Figure]]]


def draw_all(drawings: Drawings, folder: Path) -> list[Path]:
    """Draw a plot of each part that was measured; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (measured, draw) in drawings.items():
        if measured:
            with mpl.rc_context(SETTINGS):
                figure = draw()
                files.append(folder / f"{name}.svg")
                figure.savefig(files[-1], format="svg", facecolor=GROUND, metadata={"Date": None, "Creator": None})
    return files


def write(
    results: Results,
    folder: Path,
    *,
    drawings: Callable[[Results], Drawings],
) -> None:
    """Write the results as JSON, from which the site makes the tables of their page, and as plots."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(results.model_dump_json(indent=1) + "\n", encoding="utf-8")
    draw_all(drawings(results), folder)
