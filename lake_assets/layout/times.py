"""The types of partition columns that are times: years, months, dates and hours.

A value of these types has a text, such as `2026-02`, and a number, which is one more than that of the value before.
Both sort as the times do.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from lake_assets.layout.timestamps import Granularity

TimeName = Literal["year", "month", "date", "hour"]

_FORMS: Mapping[Granularity, str] = {"YY": "%Y", "MM": "%m", "DD": "%d", "HH": "%H"}


@dataclass(frozen=True, slots=True)
class TimeType:
    """A type whose values are times. All times that it takes and returns are those that a clock shows.

    Attributes:
        name: the type's, as in the config.
        noun: what one value is.
        parts: of a time that a value's text consists of, with hyphens between.
    """

    name: TimeName
    noun: str
    parts: tuple[Granularity, ...]

    @property
    def form(self) -> str:
        """The text of a value, for `strftime`."""
        return "-".join(_FORMS[part] for part in self.parts)

    @property
    def picture(self) -> str:
        """The text of a value, for people: `YYYY-MM`."""
        return "-".join(self.parts).replace("YY", "YYYY")

    def text(self, time: dt.datetime) -> str:
        """The text of the value that a time lies in."""
        # Not every platform's strftime pads the year 33 to four digits.
        return time.strftime(self.form.replace("%Y", f"{time.year:04}"))

    def start(self, value: object) -> dt.datetime:
        """When a value begins: a date, the number of a year, or the text of any value.

        Raises:
            ValueError: the text is of no value.
        """
        if isinstance(value, dt.date):
            return dt.datetime.combine(value, dt.time.min)
        text = f"{value:04}" if isinstance(value, int) else str(value)
        return dt.datetime.strptime(text, self.form)  # noqa: DTZ007 - a clock's face

    def number(self, time: dt.datetime) -> int:
        """The number of the value that a time lies in."""
        match self.name:
            case "year":
                return time.year
            case "month":
                return time.year * 12 + time.month - 1
            case "date":
                return time.toordinal()
            case "hour":
                return time.toordinal() * 24 + time.hour

    def at(self, number: int) -> dt.datetime:
        """When the value of a number begins.

        Raises:
            ValueError, OverflowError: Python has no such time.
        """
        match self.name:
            case "year":
                return dt.datetime(number, 1, 1)  # noqa: DTZ001 - a clock's face
            case "month":
                return dt.datetime(number // 12, number % 12 + 1, 1)  # noqa: DTZ001
            case "date":
                return dt.datetime.fromordinal(number)
            case "hour":
                return dt.datetime.fromordinal(number // 24).replace(hour=number % 24)


TIME_TYPES: Mapping[str, TimeType] = MappingProxyType(
    {
        type_.name: type_
        for type_ in (
            TimeType("year", "year", ("YY",)),
            TimeType("month", "month", ("YY", "MM")),
            TimeType("date", "day", ("YY", "MM", "DD")),
            TimeType("hour", "hour", ("YY", "MM", "DD", "HH")),
        )
    }
)
"""By the type's name in the config."""


def zone_of(kind: str, time_zone: str) -> str:
    """The time zone whose clock names the values of a column.

    Args:
        kind: the column's type.
        time_zone: the stream's.
    """
    # An hour of a zone with daylight saving would have one name for two.
    return "UTC" if kind == "hour" else time_zone
