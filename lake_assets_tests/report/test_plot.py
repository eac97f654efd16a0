"""The picture: what a reader sees at the place of a partition."""

import datetime as dt
import io
from dataclasses import replace
from itertools import combinations, cycle, islice, pairwise, product

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image

from lake_assets.report.grid import COLOURS
from lake_assets.report.picture import heat_map
from lake_assets.report.plot import MAX_HEIGHT, figure_of
from lake_assets.report.state import STATES, State, StreamState
from lake_assets_tests.report.states import days, stream_state

Colour = tuple[int, int, int]


def picture(state: StreamState) -> Image.Image:
    return Image.open(io.BytesIO(heat_map(state))).convert("RGB")


def colour(state: State) -> Colour:
    red, green, blue = (round(255 * part) for part in to_rgb(COLOURS[state]))
    return red, green, blue


def area(image: Image.Image, wanted: Colour) -> int:
    """Pixels below the legend that have this colour, or nearly."""
    pixels = np.asarray(image.crop((0, 74, image.width, image.height)), dtype=int)
    return int((abs(pixels - wanted) < 12).all(axis=2).sum())


@pytest.mark.parametrize("state", [state for state in STATES if state not in ("committed", "outside")])
def test_a_state_has_its_colour(state: State) -> None:
    cells = [((day,), state, 5) for day in days("2026-01-01", 40)]
    others = [((day,), other, 5) for day in days("2026-01-01", 40) for other in ["committed"]]

    with_it = area(picture(stream_state({"d": "date"}, cells)), colour(state))
    without = area(picture(stream_state({"d": "date"}, others)), colour(state))  # type: ignore[arg-type]

    assert with_it > 40 * 100  # 40 cells of 14 by 17 pixels, less their marks
    assert without < 1000  # letters have shades of grey too


def test_more_rows_are_a_deeper_blue() -> None:
    cells = [((day,), "committed", 10 * n + 10) for n, day in enumerate(days("2026-01-01", 40))]
    image = picture(stream_state({"d": "date"}, cells))  # type: ignore[arg-type]
    line = [image.getpixel((x, 115)) for x in range(image.width)]

    blues = [sum(pixel) for pixel in line if isinstance(pixel, tuple) and pixel[2] - pixel[0] > 40]

    assert len(blues) > 40 * 10
    assert all(left + 12 >= right for left, right in pairwise(blues))
    assert blues[0] - blues[-1] > 200


def test_a_year_of_three_regions_is_legible_and_small() -> None:
    cells = [(values, "missing", None) for values in product(["EWR", "JFK", "LGA"], days("2013-01-01", 365))]
    png = heat_map(stream_state({"origin": "string", "date": "date"}, cells))  # type: ignore[arg-type]
    image = Image.open(io.BytesIO(png)).convert("RGB")

    assert len(png) < 50_000
    assert 600 < image.width < 1500
    assert area(image, colour("missing")) > 1095 * 100  # more than 10 by 10 pixels each


def test_a_century_fits_by_leaving_out_the_oldest_years() -> None:
    cells = [((f"r{r}", day), "missing", None) for r in range(40) for day in days("2000-01-01", 9000)]
    image = picture(stream_state({"r": "string", "d": "date"}, cells))  # type: ignore[arg-type]

    assert image.height <= MAX_HEIGHT + 100
    assert image.width < 1500


@pytest.mark.parametrize("name", ["$\\frac$", "$", "$a$", "地域", "a" * 500, "__x__", "%d", "{x}"])
def test_a_name_is_text_and_nothing_else(name: str) -> None:
    state = stream_state({"r": "string", "d": "date"}, [((name, dt.date(2026, 1, 1)), "committed", 1)])

    assert picture(state).width < 1500


def test_a_stream_without_partitions_has_a_picture_too() -> None:
    assert picture(stream_state({"r": "string", "d": "date"}, [])).height > 100


LONG = "a_stream_of_the_retail_transactions_of_all_stores_"


@pytest.mark.parametrize("name", ["sales", LONG * 2, LONG * 8, "W" * 120], ids=len)
@pytest.mark.parametrize(("regions", "number", "scale"), [(1, 1, 1), (1, 30, 10**12), (60, 30, 1), (3, 800, 10**9)])
def test_no_text_is_printed_over_another(name: str, regions: int, number: int, scale: int) -> None:
    values = product([f"{'W' * 12} {n}" for n in range(regions)], days("2025-01-01", number))
    states = islice(cycle(STATES), regions * number)
    cells = [(value, state, scale * (n + 1)) for n, (value, state) in enumerate(zip(values, states, strict=True))]
    state = replace(stream_state({"r": "string", "d": "date"}, cells), stream=name, table=f"main.{name}")

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
