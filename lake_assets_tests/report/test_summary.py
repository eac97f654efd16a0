"""Counts by the value beside the time."""

import datetime as dt

from lake_assets.report.summary import summarize, total
from lake_assets_tests.report.states import days, stream_state


def test_there_is_a_row_for_each_value_beside_the_time() -> None:
    first, second = days("2026-01-01", 2)
    state = stream_state(
        {"date": "date", "region": "string"},
        [((first, "NW"), "committed", 3), ((second, "NW"), "stale", 4), ((first, None), "missing", None)],
    )

    north, null = summarize(state)

    assert (north.partitions, north.rows, north.counts["committed"], north.counts["stale"]) == ("region=NW", 7, 1, 1)
    assert (null.partitions, null.rows, null.counts["missing"]) == ("region=__HIVE_DEFAULT_PARTITION__", 0, 1)
    assert total([north, null]).counts == state.counts
    # A stream of one column has one row.
    for kind, value in (("date", dt.date(2026, 1, 1)), ("string", "NW")):
        state = stream_state({"c": kind}, [((value,), "committed", 1)])  # type: ignore[dict-item]

        assert [(item.partitions, item.rows) for item in summarize(state)] == [("", 1)]
