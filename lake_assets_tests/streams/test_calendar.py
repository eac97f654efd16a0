"""The partitions that the config expects, why others are outside, and those that a schedule refreshes."""

import datetime as dt
from typing import Any

import pytest

from lake_assets.base.errors import FuturePartitionError, Outside
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.calendar import Calendar, recent_texts

NOON = dt.datetime(2026, 2, 11, 12, 30, tzinfo=dt.UTC)


def stream_of(partitions: dict[str, Any], **options: Any) -> StreamConfig:
    return StreamConfig.model_validate(
        {"source": "/landing", "destination": {"table": "t"}, "partitions": partitions} | options
    )


def paths(
    partitions: dict[str, Any], known: tuple[str, ...] = (), now: dt.datetime = NOON, **options: Any
) -> list[str]:
    stream = stream_of(partitions, **options)
    result = Calendar(stream, now).expected([stream.partition(text) for text in known])
    return [partition.path for partition in result]


DAY: dict[str, Any] = {"type": "date", "start": "2026-02-10"}
NULL = "region=__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("partitions", "options", "expected"),
    [
        pytest.param(
            {"region": {"values": ["SW", "NE"]}, "date": DAY},
            {},
            [f"region={region}/date=2026-02-{day}" for region in ("SW", "NE") for day in (10, 11)],
            id="every value has every day up to today in the config's order",
        ),
        pytest.param(
            {"date": DAY | {"start": "2026-02-11"}},
            {"now": dt.datetime(2026, 2, 11, 20, tzinfo=dt.UTC), "time_zone": "Asia/Tokyo"},
            ["date=2026-02-11", "date=2026-02-12"],
            id="today is that of the stream's time zone",
        ),
        pytest.param({"date": DAY | {"end": "2026-12-31"}}, {}, ["date=2026-02-10", "date=2026-02-11"], id="to come"),
        pytest.param({"date": DAY | {"start": "2027-01-01"}}, {}, [], id="none yet"),
        ({"m": {"type": "month", "start": "2025-12-24"}}, {}, ["m=2025-12", "m=2026-01", "m=2026-02"]),
        ({"y": {"type": "year", "start": "2025-12-24"}}, {}, ["y=2025", "y=2026"]),
        pytest.param(
            {"region": {}, "date": DAY | {"start": "2026-02-11"}},
            {"known": ("region=NW,date=2026-01-01", f"{NULL},date=2026-01-01")},
            ["region=NW/date=2026-02-11", f"{NULL}/date=2026-02-11"],
            id="known values where the config has none",
        ),
        pytest.param({"store": {"type": "integer", "values": ["7", "07"]}}, {}, ["store=7"], id="two spellings"),
    ],
)
def test_the_expected_partitions(partitions: dict[str, Any], options: dict[str, Any], expected: list[str]) -> None:
    assert paths(partitions, **options) == expected


def test_hours_reach_the_present_one_of_utc() -> None:
    result = paths({"hour": {"type": "hour", "start": "2026-02-10"}}, time_zone="Asia/Tokyo")

    assert (result[0], result[-1], len(result)) == ("hour=2026-02-10-00", "hour=2026-02-11-12", 24 + 13)


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        ("region=XX,date=2026-02-11", "not_in_values", "region=XX is not in `values` (NW, NE):"),
        ("region=NV,date=2026-02-11", "not_in_values", "(NW, NE): did you mean NW? Otherwise add it to `values`, or"),
        (
            "region=SW,date=2026-02-11",
            "not_in_values",
            "any more, and the lake has rows of it: add it",
        ),
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

    partition, calendar = stream.partition(text), Calendar(stream, NOON)
    error = calendar.outside(partition, lambda _, value: value == "SW")

    assert error is not None
    assert "did you mean" not in str(calendar.outside(partition))  # it may have landed
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


def window(at: str, lookback: int, kind: str = "date", time_zone: str = "UTC", **field: Any) -> tuple[str, str] | None:
    """The first and the last value that a schedule refreshes at a moment."""
    partitions = {"region": {"values": ["NW"]}, "time": {"type": kind, "start": "2026-01-01"} | field}
    stream = stream_of(partitions, time_zone=time_zone)
    result = recent_texts(stream, dt.datetime.fromisoformat(at), lookback)
    assert list(result) == ["time"]
    return result["time"]


ENDED: dict[str, Any] = {"end": "2026-02-08"}
BERLIN: dict[str, Any] = {"time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("at", "lookback", "field", "expected"),
    [
        ("2026-02-11T13:00Z", 0, {}, ("2026-02-11", "2026-02-11")),
        ("2026-02-11T13:00Z", 2, {}, ("2026-02-09", "2026-02-11")),
        ("2026-03-01T00:00Z", 1, {}, ("2026-02-28", "2026-03-01")),
        # Each kind of time counts in its own unit.
        ("2026-02-11T13:59Z", 1, {"kind": "year", "start": "2020-01-01"}, ("2025", "2026")),
        ("2026-02-11T13:59Z", 1, {"kind": "month"}, ("2026-01", "2026-02")),
        ("2026-02-11T13:59Z", 1, {"kind": "week"}, ("2026-W06", "2026-W07")),
        ("2026-02-11T13:59Z", 1, {"kind": "hour"}, ("2026-02-11-12", "2026-02-11-13")),
        # Today is that of the stream's time zone.
        ("2026-02-11T23:30Z", 0, BERLIN, ("2026-02-12", "2026-02-12")),
        ("2026-02-11T03:00Z", 0, {"time_zone": "America/New_York"}, ("2026-02-10", "2026-02-10")),
        # A day of 23 or 25 hours is one day.
        ("2026-03-29T00:30+01:00", 1, BERLIN, ("2026-03-28", "2026-03-29")),
        ("2026-03-29T23:30+02:00", 1, BERLIN, ("2026-03-28", "2026-03-29")),
        ("2026-03-30T00:00+02:00", 1, BERLIN, ("2026-03-29", "2026-03-30")),
        ("2026-10-25T00:30+02:00", 1, BERLIN, ("2026-10-24", "2026-10-25")),
        ("2026-10-25T23:30+01:00", 1, BERLIN, ("2026-10-24", "2026-10-25")),
        ("2026-10-26T00:00+01:00", 1, BERLIN, ("2026-10-25", "2026-10-26")),
        # The window stays within start and end.
        ("2026-01-02T12:00Z", 5, {}, ("2026-01-01", "2026-01-02")),
        ("2026-02-11T12:00Z", 5, ENDED, ("2026-02-06", "2026-02-08")),
        ("2026-02-11T12:00Z", 1, ENDED, None),
        ("2025-12-31T12:00Z", 1, {}, None),
        ("2026-02-11T12:00Z", 30, {"kind": "hour", "end": "2026-02-10"}, ("2026-02-10-06", "2026-02-10-23")),
        ("2026-02-11T12:00Z", 3, {"end": "9999-12-31"}, ("2026-02-08", "2026-02-11")),
        ("2026-02-11T12:00Z", 3, {"kind": "month", "start": "2026-01-15"}, ("2026-01", "2026-02")),
    ],
)
def test_a_schedule_refreshes_the_newest_partitions(
    at: str, lookback: int, field: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    assert window(at, lookback, **field) == expected
