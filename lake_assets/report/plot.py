"""The heat map of a stream's partitions as a PNG: colours are states, and deeper blue is more rows.

The colours suit red-green blindness: blues, and Okabe and Ito's orange and vermilion (Color Universal Design, 2008). In
large cells, failed partitions have a cross, and stale ones a dot.
"""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import Colormap, ListedColormap, LogNorm, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from PIL import Image

from lake_assets.layout.texts import count
from lake_assets.report.grid import COLOURS, Block, Cell, Sheet, arrange
from lake_assets.report.state import STATES, State, StreamState

DOTS_PER_INCH = 100
MAX_HEIGHT = 4000  # pixels; above it the oldest blocks are left out, with a note
MIN_WIDTH = 860

_MARGIN = 16
_LINE = 18  # of the head
_BAR = 74  # of the scale of rows
_TITLE, _LABELS, _GAP = 18, 16, 12  # above a block, below its title, between two
_LOGARITHMIC = 1000  # from this ratio of most to fewest rows
_MARKED = 9  # pixels; smaller cells have no marks
_PARTED = 5  # pixels; smaller cells have no white lines between them


def draw(state: StreamState) -> bytes:
    """Return the picture of a stream's partitions, as a PNG; see `picture.heat_map`."""
    buffer = io.BytesIO()
    with _any_letters():
        figure_of(state).savefig(buffer, format="png")
    return _with_palette(buffer)


def figure_of(state: StreamState) -> Figure:
    """Return the picture of a stream's partitions, not drawn yet."""
    with _any_letters():
        drawing = _Drawing(state, arrange(state))
        drawing.head()
        drawing.blocks()
        drawing.notes()
        return drawing.figure


@contextmanager
def _any_letters() -> Iterator[None]:
    """Let letters that the font lacks be boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
        yield


def _with_palette(picture: io.BytesIO) -> bytes:
    """Return the PNG with a palette of 128 colours: half the size, without a visible change."""
    small = io.BytesIO()
    with Image.open(picture) as image:
        image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def _fitting(sheet: Sheet, head: int) -> Sheet:
    """Return the sheet without the oldest blocks that do not fit below a head, which a note says."""
    kept: list[Block] = []
    height = head
    for block in reversed(sheet.blocks):
        height += _block_height(block, sheet.cell)
        if kept and height > MAX_HEIGHT:
            break
        kept.insert(0, block)
    notes = list(sheet.notes)
    if len(kept) < len(sheet.blocks):
        notes.append(f"the last {len(kept)} of {len(sheet.blocks)} blocks")
    return Sheet(kept, sheet.cell, notes)


def _block_height(block: Block, cell: tuple[int, int]) -> int:
    return _TITLE * bool(block.title) + _LABELS * bool(block.x_labels) + block.height * cell[1] + _GAP


class _Drawing:
    """The figure in pixels from its upper left corner."""

    def __init__(self, state: StreamState, sheet: Sheet) -> None:
        self._renderer = RendererAgg(1, 1, DOTS_PER_INCH)  # type: ignore[no-untyped-call]
        self.state = state
        labels = [self.measure(text) for block in sheet.blocks for _, text in block.y_labels]
        self.left = _MARGIN + int(max(labels, default=0)) + 8
        widest = max((block.width for block in sheet.blocks), default=0)
        self.width = max(MIN_WIDTH, self.left + widest * sheet.cell[0] + _MARGIN)
        rows = [c.rows for block in sheet.blocks for c in block.cells.values() if c.state == "committed" and c.rows]
        self.scale = _scale(rows)
        self.blues = _blues()
        self._texts: list[tuple[float, float, str, dict[str, Any]]] = []
        self._swatches: list[tuple[float, float, State]] = []
        self._bar: tuple[float, float] | None = None
        self.y = self._place_head()
        self.sheet = sheet = _fitting(sheet, self.y)
        blocks = sum(_block_height(block, sheet.cell) for block in sheet.blocks)
        self.height = max(self.y + blocks + 16 * len(sheet.notes) + _MARGIN, 140)
        size = (self.width / DOTS_PER_INCH, self.height / DOTS_PER_INCH)
        self.figure = Figure(figsize=size, dpi=DOTS_PER_INCH)

    def measure(self, text: str, **font: Any) -> float:  # noqa: ANN401 - matplotlib's own
        """Return the width of a text."""
        properties = FontProperties(**{"size": 8} | font)
        width, _, _ = self._renderer.get_text_width_height_descent(text, properties, False)  # type: ignore[no-untyped-call]
        return float(width)

    def _shortened(self, text: str, **font: Any) -> str:  # noqa: ANN401 - matplotlib's own
        """Return the text, cut to the width of the picture."""
        if self.measure(text, **font) <= self.width - 2 * _MARGIN:
            return text
        while self.measure(f"{text}…", **font) > self.width - 2 * _MARGIN:
            text = text[:-1]
        return f"{text}…"

    def text(self, x: float, y: float, text: str, **style: Any) -> None:  # noqa: ANN401 - matplotlib's own
        """Write a text with its upper left corner there; a `$` has no meaning."""
        given: dict[str, Any] = {"va": "top", "size": 8, "color": "#333333", "parse_math": False} | style
        self.figure.text(x / self.width, 1 - y / self.height, text, **given)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Add axes without a frame over this rectangle."""
        rectangle = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(rectangle)
        axes.set_axis_off()
        return axes

    def _place_head(self) -> int:
        """Place title, legend with the number of partitions in each state, and the scale of rows; returns the height.

        What does not fit into a line begins another one.
        """
        bold = {"size": 12, "weight": "bold"}
        name = self._shortened(self.state.stream, **bold)
        total = f"{count(len(self.state.partitions), 'partition')} of {self.state.table}"
        shown = self._shortened(f"{total}, {self.state.read_at:%Y-%m-%d %H:%M %Z}")
        is_one_line = self.measure(name, **bold) + self.measure(shown) < self.width - 3 * _MARGIN
        y = 39 if is_one_line else 39 + _LINE
        of_total = (
            (self.width - _MARGIN, 14, shown, {"ha": "right"}) if is_one_line else (_MARGIN, 14 + _LINE, shown, {})
        )
        self._texts = [(_MARGIN, 12, name, bold), of_total]
        x = float(_MARGIN)
        for state, number in self.state.counts.items():
            if state == "outside" and not number:
                continue
            text = f"{state} {number:,}"
            width = 15 + self.measure(text)
            if x + width > self.width - _MARGIN:
                x, y = float(_MARGIN), y + _LINE
            self._swatches.append((x, y + 1, state))
            self._texts.append((x + 15, y, text, {}))
            x += width + 12
        if self.scale is not None:
            few, many = f"{self.scale.vmin:,.0f}", count(int(self.scale.vmax or 0), "row")
            left = self.width - _MARGIN - self.measure(many) - _BAR - 6
            if x > left - 4 - self.measure(few):
                y += _LINE
            self._texts += [(left - 4, y, few, {"ha": "right"}), (left + _BAR + 4, y, many, {})]
            self._bar = left, y + 2
        return y + _LINE + 17

    def head(self) -> None:
        """Draw what `_place_head` has placed."""
        for x, y, text, style in self._texts:
            self.text(x, y, text, **style)
        for x, y, state in self._swatches:
            swatch = self.axes(x, y, 11, 11)
            swatch.add_patch(Rectangle((0, 0), 1, 1, facecolor=COLOURS[state], edgecolor="#b0b0b0", linewidth=0.5))
        if self._bar is not None:
            self.axes(*self._bar, _BAR, 9).imshow(np.linspace(0, 1, 64)[None, :], aspect="auto", cmap=self.blues)

    def blocks(self) -> None:
        """Draw all blocks, from top to bottom."""
        for block in self.sheet.blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        left = self.left
        across, down = self.sheet.cell
        if block.title:
            self.text(left, self.y, block.title, weight="bold", size=9)
            self.y += _TITLE
        self._x_labels(block, left, across)
        for y, text in block.y_labels:
            self.text(left - 6, self.y + (y + 0.5) * down, text, ha="right", va="center_baseline")
        self._cells(block, self.axes(left, self.y, block.width * across, block.height * down))
        self.y += block.height * down + _GAP

    def _x_labels(self, block: Block, left: float, across: int) -> None:
        if not block.x_labels:
            return
        free = 0.0
        for x, text in block.x_labels:
            at = left + x * across
            if at >= free:  # otherwise it would cover the one before
                self.text(at, self.y, text)
                free = at + self.measure(text) + 4
        self.y += _LABELS

    def _cells(self, block: Block, axes: Axes) -> None:
        colours = np.ones((block.height, block.width, 4))
        by_cell = {cell: self._colour(cell) for cell in set(block.cells.values())}
        for (x, y), cell in block.cells.items():
            colours[y, x] = by_cell[cell]
        across, down = self.sheet.cell
        pixels = colours.repeat(down, axis=0).repeat(across, axis=1)
        if min(across, down) >= _PARTED:
            pixels[down - 1 :: down] = 1
            pixels[:, across - 1 :: across] = 1
        axes.imshow(pixels, interpolation="nearest", aspect="auto", extent=(0, block.width, block.height, 0))
        if min(self.sheet.cell) >= _MARKED:
            self._marks(block, axes, "failed", "x")
            self._marks(block, axes, "stale", ".")

    def _marks(self, block: Block, axes: Axes, state: State, mark: str) -> None:
        positions = [position for position, cell in block.cells.items() if cell.state == state]
        xs, ys = [x + 0.5 for x, _ in positions], [y + 0.5 for _, y in positions]
        axes.scatter(xs, ys, marker=mark, s=12, c="white" if state == "failed" else "black", linewidths=1)

    def _colour(self, cell: Cell) -> tuple[float, float, float, float]:
        if cell.state != "committed":
            return to_rgba(COLOURS[cell.state])
        if not cell.rows or self.scale is None:
            return self.blues(0.0)
        return self.blues(float(self.scale(cell.rows)))

    def notes(self) -> None:
        """Write the notes below the picture."""
        for note in self.sheet.notes:
            self.text(_MARGIN, self.y, note, style="italic")
            self.y += 16


def _blues() -> Colormap:
    """Return light to dark, without the lightest tones, which resemble an absent partition."""
    return ListedColormap(colormaps["Blues"](np.linspace(0.3, 1, 128)))


def _scale(rows: Sequence[int]) -> Normalize | None:
    """Scale from the fewest rows to the most; logarithmic if they are far apart. None if no partition has rows."""
    if not rows:
        return None
    few, many = min(rows), max(rows)
    if few == many:
        return Normalize(0, many)
    return LogNorm(few, many) if many / few >= _LOGARITHMIC else Normalize(few, many)


assert set(COLOURS) == set(STATES)  # noqa: S101 - every state has a colour
