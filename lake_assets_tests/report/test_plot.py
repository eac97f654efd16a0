"""The picture: what a reader sees at the place of a partition."""

import datetime as dt
import io
from dataclasses import replace
from itertools import combinations, cycle, islice, pairwise, product

import numpy as np
import pytest
from PIL import Image

from lake_assets.report.grid import COLOURS
from lake_assets.report.picture import heat_map
from lake_assets.report.state import STATES, State, StreamState
from lake_assets_tests.report.states import days, stream_state
from lake_assets_tests.tiers import soak

Colour = tuple[int, int, int]


def picture(state: StreamState) -> Image.Image:
    return Image.open(io.BytesIO(heat_map(state))).convert("RGB")


def colour(state: State) -> Colour:
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - its import writes a cache

    red, green, blue = (round(255 * part) for part in to_rgb(COLOURS[state]))
    return red, green, blue


def area(image: Image.Image, wanted: Colour) -> int:
    """Pixels below the legend that have this colour, or nearly."""
    pixels = np.asarray(image.crop((0, 74, image.width, image.height)), dtype=int)
    return int((abs(pixels - wanted) < 12).all(axis=2).sum())


@pytest.mark.more
def test_each_state_has_its_colour() -> None:
    def pictured(state: State) -> Image.Image:
        return picture(stream_state({"d": "date"}, [((day,), state, 5) for day in days("2026-01-01", 40)]))

    others = pictured("committed")
    for state in set(STATES) - {"committed", "outside"}:
        assert area(pictured(state), colour(state)) > 40 * 100  # 40 cells of 14 by 17 pixels, less their marks
        assert area(others, colour(state)) < 1000  # letters have shades of grey too


def test_more_rows_are_a_deeper_blue() -> None:
    cells = [((day,), "committed", 10 * n + 10) for n, day in enumerate(days("2026-01-01", 40))]
    image = picture(stream_state({"d": "date"}, cells))  # type: ignore[arg-type]
    line = [image.getpixel((x, 115)) for x in range(image.width)]

    blues = [sum(pixel) for pixel in line if isinstance(pixel, tuple) and pixel[2] - pixel[0] > 40]

    assert len(blues) > 40 * 10
    assert all(left + 12 >= right for left, right in pairwise(blues))
    assert blues[0] - blues[-1] > 200


@pytest.mark.soak
def test_a_year_of_three_regions_is_legible_and_a_century_leaves_out_its_oldest_years() -> None:
    from lake_assets.report.plot import MAX_HEIGHT  # noqa: PLC0415

    cells = [(values, "missing", None) for values in product(["EWR", "JFK", "LGA"], days("2013-01-01", 365))]
    png = heat_map(stream_state({"origin": "string", "date": "date"}, cells))  # type: ignore[arg-type]
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert len(png) < 50_000
    assert 600 < image.width < 1500
    assert area(image, colour("missing")) > 1095 * 100  # more than 10 by 10 pixels each

    cells = [((f"r{r}", day), "missing", None) for r in range(8) for day in days("2000-01-01", 9000)]
    image = picture(stream_state({"r": "string", "d": "date"}, cells))  # type: ignore[arg-type]
    assert image.height <= MAX_HEIGHT + 100
    assert image.width < 1500


def test_a_name_is_text_and_nothing_else_and_no_partition_is_needed() -> None:
    names = ["$\\frac$", "$", "$a$", "地域", "a" * 500, "__x__", "%d", "{x}"]
    cells = [((name, dt.date(2026, 1, 1)), "committed", 1) for name in names]

    assert picture(stream_state({"r": "string", "d": "date"}, cells)).width < 1500  # type: ignore[arg-type]
    assert picture(stream_state({"r": "string", "d": "date"}, [])).height > 100


LONG = "a_stream_of_the_retail_transactions_of_all_stores_"


SHAPES = [(1, 1, 1), (1, 30, 10**12), (60, 30, 1), (3, 800, 10**9)]
NAMES = {"short": "sales", "long": LONG * 2, "longer": LONG * 8, "wide": "W" * 120}
EACH = [(*shape, name) for shape, name in zip(SHAPES, NAMES, strict=True)]
OTHERS = [case for shape in SHAPES for name in NAMES if (case := (*shape, name)) not in EACH]


@pytest.mark.soak
@pytest.mark.parametrize(("regions", "number", "scale", "name"), [*EACH, *soak(OTHERS)])
def test_no_text_is_printed_over_another(regions: int, number: int, scale: int, name: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    from lake_assets.report.plot import figure_of  # noqa: PLC0415

    values = product([f"{'W' * 12} {n}" for n in range(regions)], days("2025-01-01", number))
    states = islice(cycle(STATES), regions * number)
    cells = [(value, state, scale * (n + 1)) for n, (value, state) in enumerate(zip(values, states, strict=True))]
    state = replace(stream_state({"r": "string", "d": "date"}, cells), stream=NAMES[name], table=f"main.{NAMES[name]}")

    figure = figure_of(state)

    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in figure.texts if text.get_text()]
    # The height of a line includes room for letters that go below it.
    assert not [
        (one, other)
        for (one, box), (other, second) in combinations(boxes, 2)
        if box.x0 < second.x1 and second.x0 < box.x1 and box.y0 + 3 < second.y1 and second.y0 + 3 < box.y1
    ]
    width, height = figure.canvas.get_width_height()
    assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for _, box in boxes)
    assert any(text == state.stream or text.endswith("…") for text, _ in boxes)
