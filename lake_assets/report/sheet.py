"""The parts of a heat map: cells in blocks, blocks on a sheet."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.layout.partition import PartitionValue
from lake_assets.report.state import State

COLOURS: Mapping[State, str] = {
    "committed": "#4a90c4",  # in legends and bars; in the map the depth of blue is the number of rows
    "held": "#009e73",
    "stale": "#f0b400",
    "failed": "#d55e00",
    "missing": "#8c8c8c",
    "absent": "#ececec",
    "outside": "#c9a9c9",
}

_WORST: Mapping[State, int] = {
    "absent": 0,
    "outside": 0,
    "committed": 1,
    "held": 2,
    "missing": 3,
    "stale": 4,
    "failed": 5,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the heat map."""

    state: State
    rows: int | None  # in the lake


@dataclass(frozen=True, slots=True)
class Block:
    """A grid of cells with labels; x from left to right, y from top to bottom, both from 0."""

    title: str
    width: int
    height: int
    cells: Mapping[tuple[int, int], Cell]  # by x and y
    x_labels: Sequence[tuple[int, str]]
    y_labels: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The blocks of one picture, from top to bottom, with the size of their cells in pixels."""

    blocks: Sequence[Block]
    cell: tuple[int, int]
    notes: Sequence[str]


Placed = list[tuple[PartitionValue, dt.datetime, Cell]]
"""Cells with the value of the row's column and the time."""


def label(value: PartitionValue) -> str:
    """Return a value as a label; a long one is cut."""
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


def merged(placed: Placed) -> Placed:
    """One cell for each position: the worst state and all rows of its cells."""
    by_position: dict[tuple[PartitionValue, dt.datetime], Cell] = {}
    for value, time, cell in placed:
        other = by_position.get((value, time))
        if other is not None:
            state = max(cell.state, other.state, key=_WORST.__getitem__)
            rows = None if cell.rows is None and other.rows is None else (cell.rows or 0) + (other.rows or 0)
            by_position[value, time] = Cell(state, rows)
        else:
            by_position[value, time] = cell
    return [(value, time, cell) for (value, time), cell in by_position.items()]
