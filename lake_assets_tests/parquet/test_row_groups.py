"""The values that columns may have in row groups, reduced to few boxes that hold at least the same."""

from itertools import product
from random import Random

import pytest

from lake_assets.parquet.row_groups import Box, Span, merged


@pytest.mark.parametrize(
    ("boxes", "fewer"),
    [
        (
            [(Span(1, 3, False),), (Span(3, 5, False),), (Span(8, 9, False),)],
            {(Span(1, 5, False),), (Span(8, 9, False),)},
        ),
        ([(Span(1, 9, False),), (Span(2, 3, True),)], {(Span(1, 9, True),)}),
        ([(Span(1, 2, False),), (Span(None, None, False),)], {(Span(None, None, False),)}),
        (
            [(Span("a", "a", False), Span(1, 2, False)), (Span("a", "a", False), Span(2, 3, False))],
            {(Span("a", "a", False), Span(1, 3, False))},
        ),
        (
            [(Span("a", "a", False), Span(1, 1, False)), (Span("b", "b", False), Span(2, 2, False))],
            {(Span("a", "a", False), Span(1, 1, False)), (Span("b", "b", False), Span(2, 2, False))},
        ),
        ([(Span(day, day, False),) for day in range(9)], {(Span(0, 8, False),)}),
        ([], set()),
    ],
    ids=["overlap", "within", "unknown", "same others", "other others", "many", "none"],
)
def test_boxes_are_merged(boxes: list[Box], fewer: set[Box]) -> None:
    assert set(merged(boxes, 4)) == fewer


@pytest.mark.parametrize("most", [1, 3, 100])
def test_no_value_is_lost(most: int) -> None:
    random = Random(5)
    values = [None, *range(12)]

    def span() -> Span:
        least, greatest = sorted(random.choices(range(12), k=2))
        has_null = random.random() < 0.2
        return Span(least, greatest, has_null) if random.random() < 0.8 else Span(has_null=has_null)

    for _ in range(200):
        boxes = [(span(), span()) for _ in range(random.randrange(6))]
        fewer = merged(boxes, most)
        assert len(fewer) <= most
        for value in product(values, values):
            is_held, is_kept = (any(all(map(Span.may_hold, box, value)) for box in some) for some in (boxes, fewer))
            assert is_kept or not is_held
            if most == 100 and None not in value:
                assert is_kept == is_held
