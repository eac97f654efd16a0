"""The marks of many old folders in bounded space."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lake_assets.detection.digests import Mark
from lake_assets.storage.walk import position

# A cursor of so many cells has about 12 kB, and Dagster stores it with every tick.
MOST = 1000
# Reading a cell must not take long, for it is read whole or not at all.
MOST_OBJECTS = 10_000


@dataclass(frozen=True, slots=True)
class Cell:
    """The mark of one folder, or of all folders from one to another."""

    first: str
    last: str
    mark: Mark
    folders: int = 1

    def joined(self, other: "Cell") -> "Cell":
        """The cell of both; the other follows this one."""
        return Cell(self.first, other.last, self.mark.plus(other.mark), self.folders + other.folders)


class Cells:
    """Cells in the order in which the store lists their folders, none overlapping another.

    Up to `MOST` of them, each folder has its own; above that, neighbours are joined.

    Args:
        cells: in any order.
        tree: the store lists folder by folder.
    """

    def __init__(self, cells: Iterable[Cell] = (), *, tree: bool = False) -> None:
        self._tree = tree
        self._cells = sorted(cells, key=self._at)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def of(self, folder: str) -> Cell | None:
        """The cell whose range holds the folder."""
        place = position(folder, tree=self._tree)
        at = bisect_right(self._cells, place, key=self._at) - 1
        return self._cells[at] if at >= 0 and place <= position(self._cells[at].last, tree=self._tree) else None

    def add(self, folder: str, mark: Mark) -> None:
        """Remember a folder that no cell counts yet; one within a joined cell's range becomes part of that."""
        cell = self.of(folder)
        if cell is None:
            self.put(Cell(folder, folder, mark))
        else:
            self.remove(cell)
            self.put(Cell(cell.first, cell.last, cell.mark.plus(mark), cell.folders + 1))

    def put(self, cell: Cell) -> None:
        """Remember a cell whose range is free."""
        insort(self._cells, cell, key=self._at)

    def remove(self, cell: Cell) -> None:
        """Forget a cell."""
        del self._cells[bisect_left(self._cells, self._at(cell), key=self._at)]

    def _at(self, cell: Cell) -> str:
        return position(cell.first, tree=self._tree)

    def shrink(self, most: int = MOST) -> None:
        """Join neighbours, the smallest first, until no more than `most` are left, as far as their size lets."""
        size = 2
        while len(self._cells) > most and size <= 2**20:
            joined: list[Cell] = []
            for cell in self._cells:
                last = joined[-1] if joined else None
                if (
                    last is not None
                    and last.folders + cell.folders <= size
                    and last.mark.objects + cell.mark.objects <= MOST_OBJECTS
                ):
                    joined[-1] = last.joined(cell)
                else:
                    joined.append(cell)
            self._cells = joined
            size *= 2
