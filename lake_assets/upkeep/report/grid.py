"""The heat map of a stream's partitions: blocks of cells, by the columns and the number of partitions.

Colours are states, and deeper blue is more rows. They suit red-green blindness: blues, and Okabe and Ito's orange and
vermilion (Color Universal Design, 2008).

| partition columns                 | blocks                                                                     |
|-----------------------------------|----------------------------------------------------------------------------|
| days, up to two months            | one: a row for each other value, a column for each day                     |
| days, more                        | calendars: one a value and year, a column for each week, a row a weekday   |
| days, too many for calendars      | one a year: a row for each value, a narrow column for each day             |
| hours                             | one a value and year: a column for each day, a row for each hour           |
| hours, too many for that          | as days, where a day shows the worst of its hours                          |
| weeks                             | one a year: a row for each value, a column for each week                   |
| months, years                     | one a decade, or forty years: a row for each value                         |
| no time                           | a row for each value of the first column, a column for each of the second  |

Of more than two columns, those beside the time are one, with their values joined, and without a time the last ones are.
"""

import datetime as dt
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from lake_assets.base.texts import count
from lake_assets.config.layout.partition import WHOLE, PartitionType, PartitionValue
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.upkeep.report.state import PartitionState, State, StreamState

COLOURS: Mapping[State, str] = {
    "committed": "#4a90c4",  # in legends; in the map the depth of blue is the number of rows
    "held": "#009e73",
    "stale": "#f0b400",
    "failed": "#d55e00",
    "missing": "#8c8c8c",
    "absent": "#ececec",
    "outside": "#c9a9c9",
}

# From few rows to many; without the lightest blues, which resemble an absent partition.
DEPTHS = (
    *("#b7d4ea", "#9dcae1", "#7db8da", "#60a7d2", "#4695c8"),
    *("#3181bd", "#1d6cb1", "#0e58a2", "#084488", "#08306b"),
)

_WORST: Sequence[State] = ("absent", "committed", "held", "missing", "stale", "failed")  # the last one


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the heat map."""

    state: State
    rows: int | None  # in the lake


@dataclass(frozen=True, slots=True)
class GridBlock:
    """A grid of cells with labels; x from left to right, y from top to bottom, both from 0."""

    title: str
    width: int
    height: int
    cells: Mapping[tuple[int, int], Cell]  # by x and y
    x_labels: Sequence[tuple[int, str]]
    y_labels: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The blocks of one heat map, from top to bottom, with the size of their cells in pixels."""

    blocks: Sequence[GridBlock]
    cell: tuple[int, int]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A sheet as a page draws it."""

    sheet: Sheet  # without the oldest blocks of very many, which a note says
    fewest: int  # rows of a committed partition; 0 if there is none
    most: int

    def labels(self, block: GridBlock) -> Iterator[tuple[int, str]]:
        """Yield the labels above a block that do not cover the one before."""
        free = 0
        for x, text in block.x_labels:
            if x * self.sheet.cell[0] >= free:
                yield x, text
                free = x * self.sheet.cell[0] + _LETTER * (len(text) + 1)

    def lines(self, block: GridBlock) -> Iterator[tuple[str, Sequence[tuple[str, str]]]]:
        """Yield the lines of a block from top to bottom: each with its label and its cells.

        A cell has a class, which is its state or `d0` to `d9` for the rows of a committed one, and a title. Both are
        empty where there is no partition.
        """
        drawn = {cell: self._drawn(cell) for cell in set(block.cells.values())}
        labels = dict(block.y_labels)
        for y in range(block.height):
            cells = [block.cells.get((x, y)) for x in range(block.width)]
            yield labels.get(y, ""), [("", "") if cell is None else drawn[cell] for cell in cells]

    def _drawn(self, cell: Cell) -> tuple[str, str]:
        title = cell.state if cell.rows is None else f"{cell.state}, {count(cell.rows, 'row')}"
        if cell.state != "committed":
            return cell.state, title
        few, many, rows = self.fewest, self.most, cell.rows or 0
        if not rows or few == many:
            share = float(bool(rows))
        elif many / few >= _LOGARITHMIC:
            share = math.log(rows / few) / math.log(many / few)
        else:
            share = (rows - few) / (many - few)
        return f"d{round(share * (len(DEPTHS) - 1))}", title


_LETTER = 6  # pixels
_LOGARITHMIC = 1000  # from this ratio of most to fewest rows
MOST_CELLS = 20_000  # of a heat map; a cell takes some 50 bytes of the page

Placed = list[tuple[PartitionValue, dt.datetime, Cell]]
"""Cells with the value of the row's column and the time."""

PLAIN_DAYS = 62
CALENDARS = 12  # blocks of a value and year
LINES = 150  # rows of one block; more are left out, with a note
COLUMNS = 60  # of values that are not times, in a block
TILES = 40  # in a row, of values without labels


Group = TypeVar("Group", bound=Hashable)


def heat_map(state: StreamState) -> HeatMap:
    """Return the heat map of a stream's partitions."""
    sheet = arrange(state)
    kept: list[GridBlock] = []
    cells = 0
    for block in reversed(sheet.blocks):
        cells += block.width * block.height
        if kept and cells > MOST_CELLS:
            break
        kept.insert(0, block)
    notes = list(sheet.notes)
    if len(kept) < len(sheet.blocks):
        notes.append(f"the last {len(kept)} of {len(sheet.blocks)} blocks")
    rows = [c.rows for block in kept for c in block.cells.values() if c.state == "committed" and c.rows]
    return HeatMap(Sheet(kept, sheet.cell, notes), min(rows, default=0), max(rows, default=0))


def arrange(state: StreamState) -> Sheet:
    """Return the sheet of a stream's partitions."""
    inside = [partition for partition in state.partitions if partition.state != "outside"]
    # One day of the year 2099 would leave no room for the others.
    left_out = len(state.partitions) - len(inside)
    sheet = _arrange(state, inside)
    notes = [f"{left_out:,} outside the config: not shown"] if left_out else []
    return Sheet(sheet.blocks, sheet.cell, [*notes, *sheet.notes])


def _arrange(state: StreamState, partitions: Sequence[PartitionState]) -> Sheet:
    kinds = [column.type for column in state.columns]
    times = [index for index, kind in enumerate(kinds) if kind in TIME_TYPES]
    if not times:
        return _without_time(partitions)
    at = times[-1]
    placed: Placed = []
    without = 0
    for partition in partitions:
        values = list(partition.partition.values)
        value = values.pop(at)
        if value is None:
            without += partition.state != "absent"
            continue
        cell = Cell(partition.state, partition.rows)
        placed.append((_one_of(values), TIME_TYPES[kinds[at]].start(value), cell))
    notes = [f"{without:,} with {state.columns[at].name} NULL: not shown"] if without else []
    if not placed:
        return Sheet((), (14, 14), notes)
    sheet = _ARRANGED[kinds[at]](placed)
    return Sheet(sheet.blocks, sheet.cell, [*notes, *sheet.notes])


def _days(placed: Placed) -> Sheet:
    days = [time for _, time, _ in placed]
    first, last = min(days), max(days)
    length = (last - first).days + 1
    if length <= PLAIN_DAYS:
        period = f"{first:%Y-%m-%d}" + (f" to {last:%Y-%m-%d}" if last > first else "")
        return _strips(placed, lambda _: period, lambda t: (t - first).days, lambda _: length, _day_labels, (15, 18))
    rows, years = _ordered(value for value, _, _ in placed), {day.year for day in days}
    if len(rows) * len(years) <= CALENDARS:
        return _panels(placed, _calendar, (12, 12))
    return _strips(
        placed,
        lambda t: f"{t.year:04}",
        lambda t: t.timetuple().tm_yday - 1,
        lambda title: (dt.date(int(title), 12, 31) - dt.date(int(title), 1, 1)).days + 1,
        _month_labels,
        (2, 12) if len(rows) > 20 else (2, 16),
    )


def _hours(placed: Placed) -> Sheet:
    rows, years = _ordered(value for value, _, _ in placed), {time.year for _, time, _ in placed}
    if len(rows) * len(years) <= CALENDARS:
        days = len({time.date() for _, time, _ in placed})
        return _panels(placed, _hours_of_days, (max(2, min(14, 720 // days)), 5))
    sheet = _days(_merged([(value, time.replace(hour=0), cell) for value, time, cell in placed]))
    return Sheet(sheet.blocks, sheet.cell, ["a day shows the worst of its hours", *sheet.notes])


def _months(placed: Placed) -> Sheet:
    return _strips(
        placed,
        lambda t: _span(t, 10),
        lambda t: t.year % 10 * 12 + t.month - 1,
        lambda _: 120,
        lambda placed: {(t.year % 10 * 12, f"{t.year:04}") for _, t, _ in placed},
        (6, 16),
    )


def _weeks(placed: Placed) -> Sheet:
    return _strips(
        placed,
        lambda t: f"{t.isocalendar().year:04}",
        lambda t: t.isocalendar().week - 1,
        lambda _: 53,
        lambda _: {(week - 1, f"W{week:02}") for week in range(1, 53, 10)},
        (12, 16),
    )


def _years(placed: Placed) -> Sheet:
    return _strips(
        placed,
        lambda t: _span(t, 40),
        lambda t: t.year % 40,
        lambda _: 40,
        lambda placed: {(t.year % 40, f"{t.year:04}") for _, t, _ in placed if t.year % 5 == 0},
        (16, 16),
    )


def _span(time: dt.datetime, years: int) -> str:
    first = time.year // years * years
    return f"{first:04} to {first + years - 1:04}"


_ARRANGED: Mapping[PartitionType, Callable[[Placed], Sheet]] = {
    "year": _years,
    "month": _months,
    "week": _weeks,
    "date": _days,
    "hour": _hours,
}


def _strips(
    placed: Placed,
    title: Callable[[dt.datetime], str],
    x: Callable[[dt.datetime], int],
    width: Callable[[str], int],
    x_labels: Callable[[Placed], Iterable[tuple[int, str]]],
    cell: tuple[int, int],
) -> Sheet:
    """Return a block for each title, in each a row for each value."""
    rows = _ordered(value for value, _, _ in placed)
    lines = {value: y for y, value in enumerate(rows[:LINES])}
    blocks = []
    for name, group in sorted(_grouped(placed, lambda item: title(item[1])), key=itemgetter(0)):
        cells = {(x(time), lines[value]): shown for value, time, shown in group if value in lines}
        labels = [(y, _label(value)) for value, y in lines.items()]
        blocks.append(GridBlock(name, width(name), len(lines), cells, sorted(x_labels(group)), labels))
    return Sheet(blocks, cell, _left_out(rows))


def _panels(placed: Placed, draw: Callable[[str, Placed], GridBlock], cell: tuple[int, int]) -> Sheet:
    """Return a block for each value and year."""
    blocks = []
    for value, of_value in _grouped(placed, itemgetter(0)):
        for year, of_year in sorted(_grouped(of_value, lambda item: item[1].year), key=itemgetter(0)):
            blocks.append(draw(f"{_label(value)}  {year:04}".strip(), of_year))
    return Sheet(blocks, cell, ())


def _calendar(title: str, placed: Placed) -> GridBlock:
    """Return a year of days: a column for each week, Monday on top."""
    first = dt.datetime(placed[0][1].year, 1, 1)  # noqa: DTZ001 - a clock's face
    before = first.weekday()

    def week(day: dt.datetime) -> int:
        return ((day - first).days + before) // 7

    cells = {(week(day), day.weekday()): cell for _, day, cell in placed}
    months = {(week(day.replace(day=1)), f"{day:%b}") for _, day, _ in placed}
    return GridBlock(title, 54, 7, cells, sorted(months), [(0, "Mon"), (2, "Wed"), (4, "Fri")])


def _hours_of_days(title: str, placed: Placed) -> GridBlock:
    """Return a column for each day from the first to the last, midnight on top."""
    first = min(time for _, time, _ in placed).replace(hour=0)
    cells = {((time - first).days, time.hour): cell for _, time, cell in placed}
    width = max(x for x, _ in cells) + 1
    days = [first + dt.timedelta(days=x) for x in range(width)]
    if width <= PLAIN_DAYS:
        labels = [(x, f"{day.day} {day:%b}") for x, day in enumerate(days) if x == 0 or day.weekday() == 0]
    else:
        labels = [(x, f"{day:%b}") for x, day in enumerate(days) if day.day == 1]
    return GridBlock(title, width, 24, cells, labels, [(hour, f"{hour:02}h") for hour in (0, 6, 12, 18)])


def _day_labels(placed: Placed) -> Iterable[tuple[int, str]]:
    first = min(time for _, time, _ in placed)
    days = {time for _, time, _ in placed if time == first or time.weekday() == 0}
    # Two labels that are a day apart would overlap.
    return {((day - first).days, f"{day.day} {day:%b}") for day in days if day == first or (day - first).days > 2}


def _month_labels(placed: Placed) -> Iterable[tuple[int, str]]:
    return {(time.replace(day=1).timetuple().tm_yday - 1, f"{time:%b}") for _, time, _ in placed}


def _without_time(partitions: Sequence[PartitionState]) -> Sheet:
    """Return a row for each value of the first column; a column for each of the second, in blocks of `COLUMNS`."""
    placed = [(p.partition.values or (WHOLE,), Cell(p.state, p.rows)) for p in partitions]
    rows = _ordered(values[0] for values, _ in placed)
    if placed and len(placed[0][0]) == 1 and len(rows) > LINES:
        return _tiles(partitions)
    lines = {value: y for y, value in enumerate(rows[:LINES])}
    columns = _ordered(_one_of(values[1:]) for values, _ in placed if len(values) > 1) or [""]
    by_values = {(values[0], _one_of(values[1:])): cell for values, cell in placed}
    blocks = []
    for start in range(0, len(columns), COLUMNS):
        in_block = columns[start : start + COLUMNS]
        cells = {
            (x, y): cell
            for value, y in lines.items()
            for x, column in enumerate(in_block)
            if (cell := by_values.get((value, column)))
        }
        x_labels = [(x, _label(column)) for x, column in enumerate(in_block) if column != ""]
        blocks.append(
            GridBlock("", len(in_block), len(lines), cells, x_labels, [(y, _label(v)) for v, y in lines.items()])
        )
    return Sheet(blocks, (16, 16) if columns != [""] else (120, 16), _left_out(rows))


def _one_of(values: Sequence[PartitionValue]) -> PartitionValue:
    """Return the values of several columns as one; an empty text of none."""
    return values[0] if len(values) == 1 else " / ".join("NULL" if value is None else str(value) for value in values)


def _tiles(partitions: Sequence[PartitionState]) -> Sheet:
    """Arrange many values without names, in lines from left to right."""
    cells = {(n % TILES, n // TILES): Cell(p.state, p.rows) for n, p in enumerate(partitions)}
    labels = [(y, _label(partitions[y * TILES].partition.values[0])) for y in range(0, -(-len(partitions) // TILES), 5)]
    return Sheet([GridBlock("", TILES, -(-len(partitions) // TILES), cells, (), labels)], (14, 14), ())


def _ordered(values: Iterable[PartitionValue]) -> list[PartitionValue]:
    """Return the distinct values in their order."""
    return list(dict.fromkeys(values))


def _grouped(
    placed: Placed, by: Callable[[tuple[PartitionValue, dt.datetime, Cell]], Group]
) -> list[tuple[Group, Placed]]:
    """Return the cells in groups by the result of `by`, in the order of their first cells."""
    groups: dict[Group, Placed] = {}
    for item in placed:
        groups.setdefault(by(item), []).append(item)
    return list(groups.items())


def _left_out(rows: Sequence[PartitionValue]) -> Sequence[str]:
    return [f"the first {LINES} of {len(rows):,} rows"] if len(rows) > LINES else []


def _label(value: PartitionValue) -> str:
    """Return a value as a label; a long one is cut."""
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


def _merged(placed: Placed) -> Placed:
    """Return one cell for each position: the worst state and all rows of its cells."""
    by_position: dict[tuple[PartitionValue, dt.datetime], Cell] = {}
    for value, time, cell in placed:
        other = by_position.get((value, time))
        if other is not None:
            state = max(cell.state, other.state, key=_WORST.index)
            rows = None if cell.rows is None and other.rows is None else (cell.rows or 0) + (other.rows or 0)
            by_position[value, time] = Cell(state, rows)
        else:
            by_position[value, time] = cell
    return [(value, time, cell) for (value, time), cell in by_position.items()]
