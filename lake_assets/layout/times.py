"""The types of partition columns that are times: years, months, dates and hours.

A value of these types has a text, such as `2026-02`, and a number; consecutive values have consecutive numbers. Both
sort as the times do. All times are local times without a zone.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from lake_assets.layout.timestamps import MARKS, Granularity

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
