"""The partitions that the config expects, and the reasons why others are outside."""

import datetime as dt
from typing import Any

import pytest

from lake_assets.config.streams import Stream
from lake_assets.errors import FuturePartitionError, Outside, OutsidePartitionError
from lake_assets.streams.calendar import Calendar, refuse_outside

NOON = dt.datetime(2026, 2, 11, 12, 30, tzinfo=dt.UTC)


def stream_of(partitions: dict[str, Any], **options: Any) -> Stream:
    return Stream.model_validate(
        {"source": "/landing", "destination": {"table": "t"}, "partitions": partitions} | options
    )


def paths(
    partitions: dict[str, Any], known: tuple[str, ...] = (), now: dt.datetime = NOON, **options: Any
) -> list[str]:
    stream = stream_of(partitions, **options)
    result = Calendar(stream, now).expected([stream.partition(text) for text in known])
    return [partition.path for partition in result]


def test_every_value_has_every_day_up_to_today_in_the_configs_order() -> None:
    result = paths({"region": {"values": ["SW", "NE"]}, "date": {"type": "date", "start": "2026-02-10"}})

    assert result == [
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
    result = paths({"hour": {"type": "hour", "start": "2026-02-10"}}, time_zone="Asia/Tokyo")

    assert (result[0], result[-1], len(result)) == ("hour=2026-02-10-00", "hour=2026-02-11-12", 24 + 13)


def test_months_and_years_are_promised_once_each() -> None:
    assert paths({"m": {"type": "month", "start": "2025-12-24"}}) == ["m=2025-12", "m=2026-01", "m=2026-02"]
    assert paths({"y": {"type": "year", "start": "2025-12-24"}}) == ["y=2025", "y=2026"]


def test_columns_without_configured_values_have_the_known_values() -> None:
    result = paths(
        {"region": {}, "date": {"type": "date", "start": "2026-02-11"}},
        ("region=NW,date=2026-01-01", "region=__HIVE_DEFAULT_PARTITION__,date=2026-01-01"),
    )

    assert result == ["region=NW/date=2026-02-11", "region=__HIVE_DEFAULT_PARTITION__/date=2026-02-11"]


def test_two_spellings_of_an_integer_are_one_value() -> None:
    assert paths({"store": {"type": "integer", "values": ["7", "07"]}}) == ["store=7"]


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        ("region=XX,date=2026-02-11", "not_in_values", "region=XX is not in `values` (NW, NE):"),
        ("region=NV,date=2026-02-11", "not_in_values", "did you mean NW? Otherwise add it"),
        ("region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11", "not_in_values", "is not in `values`"),
        ("region=NW,date=2025-12-31", "before_start", "is before start 2026-01-01: move `start` back."),
        ("region=NW,date=2026-02-12", "in_the_future", "is in the future. Use --outside to ingest it anyway."),
        ("region=NW,date=2026-04-01", "after_end", "is after end 2026-03-31: move `end`, or leave it out."),
        ("region=NW,date=__HIVE_DEFAULT_PARTITION__", "null_time", "date is NULL, and the column has the type date"),
    ],
)
def test_a_partition_outside_the_config_has_one_reason(text: str, reason: Outside, says: str) -> None:
    dates = {"type": "date", "start": "2026-01-01", "end": "2026-03-31"}
    stream = stream_of({"region": {"values": ["NW", "NE"]}, "date": dates})

    error = Calendar(stream, NOON).outside(stream.partition(text))

    assert error is not None
    assert error.reason == reason
    assert says in str(error)
    assert isinstance(error, FuturePartitionError) == (reason == "in_the_future")


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("year", ["2025", "2026"], ["2024", "2027", "0999"]),
        ("month", ["2025-12", "2026-02"], ["2025-11", "2026-03"]),
        ("week", ["2025-W52", "2026-W01", "2026-W07"], ["2025-W51", "2026-W08"]),
        ("date", ["2025-12-24", "2026-02-11"], ["2025-12-23", "2026-02-12", "9999-12-31", "0001-01-01"]),
        ("hour", ["2025-12-24-00", "2026-02-11-12"], ["2025-12-23-23", "2026-02-11-13"]),
    ],
)
def test_the_expected_partitions_and_no_others_are_inside_the_config(
    kind: str, inside: list[str], outside: list[str]
) -> None:
    stream = stream_of({"at": {"type": kind, "start": "2025-12-24"}})
    calendar = Calendar(stream, NOON)
    expected = set(calendar.expected(()))

    for text, is_inside in [*((text, True) for text in inside), *((text, False) for text in outside)]:
        partition = stream.partition(f"at={text}")
        assert (calendar.outside(partition) is None) == is_inside == (partition in expected)
    assert all(calendar.outside(partition) is None for partition in expected)


def test_a_column_without_values_has_any_value() -> None:
    stream = stream_of({"region": {}, "store": {"type": "integer"}})

    assert Calendar(stream, NOON).outside(stream.partition("region=XX,store=7")) is None


def test_partitions_outside_are_refused_together_each_reason_once() -> None:
    stream = stream_of({"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2026-01-01"}})
    texts = ["region=XX,date=2026-02-11", "region=XX,date=2026-02-10", "region=NW,date=2025-01-01"]

    with pytest.raises(OutsidePartitionError) as caught:
        refuse_outside(stream, [stream.partition(text) for text in [*texts, "region=NW,date=2026-02-10"]])

    lines = str(caught.value).splitlines()
    assert lines[0] == "3 partitions are outside the config:"
    assert [line[:42] for line in lines[1:]] == [
        "- partition value region=XX is not in `val",
        "- partition value date=2025-01-01 is befor",
    ]
