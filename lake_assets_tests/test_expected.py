"""Which partitions the config promises."""

import datetime as dt
from typing import Any

from lake_assets.config.streams import Stream
from lake_assets.expected import expected_partitions

NOON = dt.datetime(2026, 2, 11, 12, 30, tzinfo=dt.UTC)


def paths(
    partitions: dict[str, Any], known: tuple[str, ...] = (), now: dt.datetime = NOON, **options: Any
) -> list[str]:
    stream = Stream.model_validate(
        {"source": "/landing", "destination": {"table": "t"}, "partitions": partitions} | options
    )
    found = expected_partitions(stream, [stream.partition(text) for text in known], now)
    return [partition.path for partition in found]


def test_every_value_has_every_day_up_to_today_in_the_configs_order() -> None:
    found = paths({"region": {"values": ["SW", "NE"]}, "date": {"type": "date", "start": "2026-02-10"}})

    assert found == [
        "region=SW/date=2026-02-10",
        "region=SW/date=2026-02-11",
        "region=NE/date=2026-02-10",
        "region=NE/date=2026-02-11",
    ]


def test_today_is_that_of_the_streams_time_zone() -> None:
    column = {"date": {"type": "date", "start": "2026-02-11"}}

    assert paths(column, now=dt.datetime(2026, 2, 11, 20, tzinfo=dt.UTC), time_zone="Asia/Tokyo") == [
        "date=2026-02-11",
        "date=2026-02-12",
    ]


def test_days_that_are_still_to_come_are_not_promised() -> None:
    assert paths({"date": {"type": "date", "start": "2026-02-11", "end": "2026-12-31"}}) == ["date=2026-02-11"]
    assert paths({"date": {"type": "date", "start": "2027-01-01"}}) == []


def test_hours_reach_the_present_one_of_utc() -> None:
    found = paths({"hour": {"type": "hour", "start": "2026-02-10"}}, time_zone="Asia/Tokyo")

    assert (found[0], found[-1], len(found)) == ("hour=2026-02-10-00", "hour=2026-02-11-12", 24 + 13)


def test_months_and_years_are_promised_once_each() -> None:
    assert paths({"m": {"type": "month", "start": "2025-12-24"}}) == ["m=2025-12", "m=2026-01", "m=2026-02"]
    assert paths({"y": {"type": "year", "start": "2025-12-24"}}) == ["y=2025", "y=2026"]


def test_values_that_are_not_configured_are_those_that_are_known() -> None:
    found = paths(
        {"region": {}, "date": {"type": "date", "start": "2026-02-11"}},
        ("region=NW,date=2026-01-01", "region=__HIVE_DEFAULT_PARTITION__,date=2026-01-01"),
    )

    assert found == ["region=NW/date=2026-02-11", "region=__HIVE_DEFAULT_PARTITION__/date=2026-02-11"]


def test_an_integer_written_in_two_ways_is_one_value() -> None:
    assert paths({"store": {"type": "integer", "values": ["7", "07"]}}) == ["store=7"]
