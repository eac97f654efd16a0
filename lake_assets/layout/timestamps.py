"""Timestamps in layouts: the texts that are read, the parts that are written, and a partition's date text.

A layout writes parts of a timestamp: `YY` (four-digit year), `MM`, `WW` (ISO 8601 week), `DD`, `HH`, all but the
year two digits. Read back, the parts of one column form one text: `2026`, `2026-02`, `2026-02-11`,
`2026-02-11-09`, `2026-W07`; a part that stands alone is its digits.
"""

import datetime as dt
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal

Granularity = Literal["YY", "MM", "WW", "DD", "HH"]

GRANULARITIES: Mapping[Granularity, str] = MappingProxyType(
    {"YY": "year", "MM": "month", "WW": "ISO week", "DD": "day", "HH": "hour"}
)

DIGITS: Mapping[Granularity, str] = MappingProxyType(
    {
        "YY": "[0-9]{4}",
        "MM": "(?:0[1-9]|1[0-2])",
        "WW": "(?:0[1-9]|[1-4][0-9]|5[0-3])",
        "DD": "(?:0[1-9]|[12][0-9]|3[01])",
        "HH": "(?:[01][0-9]|2[0-3])",
    }
)

EXAMPLE: Mapping[Granularity, str] = MappingProxyType({"YY": "2026", "MM": "02", "WW": "07", "DD": "11", "HH": "09"})

_MARKS: Mapping[Granularity, str] = {"YY": "", "MM": "-", "WW": "-W", "DD": "-", "HH": "-"}

_DATE = "(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_SECOND = "(?P<second>[0-9]{2})(?:[.,][0-9]+)?"
_TIME = f"(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-9]{{2}}):{_SECOND}"
_OFFSET = "(?P<sign>[+-])(?P<offset_hour>[0-9]{2})"
_OFFSET_MINUTE = "(?P<offset_minute>[0-9]{2})"
_UTC = "(?P<utc>{})"

# OLake's formats in its order, under the names it gives them (Go's reference time). As Go's time.Parse does,
# each takes an hour of one digit and any fraction of a second, told of or not.
FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "2006-01-02": _DATE,
        "2006-01-02 15:04:05": f"{_DATE} {_TIME}",
        "2006-01-02 15:04:05 -07:00": f"{_DATE} {_TIME} {_OFFSET}:{_OFFSET_MINUTE}",
        "2006-01-02 15:04:05-07:00": f"{_DATE} {_TIME}{_OFFSET}:{_OFFSET_MINUTE}",
        "2006-01-02T15:04:05": f"{_DATE}T{_TIME}",
        "2006-01-02T15:04:05.000000": f"{_DATE}T{_TIME}",
        "2006-01-02T15:04:05.999999999Z07:00": f"{_DATE}T{_TIME}(?:{_UTC.format('Z')}|{_OFFSET}:{_OFFSET_MINUTE})",
        "2006-01-02T15:04:05+0000": f"{_DATE}T{_TIME}{_UTC.format('[+]0000')}",
        "2020-08-17T05:50:22.895Z": f"{_DATE}T{_TIME}{_UTC.format('Z')}",
        "2006-01-02 15:04:05.999999-07": f"{_DATE} {_TIME}{_OFFSET}",
        "2006-01-02 15:04:05.999999+00": f"{_DATE} {_TIME}{_UTC.format('[+]00')}",
    }
)

# Two that OLake's source has gained since its document was written (a third is one of the above).
LATER_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "2006-01-02 15:04:05 -0700 MST": f"{_DATE} {_TIME} {_OFFSET}{_OFFSET_MINUTE} [A-Z]{{3,5}}",
        "2006-01-02-15.04.05.000000": f"{_DATE}-(?P<hour>[0-9]{{1,2}})[.](?P<minute>[0-9]{{2}})[.]{_SECOND}",
    }
)

_PATTERNS = tuple(re.compile(pattern) for pattern in (*FORMATS.values(), *LATER_FORMATS.values()))


def read_timestamp(text: str, zone: dt.tzinfo) -> dt.datetime | None:
    """The time that a clock in `zone` shows at the text's instant, to the second; None for no such text.

    A text with an offset from UTC is an instant. One without is what the zone's own clock showed, and a date
    is its midnight.
    """
    for pattern in _PATTERNS:
        if match := pattern.fullmatch(text):
            try:
                return _wall_clock(match.groupdict(), zone)
            except (ValueError, OverflowError):  # 30 February, hour 25, year 0: not a time
                return None
    return None


def _wall_clock(found: Mapping[str, str | None], zone: dt.tzinfo) -> dt.datetime:
    def number(name: str) -> int:
        return int(found.get(name) or 0)

    time = dt.datetime(  # noqa: DTZ001 - a clock's face; the zone is dealt with below
        number("year"), number("month"), number("day"), number("hour"), number("minute"), number("second")
    )
    if found.get("utc"):
        return in_zone(time.replace(tzinfo=dt.UTC), zone)
    if not found.get("sign"):
        return time
    if number("offset_hour") > 24 or number("offset_minute") > 59:
        raise ValueError("offset out of range")
    offset = dt.timedelta(hours=number("offset_hour"), minutes=number("offset_minute"))
    time = time - offset if found["sign"] == "+" else time + offset
    return in_zone(time.replace(tzinfo=dt.UTC), zone)


def in_zone(time: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """What a clock in `zone` shows at that time; a time without a zone is taken as already shown there."""
    return time if time.tzinfo is None else time.astimezone(zone).replace(tzinfo=None)


def part(time: dt.datetime, granularity: Granularity, *, iso_year: bool) -> str:
    """The digits of one part of a time.

    Args:
        time: what the clock shows.
        granularity: which part.
        iso_year: the year is that of the ISO week, which differs from the calendar's around New Year.
    """
    match granularity:
        case "YY":
            return f"{time.isocalendar().year if iso_year else time.year:04d}"
        case "MM":
            return f"{time.month:02d}"
        case "WW":
            return f"{time.isocalendar().week:02d}"
        case "DD":
            return f"{time.day:02d}"
        case "HH":
            return f"{time.hour:02d}"


def has_iso_year(granularities: Collection[Granularity]) -> bool:
    """Whether a column's year is the ISO week's: it has a week, and no month that the year would belong to."""
    return "WW" in granularities and "MM" not in granularities


def compose(parts: Mapping[Granularity, str], *, iso_year: bool) -> str | None:
    """The text of a column's parts, such as `2026-02-11`; None where no time has them, as 30 February."""
    if not _exists(parts, iso_year=iso_year):
        return None
    if len(parts) == 1:
        return next(iter(parts.values()))
    return "".join(_MARKS[name] + parts[name] for name in GRANULARITIES if name in parts).removeprefix("-")


def take_apart(
    text: str, granularities: Collection[Granularity], zone: dt.tzinfo, *, iso_year: bool
) -> dict[Granularity, str] | None:
    """The parts of a text that `compose` made, or of any timestamp that is read; None for another text."""
    names = [name for name in GRANULARITIES if name in granularities]
    if len(names) == 1 and names[0] != "YY" and re.fullmatch("[0-9]", text):
        text = f"0{text}"  # a month that became a number on its way
    marks = {name: "" if len(names) == 1 else _MARKS[name] for name in names}
    pattern = "".join(f"{marks[name]}(?P<{name}>{DIGITS[name]})" for name in names).removeprefix("-")
    if match := re.fullmatch(pattern, text):
        parts = {name: match[name] for name in names}
        return parts if _exists(parts, iso_year=iso_year) else None
    time = read_timestamp(text, zone)
    if time is None:
        return None
    return {name: part(time, name, iso_year=iso_year) for name in names}


def _exists(parts: Mapping[Granularity, str], *, iso_year: bool) -> bool:
    if "YY" not in parts:
        return True
    year = int(parts["YY"])
    try:
        if iso_year:
            dt.date.fromisocalendar(year, int(parts["WW"]), 1)
        else:
            dt.date(year, int(parts.get("MM", 1)), int(parts.get("DD", 1)))
    except ValueError:
        return False
    return True
