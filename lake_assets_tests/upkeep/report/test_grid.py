"""The heat map: what a reader sees at the place of a partition, and that each has one place."""

import datetime as dt
from itertools import product

import pytest

from lake_assets.config.layout.partition import PartitionType, PartitionValue
from lake_assets.upkeep.report.grid import DEPTHS, arrange, heat_map
from lake_assets.upkeep.report.state import STATES, State, StreamState
from lake_assets_tests.upkeep.report.states import days, stream_state


def drawn(state: StreamState) -> list[tuple[str, str]]:
    """The class and the title of each cell with a partition, from left to right and top to bottom."""
    shown = heat_map(state)
    lines = [cells for block in shown.sheet.blocks for _, cells in shown.lines(block)]
    return [cell for cells in lines for cell in cells if cell != ("", "")]


@pytest.mark.parametrize("state", [state for state in STATES if state not in ("committed", "outside")])
def test_each_state_has_its_class(state: State) -> None:
    cells = [((day,), state, None) for day in days("2026-01-01", 40)]
    assert drawn(stream_state({"d": "date"}, cells)) == [(state, state)] * 40


@pytest.mark.parametrize("step", [1, 1000])
def test_more_rows_are_a_deeper_blue(step: int) -> None:
    rows = [step**n if step > 1 else 10 + n for n in range(len(DEPTHS))]
    cells = [((day,), "committed", n) for n, day in zip(rows, days("2026-01-01", len(rows)), strict=True)]

    blues = drawn(stream_state({"d": "date"}, cells))  # type: ignore[arg-type]

    assert blues == [(f"d{n}", f"committed, {number:,} row{'s' * (number > 1)}") for n, number in enumerate(rows)]


def test_a_partition_without_rows_is_the_lightest_and_no_partition_is_needed() -> None:
    cells = [((day,), "committed", n) for n, day in enumerate(days("2026-01-01", 2))]
    assert [kind for kind, _ in drawn(stream_state({"d": "date"}, cells))] == ["d0", "d9"]  # type: ignore[arg-type]
    assert drawn(stream_state({"r": "string", "d": "date"}, [])) == []


def test_the_oldest_blocks_of_very_many_cells_are_left_out_with_a_note() -> None:
    shown = heat_map(committed({"n": "string", "y": "date"}, ["NW"] * 1, list(days("1970-01-01", 20_000))))
    assert "blocks" in shown.sheet.notes[-1]
    assert shown.sheet.blocks[-1].title.endswith("2024")


HOURS = [f"{day}-{hour:02}" for day in days("2026-01-01", 3) for hour in range(24)]
WEEKS = [f"2026-W{week:02}" for week in range(1, 54)] + [f"2027-W{week:02}" for week in range(1, 53)]
MONTHS = [f"{year}-{month:02}" for year in range(2015, 2027) for month in range(1, 13)]


def committed(columns: dict[str, PartitionType], *values: list[PartitionValue]) -> StreamState:
    return stream_state(columns, ((some, "committed", n) for n, some in enumerate(product(*values))))


@pytest.mark.parametrize(
    "state",
    [
        committed({"r": "string", "d": "date"}, ["NW", "SE"], list(days("2026-01-01", 40))),
        committed({"r": "string", "d": "date"}, ["NW", "SE"], list(days("2024-12-25", 400))),
        committed({"r": "string", "d": "date"}, [f"r{n}" for n in range(30)], list(days("2024-12-25", 400))),
        committed({"d": "date"}, list(days("2020-01-01", 2000))),
        committed({"d": "date", "r": "string"}, list(days("2026-01-01", 70)), [None, "NW"]),
        committed({"r": "string", "h": "hour"}, ["NW", "SE"], list(HOURS)),
        committed({"r": "string", "m": "month"}, ["NW"], list(MONTHS)),
        committed({"r": "string", "w": "week"}, ["NW"], list(WEEKS)),
        committed({"r": "string", "y": "year"}, ["NW"], list(range(1970, 2027))),
        committed({"r": "string"}, ["NW", None]),
        committed({"n": "integer"}, list(range(1000))),
        committed({"r": "string", "n": "integer"}, ["NW", "SE"], list(range(130))),
    ],
    ids=lambda state: f"{'-'.join(c.type for c in state.columns)}-{len(state.partitions)}",
)
def test_every_partition_has_one_cell_of_its_own(state: StreamState) -> None:
    sheet = arrange(state)

    cells = [cell.rows for block in sheet.blocks for cell in block.cells.values()]
    assert sorted(rows for rows in cells if rows is not None) == list(range(len(state.partitions)))
    for block in sheet.blocks:
        assert all(0 <= x < block.width and 0 <= y < block.height for x, y in block.cells)
    assert not sheet.notes


def test_a_long_range_of_days_is_a_calendar_for_each_value_and_year() -> None:
    sheet = arrange(committed({"r": "string", "d": "date"}, ["NW", "SE"], list(days("2025-12-01", 70))))

    assert [block.title for block in sheet.blocks] == ["NW  2025", "NW  2026", "SE  2025", "SE  2026"]
    january = sheet.blocks[1]
    # 2026 begins on a Thursday; 11 February is the Wednesday of its seventh column.
    assert (0, 3) in january.cells
    assert (0, 2) not in january.cells
    assert january.cells[5, 2].rows == (dt.date(2026, 2, 4) - dt.date(2025, 12, 1)).days
    assert january.x_labels == [(0, "Jan"), (4, "Feb")]


def test_a_day_of_very_many_hours_shows_its_worst() -> None:
    regions = [f"r{n}" for n in range(13)]  # more than there are calendars for
    hours = product(regions, [f"2026-01-01-{hour:02}" for hour in range(24)])
    cells = [((r, hour), "failed" if (r, hour) == ("r3", "2026-01-01-07") else "committed", 10) for r, hour in hours]
    sheet = arrange(stream_state({"r": "string", "h": "hour"}, cells))  # type: ignore[arg-type]

    (block,) = sheet.blocks
    assert len(block.cells) == 13
    assert [y for (_, y), cell in block.cells.items() if cell.state == "failed"] == [3]
    assert {cell.rows for cell in block.cells.values()} == {240}
    assert sheet.notes == ["a day shows the worst of its hours"]


def test_partitions_outside_the_config_have_a_note_and_no_cell() -> None:
    far = [((dt.date(9999, 12, 31),), "outside", 7), ((dt.date(2026, 1, 1),), "committed", 1)]

    sheet = arrange(stream_state({"d": "date"}, far))  # type: ignore[arg-type]

    assert [len(block.cells) for block in sheet.blocks] == [1]
    assert sheet.notes == ["1 outside the config: not shown"]


def test_a_null_time_and_lines_beyond_the_limit_have_notes() -> None:
    null = stream_state({"d": "date"}, [((None,), "committed", 1), ((dt.date(2026, 1, 1),), "stale", 1)])
    many = committed({"r": "string", "d": "date"}, [f"r{n}" for n in range(200)], list(days("2026-01-01", 2)))

    assert arrange(null).notes == ["1 with d NULL: not shown"]
    assert arrange(many).notes == ["the first 150 of 200 rows"]
