"""Timestamp texts, their parts, and the text of a partition's parts."""

import datetime as dt
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lake_assets.config.layout.times import FORMATS, LATER_FORMATS, read_timestamp

# Format, a text of it, and the UTC clock at that instant.
READ = [
    ("2006-01-02", "2026-02-11", "2026-02-11 00:00"),
    ("2006-01-02 15:04:05", "2026-02-11 09:30:59", "2026-02-11 09:30"),
    ("2006-01-02 15:04:05 -07:00", "2026-02-11 00:30:59 +01:00", "2026-02-10 23:30"),
    ("2006-01-02 15:04:05-07:00", "2026-02-11 22:30:59-05:30", "2026-02-12 04:00"),
    ("2006-01-02T15:04:05", "2026-02-11T09:30:59", "2026-02-11 09:30"),
    ("2006-01-02T15:04:05.000000", "2026-02-11T09:30:59.123456", "2026-02-11 09:30"),
    ("2006-01-02T15:04:05.999999999Z07:00", "2026-02-11T09:30:59.123456789Z", "2026-02-11 09:30"),
    ("2006-01-02T15:04:05.999999999Z07:00", "2026-02-11T09:30:59.1+14:00", "2026-02-10 19:30"),
    ("2006-01-02T15:04:05+0000", "2026-02-11T09:30:59+0000", "2026-02-11 09:30"),
    ("2020-08-17T05:50:22.895Z", "2026-02-11T09:30:59.895Z", "2026-02-11 09:30"),
    ("2006-01-02 15:04:05.999999-07", "2026-02-11 09:30:59.123456-07", "2026-02-11 16:30"),
    ("2006-01-02 15:04:05.999999+00", "2026-02-11 09:30:59.1+00", "2026-02-11 09:30"),
    ("2006-01-02 15:04:05 -0700 MST", "2026-02-11 09:30:59 -0700 MST", "2026-02-11 16:30"),
    ("2006-01-02-15.04.05.000000", "2026-02-11-09.30.59.123456", "2026-02-11 09:30"),
]


def utc(text: str) -> dt.datetime:
    return dt.datetime.strptime(text, "%Y-%m-%d %H:%M")  # noqa: DTZ007 - a clock's face


@pytest.mark.parametrize(("layout", "text", "expected"), READ)
def test_a_format_is_read(layout: str, text: str, expected: str) -> None:
    assert re.fullmatch({**FORMATS, **LATER_FORMATS}[layout], text)
    time = read_timestamp(text, dt.UTC)
    assert time is not None
    assert time.replace(second=0) == utc(expected)


def test_the_docs_have_the_formats_with_examples_that_are_read() -> None:
    section = (Path(__file__).parents[3] / "docs" / "layout.md").read_text().split("\n## Times\n")[1]
    rows = [line.strip("| `").split("` | `") for line in section.split("| parts |")[0].splitlines() if "` | `" in line]
    assert [layout for layout, _ in rows] == list(FORMATS)
    for layout, example in rows:
        assert re.fullmatch(FORMATS[layout], example)
        assert read_timestamp(example, dt.UTC) is not None
    assert all(f"`{layout}`" in section for layout in LATER_FORMATS)


NONE = [
    *("", "soon", "2026", "2026-2-11", "2026-02-30", "0000-01-01", "20260211", " 2026-02-11", "2026-02-11\n"),
    *("2026-02-11 24:00:00", "2026-02-11 09:60:00", "2026-02-11 09:30", "2026-02-11 09:30:00+25:00"),
    *("2026-02-11 09:30:00+01:60", "2026-02-11T09:30:00+0100", "0001-01-01 00:00:00+01:00"),
    *("9999-12-31 23:00:00-02:00", "\u0662\u0660\u0662\u0666-02-11"),
]


def test_another_text_is_no_timestamp() -> None:
    assert [text for text in NONE if read_timestamp(text, dt.UTC)] == []


def test_an_instant_is_taken_to_the_zones_clock_and_a_clocks_time_stays() -> None:
    zone = ZoneInfo("Asia/Kolkata")
    assert read_timestamp("2026-02-11T20:00:00Z", zone) == utc("2026-02-12 01:30")
    assert read_timestamp("2026-02-11T20:00:00", zone) == utc("2026-02-11 20:00")
    assert read_timestamp("2026-02-11", zone) == utc("2026-02-11 00:00")
