"""The picture: what a reader sees at the place of a partition."""

import datetime as dt
import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from lake_assets.report.grid import COLOURS
from lake_assets.report.picture import heat_map
from lake_assets.report.state import STATES, State, StreamState
from lake_assets_tests.report.states import days, stream_state

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


def test_a_name_is_text_and_nothing_else_and_no_partition_is_needed() -> None:
    names = ["$\\frac$", "$", "$a$", "地域", "a" * 500, "__x__", "%d", "{x}"]
    cells = [((name, dt.date(2026, 1, 1)), "committed", 1) for name in names]

    assert picture(stream_state({"r": "string", "d": "date"}, cells)).width < 1500  # type: ignore[arg-type]
    assert picture(stream_state({"r": "string", "d": "date"}, [])).height > 100
