import pytest

from lake_assets.detection.digest_ranges import MOST_OBJECTS, Cells
from lake_assets.detection.digests import NOTHING, Mark


def cells_of(count: int, objects: int = 1) -> Cells:
    cells = Cells()
    for number in reversed(range(count)):
        cells.add(f"{number:03}/", Mark(number, objects))
    return cells


def test_each_folder_has_its_own_cell_while_there_is_room() -> None:
    cells = cells_of(10)
    cells.shrink(10)

    assert [(cell.first, cell.last, cell.mark.digest) for cell in cells] == [
        (f"{number:03}/", f"{number:03}/", number) for number in range(10)
    ]
    assert cells.of("0035/") is None


@pytest.mark.parametrize("most", [1, 3, 7, 50, 99])
def test_joined_cells_are_the_sum_of_their_folders(most: int) -> None:
    cells = cells_of(100)
    cells.shrink(most)

    assert len(cells) <= most
    assert sum(cell.folders for cell in cells) == sum(cell.mark.objects for cell in cells) == 100
    assert sum(cell.mark.digest for cell in cells) == sum(range(100))
    for number in range(100):
        cell = cells.of(f"{number:03}/")
        assert cell is not None
        assert cell.first <= f"{number:03}/" <= cell.last


def test_a_folder_within_a_joined_cell_becomes_part_of_it() -> None:
    cells = cells_of(4)
    cells.shrink(1)
    cells.add("0015/", Mark(5, 2))
    cells.add("999/", Mark(7, 3))

    joined, own = cells
    assert (joined.folders, joined.mark) == (5, Mark(0 + 1 + 2 + 3 + 5, 6))
    assert (own.first, own.folders) == ("999/", 1)


def test_cells_that_would_take_long_to_read_are_not_joined() -> None:
    cells = cells_of(4, MOST_OBJECTS // 2 + 1)
    cells.shrink(1)
    assert len(cells) == 4


def test_marks_add_up_in_any_order() -> None:
    some = [Mark(2**40 - 1, 1), Mark(5, 2), Mark(2**39, 3)]
    forwards, backwards = NOTHING, NOTHING
    for mark in some:
        forwards = forwards.plus(mark)
    for mark in reversed(some):
        backwards = backwards.plus(mark)
    assert forwards == backwards == Mark((2**40 - 1 + 5 + 2**39) % 2**40, 6)
