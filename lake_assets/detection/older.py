"""Comparing what was read of the older partitions with what is remembered of them."""

from collections.abc import Callable, Sequence

from lake_assets.detection.digest_ranges import Cell, Cells
from lake_assets.detection.digests import NOTHING
from lake_assets.detection.reading import Folder, Place, Reading
from lake_assets.detection.run_plan import Batch, Change


def settle(
    reading: Reading, cells: Cells, batch: Batch, since: float, is_active: Callable[[str], bool]
) -> Place | None:
    """Take into the batch what has changed, and remember what is there now.

    An object that only went away is no change: landing zones are swept by age, and the lake must not lose what the
    landing zone forgets. In the active partitions it is one.

    Args:
        reading: of a stretch of keys; its active folders are left alone.
        cells: what is remembered; brought up to date.
        batch: takes the changes.
        since: objects that are older, in seconds of Unix time, had landed when the cells were last read.
        is_active: tells the folders that are not looked at here.

    Returns:
        Where to read on; None at the end of the stretch.
    """
    remembered = list(cells)
    settled: set[Cell] = set()
    for cell, folders in _by_cell([folder for folder in reading.folders if not is_active(folder.path)], cells):
        if cell is not None:
            settled.add(cell)
            if not reading.covers(cell.first):
                continue  # joined with its neighbour under way; the next round reads it whole
            if not reading.covers(cell.last):
                reading.left = Place(reading.begun.prefix, cell.first)
                break
        changed = changed_folders(cell, folders, since)
        if changed and not batch.take(map(change_of, changed)):
            reading.left = Place(reading.begun.prefix, cell.first if cell else folders[0].path)
            break
        if cell is not None:
            cells.remove(cell)
        cells.put(_cell_of(folders))
    for cell in remembered:
        if cell not in settled and reading.covers(cell.first) and reading.covers(cell.last):
            cells.remove(cell)
    return reading.left


def changed_folders(cell: Cell | None, folders: Sequence[Folder], since: float) -> Sequence[Folder]:
    """The folders of a cell that have new objects, as exactly as can be told; all of them where it cannot.

    Args:
        cell: what is remembered of them; None of a new folder.
        folders: what they hold now.
        since: objects that are older had landed when the cell was last read.
    """
    if cell is None:
        return folders
    now = _cell_of(folders).mark
    if now == cell.mark:
        return ()
    fresh = [folder for folder in folders if folder.newest >= since]
    if not fresh and now.objects < cell.mark.objects:
        return ()
    older = NOTHING
    for folder in folders:
        older = older.plus(folder.settled)
    # Without the new objects it is what it was: so nothing else has changed.
    return fresh if fresh and older == cell.mark else folders


def change_of(folder: Folder) -> Change:
    """The change of a folder to what it holds now."""
    return Change(folder.path, folder.mark, tuple(folder.partitions))


def _by_cell(folders: Sequence[Folder], cells: Cells) -> list[tuple[Cell | None, list[Folder]]]:
    """The folders with the cell that each falls in; those of one cell together."""
    groups: list[tuple[Cell | None, list[Folder]]] = []
    for folder in folders:
        cell = cells.of(folder.path)
        if cell is not None and groups and groups[-1][0] is cell:
            groups[-1][1].append(folder)
        else:
            groups.append((cell, [folder]))
    return groups


def _cell_of(folders: Sequence[Folder]) -> Cell:
    """The cell of neighbouring folders."""
    mark = NOTHING
    for folder in folders:
        mark = mark.plus(folder.mark)
    return Cell(folders[0].path, folders[-1].path, mark, len(folders))
