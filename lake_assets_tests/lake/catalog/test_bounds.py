"""The bounds in the catalog: a bound that is too narrow loses rows."""

import pytest

from lake_assets.lake.catalog.bounds import Bounds, beyond


@pytest.mark.parametrize(
    ("bounds", "wider"),
    [
        (Bounds("1.5", "1.5"), Bounds("1.4999999", "1.5000001")),
        (Bounds("-4.2983307e+16", "0.0"), Bounds("-4.298331e+16", "1e-45")),
        (Bounds("-3.4028235e+38", "3.4028235e+38"), Bounds("-inf", "inf")),
        (Bounds("-inf", "inf"), Bounds("-inf", "inf")),
        (Bounds(None, None), Bounds(None, None)),
    ],
)
def test_the_bounds_of_single_precision_are_one_number_wider(bounds: Bounds, wider: Bounds) -> None:
    assert beyond(bounds) == wider
