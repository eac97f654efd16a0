"""The partitions that a schedule refreshes at a moment."""

import datetime as dt
from typing import Any

import pytest

from lake_assets.config.streams import Stream
from lake_assets.streams.calendar import recent_texts


def window(at: str, lookback: int, kind: str = "date", time_zone: str = "UTC", **field: Any) -> tuple[str, str] | None:
    stream = Stream.model_validate(
        {
            "source": {"type": "local", "path": "landing"},
            "partitions": {"region": {"values": ["NW"]}, "time": {"type": kind, "start": "2026-01-01"} | field},
            "destination": {"table": "sales"},
            "time_zone": time_zone,
        }
    )
    result = recent_texts(stream, dt.datetime.fromisoformat(at), lookback)
    assert list(result) == ["time"]
    return result["time"]


def test_the_window_ends_with_the_current_partition() -> None:
    assert window("2026-02-11T13:00Z", 0) == ("2026-02-11", "2026-02-11")
    assert window("2026-02-11T13:00Z", 2) == ("2026-02-09", "2026-02-11")
    assert window("2026-03-01T00:00Z", 1) == ("2026-02-28", "2026-03-01")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("year", ("2025", "2026")),
        ("month", ("2026-01", "2026-02")),
        ("week", ("2026-W06", "2026-W07")),
        ("hour", ("2026-02-11-12", "2026-02-11-13")),
    ],
)
def test_each_kind_of_time_counts_in_its_own_unit(kind: str, expected: tuple[str, str]) -> None:
    assert window("2026-02-11T13:59Z", 1, kind, start="2020-01-01") == expected


def test_today_is_that_of_the_streams_time_zone() -> None:
    assert window("2026-02-11T23:30Z", 0, time_zone="Europe/Berlin") == ("2026-02-12", "2026-02-12")
    assert window("2026-02-11T03:00Z", 0, time_zone="America/New_York") == ("2026-02-10", "2026-02-10")


@pytest.mark.parametrize("time", ["00:00", "00:30", "01:30", "02:30", "03:30", "23:30"])
@pytest.mark.parametrize(
    ("day", "before", "offset"),
    [
        ("2026-03-29", "2026-03-28", "+01:00"),  # Berlin's clock goes forward on this day
        ("2026-03-30", "2026-03-29", "+02:00"),
        ("2026-10-25", "2026-10-24", "+02:00"),  # and back on this one
        ("2026-10-26", "2026-10-25", "+01:00"),
    ],
)
def test_a_day_of_23_or_25_hours_is_one_day(day: str, before: str, offset: str, time: str) -> None:
    zone = "+02:00" if day == "2026-03-29" and time >= "03" else offset
    zone = "+01:00" if day == "2026-10-25" and time >= "03" else zone
    assert window(f"{day}T{time}{zone}", 1, time_zone="Europe/Berlin") == (before, day)


def test_the_window_stays_within_start_and_end() -> None:
    assert window("2026-01-02T12:00Z", 5) == ("2026-01-01", "2026-01-02")
    assert window("2026-02-11T12:00Z", 5, end="2026-02-08") == ("2026-02-06", "2026-02-08")
    assert window("2026-02-11T12:00Z", 1, end="2026-02-08") is None
    assert window("2025-12-31T12:00Z", 1) is None
    assert window("2026-02-11T12:00Z", 30, "hour", end="2026-02-10") == ("2026-02-10-06", "2026-02-10-23")
    assert window("2026-02-11T12:00Z", 3, end="9999-12-31") == ("2026-02-08", "2026-02-11")
    assert window("2026-02-11T12:00Z", 3, "month", start="2026-01-15") == ("2026-01", "2026-02")
