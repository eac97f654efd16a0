"""The types of partition columns that are times: years, months, dates and hours.

A value of these types has a text, such as `2026-02`, and a number; consecutive values have consecutive numbers. Both
sort as the times do. All times are local times without a zone.
"""

import datetime as dt
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
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

_STRFTIME: Mapping[Granularity, str] = MappingProxyType({"YY": "%Y", "MM": "%m", "WW": "%V", "DD": "%d", "HH": "%H"})

EXAMPLE: Mapping[Granularity, str] = MappingProxyType({"YY": "2026", "MM": "02", "WW": "07", "DD": "11", "HH": "09"})

MARKS: Mapping[Granularity, str] = MappingProxyType({"YY": "", "MM": "-", "WW": "-W", "DD": "-", "HH": "-"})
"""What is before each part in a value."""

_DATE = "(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_SECOND = "(?P<second>[0-9]{2})(?:[.,][0-9]+)?"
_TIME = f"(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-9]{{2}}):{_SECOND}"
_OFFSET = "(?P<sign>[+-])(?P<offset_hour>[0-9]{2})"
_OFFSET_MINUTE = "(?P<offset_minute>[0-9]{2})"
_UTC = "(?P<utc>{})"

# OLake's formats in its order, by its names for them (Go's reference time). As in Go's time.Parse, each format accepts
# an hour of one digit and any fraction of a second.
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

# Two formats of OLake's source that its documentation does not have.
LATER_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "2006-01-02 15:04:05 -0700 MST": f"{_DATE} {_TIME} {_OFFSET}{_OFFSET_MINUTE} [A-Z]{{3,5}}",
        "2006-01-02-15.04.05.000000": f"{_DATE}-(?P<hour>[0-9]{{1,2}})[.](?P<minute>[0-9]{{2}})[.]{_SECOND}",
    }
)

_PATTERNS = tuple(re.compile(pattern) for pattern in (*FORMATS.values(), *LATER_FORMATS.values()))


def read_timestamp(text: str, zone: dt.tzinfo) -> dt.datetime | None:
    """Return the local time in `zone` that a text means, to the second; None if it is in none of the formats.

    A text with an offset from UTC is converted. A text without one is a local time already, and a date is its midnight.
    """
    for pattern in _PATTERNS:
        if match := pattern.fullmatch(text):
            try:
                return _local_time(match.groupdict(), zone)
            except (ValueError, OverflowError):  # 30 February, hour 25, year 0: not a time
                return None
    return None


def _local_time(fields: Mapping[str, str | None], zone: dt.tzinfo) -> dt.datetime:
    def number(name: str) -> int:
        return int(fields.get(name) or 0)

    units = ("year", "month", "day", "hour", "minute", "second")
    time = dt.datetime(*map(number, units))  # type: ignore[arg-type]  # noqa: DTZ001 - a local time
    if not fields.get("utc") and not fields.get("sign"):
        return time
    if number("offset_hour") > 24 or number("offset_minute") > 59:
        raise ValueError("offset out of range")
    offset = dt.timedelta(hours=number("offset_hour"), minutes=number("offset_minute"))
    time = time + offset if fields.get("sign") == "-" else time - offset
    return in_zone(time.replace(tzinfo=dt.UTC), zone)


def in_zone(time: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """Return the local time in `zone`; a time without a zone is a local time already."""
    return time if time.tzinfo is None else time.astimezone(zone).replace(tzinfo=None)


def part_of(time: dt.datetime, granularity: Granularity, *, iso_year: bool) -> str:
    """Return the digits of one part of a time.

    With `iso_year` the year is the ISO week's, which differs from the calendar's around New Year.
    """
    if granularity == "YY":  # not every platform's strftime pads the year 33 to four digits
        return f"{time.isocalendar().year if iso_year else time.year:04}"
    return time.strftime(_STRFTIME[granularity])


def has_iso_year(granularities: Collection[Granularity]) -> bool:
    """Return whether a column's year is the ISO week's: the column has a week and no month."""
    return "WW" in granularities and "MM" not in granularities


def join_parts(parts: Mapping[Granularity, str], *, iso_year: bool) -> str | None:
    """Return the text of a column's parts, such as `2026-02-11`; None if there is no such time, as 30 February."""
    if not _exists(parts, iso_year=iso_year):
        return None
    if len(parts) == 1:
        return next(iter(parts.values()))
    return "".join(MARKS[name] + parts[name] for name in GRANULARITIES if name in parts).removeprefix("-")


def split_parts(
    text: str, granularities: Collection[Granularity], zone: dt.tzinfo, *, iso_year: bool
) -> dict[Granularity, str] | None:
    """Split a text that `join_parts` returned, or a timestamp in a known format; None for another text."""
    names = [name for name in GRANULARITIES if name in granularities]
    if len(names) == 1 and names[0] != "YY" and re.fullmatch("[0-9]", text):
        text = f"0{text}"  # a month that was read as a number
    marks = {name: "" if len(names) == 1 else MARKS[name] for name in names}
    pattern = "".join(f"{marks[name]}(?P<{name}>{DIGITS[name]})" for name in names).removeprefix("-")
    if match := re.fullmatch(pattern, text):
        parts = {name: match[name] for name in names}
        return parts if _exists(parts, iso_year=iso_year) else None
    time = read_timestamp(text, zone)
    if time is None:
        return None
    return {name: part_of(time, name, iso_year=iso_year) for name in names}


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


TimeName = Literal["year", "month", "week", "date", "hour"]


@dataclass(frozen=True, slots=True)
class TimeType:
    """A type whose values are times."""

    name: TimeName
    noun: str
    parts: tuple[Granularity, ...]  # the parts of a time in a value's text

    @property
    def picture(self) -> str:
        """The form of a value's text: `YYYY-MM`."""
        return "".join(MARKS[part] + part for part in self.parts).replace("YY", "YYYY").replace("WWW", "Www")

    def text(self, time: dt.datetime) -> str:
        """Return the text of the value that contains a time."""
        if self.name == "week":
            year, week, _ = time.isocalendar()
            return f"{year:04}-W{week:02}"
        return f"{time.year:04}-{time.month:02}-{time.day:02}-{time.hour:02}"[: 3 * len(self.parts) + 1]

    def start(self, value: object) -> dt.datetime:
        """Return the first moment of a value: a date, the number of a year, or the text of a value."""
        if isinstance(value, dt.date):
            return dt.datetime.combine(value, dt.time.min)
        if self.name == "week":
            of_year, _, week = str(value).partition("-W")
            return dt.datetime.fromisocalendar(int(of_year), int(week), 1)
        # Not by `strptime`, which takes longer than all else that is done with a value.
        year, *others = map(int, str(value).split("-"))
        month, day, hour = [*others, *(1, 1, 0)[len(others) :]]
        if len(others) + 1 != len(self.parts):
            raise ValueError(f"{value!r} is not of the form {self.picture}")
        return dt.datetime(year, month, day, hour)  # noqa: DTZ001 - a local time

    def number(self, time: dt.datetime) -> int:
        """Return the number of the value that contains a time."""
        match self.name:
            case "year":
                return time.year
            case "month":
                return time.year * 12 + time.month - 1
            case "week":
                return (time.toordinal() - 1) // 7  # the first day of the year 1 is a Monday
            case "date":
                return time.toordinal()
            case "hour":
                return time.toordinal() * 24 + time.hour

    def at(self, number: int) -> dt.datetime:
        """Return the first moment of the value with a number."""
        match self.name:
            case "year":
                return dt.datetime(number, 1, 1)  # noqa: DTZ001 - a local time
            case "month":
                return dt.datetime(number // 12, number % 12 + 1, 1)  # noqa: DTZ001
            case "week":
                return dt.datetime.fromordinal(number * 7 + 1)
            case "date":
                return dt.datetime.fromordinal(number)
            case "hour":
                return dt.datetime.fromordinal(number // 24).replace(hour=number % 24)

    def within(self, period: "TimeType", start: dt.datetime) -> tuple[str, str]:
        """Return the first and the last value in a longer time; a week is in the year of its Thursday (ISO 8601)."""
        try:
            end = period.at(period.number(start) + 1) - dt.timedelta(microseconds=1)
        except (ValueError, OverflowError):  # the year after 9999
            end = dt.datetime.max  # noqa: DTZ901 - a local time
        inside = dt.timedelta(days=3 if self.name == "week" else 0)
        return self.text(start + inside), self.text(end - inside)


TIME_TYPES: Mapping[str, TimeType] = MappingProxyType(
    {
        type_.name: type_
        for type_ in (
            TimeType("year", "year", ("YY",)),
            TimeType("month", "month", ("YY", "MM")),
            TimeType("week", "week", ("YY", "WW")),
            TimeType("date", "day", ("YY", "MM", "DD")),
            TimeType("hour", "hour", ("YY", "MM", "DD", "HH")),
        )
    }
)
"""By the type's name in the config."""


def zone_of(kind: str, time_zone: str) -> str:
    """Return the time zone of a column's values."""
    # In a zone with daylight saving, two hours would have the same name.
    return "UTC" if kind == "hour" else time_zone
