"""The text of a placeholder in a path: written from a value, and read back."""

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from zoneinfo import ZoneInfo

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.grammar import Part, Placeholder, Static, folder_parts
from lake_assets.config.layout.hive import (
    HIVE_NULL,
    RESERVED,
    SPELLINGS,
    escape,
    escape_characters,
    is_reserved,
    percent,
    unescape,
)
from lake_assets.config.layout.times import (
    DIGITS,
    EXAMPLE,
    Granularity,
    in_zone,
    join_parts,
    part_of,
    read_timestamp,
    split_parts,
)


def _path_text(column: str, value: object, zone: dt.tzinfo) -> str | None:
    """Return the value as Spark casts it to a string for a path, not encoded; None for NULL.

    Booleans are `true` and `false`, decimals have no exponent, dates are `YYYY-MM-DD`, timestamps are local times in
    `zone`: `YYYY-MM-DD HH:MM:SS`, with the fraction of the second unless it is zero. Paths cannot hold floating point
    numbers, bytes, lists and structs.
    """
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case dt.datetime():
            time = _clock(column, value, zone)
            fraction = f".{time.microsecond:06d}".rstrip("0").rstrip(".")
            return f"{time:%H:%M:%S}".join((f"{time.date().isoformat()} ", fraction))
        case dt.date():
            return value.isoformat()
    raise unfit_type(column, type(value).__name__)


def value_time(column: str, value: object, zone: dt.tzinfo) -> dt.datetime | None:
    """Return the value's local time in `zone`; None for NULL and for a text that is not a timestamp.

    Other types are a LayoutError.
    """
    match value:
        case None:
            return None
        case str():
            return read_timestamp(value, zone)
        case dt.datetime():
            return _clock(column, value, zone)
        case dt.date():
            return dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a local time
    raise LayoutError(
        f"column {column} has the value {value!r} of type {type(value).__name__}, and its granularity needs a time:",
        "cast the column to a date or a timestamp, or leave the granularity out of the layout.",
    )


def unfit_type(column: str, kind: object) -> LayoutError:
    """Return the error for a type that paths cannot hold."""
    return LayoutError(
        f"column {column} is of type {kind}, which paths cannot hold:",
        "cast it to a string, an integer, a decimal, a date or a timestamp.",
    )


def out_of_range(column: str) -> LayoutError:
    """Return the error for a time that Python cannot represent."""
    return LayoutError(
        f"column {column} has a time before year 1 or after year 9999:", "give it a time within these years."
    )


def _clock(column: str, time: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    try:
        return in_zone(time, zone)
    except OverflowError as error:
        raise out_of_range(column) from error


def go_text(column: str, value: object) -> str:
    """Return the value as Go's `%v` prints it for OLake; times in UTC, and floating point numbers too.

    Other types are refused as by `_path_text`.
    """
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, dt.date):  # for OLake a date is the time of its midnight
        if not isinstance(value, dt.datetime):
            value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a local time
        return f"{_path_text(column, value, dt.UTC)} +0000 UTC"
    return _path_text(column, value, dt.UTC) or ""


def _go_float(value: float) -> str:
    """Write Go's `%v`: the shortest digits that identify the number, with an exponent below 1e-4 and from 1e21."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{digits}e{int(exponent):+03d}"


PlaceholderTexts = Sequence[tuple[Placeholder, str]]
"""Placeholders of one column, each with its text in a path."""


@dataclass(frozen=True)
class HiveCodec:
    """The paths of a template in Hive's encoding."""

    parts: Sequence[Part]
    zone: ZoneInfo
    nested: bool = False  # a `/` in a value makes folders
    names_files: bool = False  # the last folder of the parts is the name of a file

    def write(self, placeholder: Placeholder, value: object, spelling: str = SPELLINGS[0]) -> str:
        """Write a row's value as a placeholder's text: one folder unless `nested`; empty only if it may be empty."""
        if placeholder.granularity is None:
            return self._encoded(placeholder, _path_text(placeholder.column, value, self.zone), spelling)
        time = value_time(placeholder.column, value, self.zone)
        if time is None:
            return placeholder.null
        return part_of(time, placeholder.granularity, iso_year=placeholder.iso_year)

    def _encoded(self, placeholder: Placeholder, value: str | None, spelling: str) -> str:
        if value == "" and placeholder.keeps_empty:
            return ""
        if value in {None, "", HIVE_NULL}:
            return placeholder.null
        also = placeholder.separator
        if self.nested and "/" in value and all(value.split("/")):
            return "/".join(_name(piece, also, spelling) for piece in value.split("/"))
        if placeholder.bare and (not value.strip(".") or is_reserved(value)):
            return _name(value, also, spelling)
        text = escape_characters(value, also=also, spelling=spelling)
        if text == placeholder.null:
            # One encoded letter of `default_` distinguishes a value from the default that it is equal to.
            return escape_characters(value, also=also + ("e" if also == "d" else "d"), spelling=spelling)
        return text

    def write_partition(self, placeholder: Placeholder, text: str, spelling: str = SPELLINGS[0]) -> str:
        """Return the text of a placeholder for a partition's value.

        If the placeholder is a part of a time and the text is not a time, that is a LayoutError.
        """
        if text == "" and placeholder.may_be_empty:
            return ""
        if text in {"", HIVE_NULL}:
            return placeholder.null
        value = unescape(text)
        granularities = self._granularities(placeholder)
        if placeholder.granularity is None or not granularities:
            return self.write(placeholder, value, spelling)
        parts = split_parts(value, granularities, self.zone, iso_year=placeholder.iso_year)
        if parts is None:
            example = join_parts({name: EXAMPLE[name] for name in granularities}, iso_year=placeholder.iso_year)
            raise LayoutError(f"partition value {placeholder.name}={value!r} is not a time:", f"write it as {example}.")
        return parts[placeholder.granularity]

    def _granularities(self, placeholder: Placeholder) -> list[Granularity]:
        """Return the parts of a time that make the column's value; none if a placeholder has the whole value."""
        column = [p.granularity for p in self.parts if isinstance(p, Placeholder) and p.name == placeholder.name]
        return [] if None in column else [granularity for granularity in column if granularity is not None]

    def match(self, folder: str) -> re.Match[str] | None:
        """Return the match of a path without a slash at its end, with a group for each placeholder."""
        return self.pattern.fullmatch(folder)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The template as a regular expression."""
        if not self.parts:
            return re.compile(".*", re.DOTALL)
        # Each value ends where its separator first occurs, so the shortest match is the value that was written.
        text = "".join(map(self.group, self.parts))
        return re.compile(text if self.nested or self.names_files else f"{text}(?:/.*)?", re.DOTALL)

    @cached_property
    def folder_patterns(self) -> tuple[re.Pattern[str], ...]:
        """The names that each folder of a template without nested values can have."""
        names = folder_parts(self.parts)
        texts = ("".join(map(self._named, folder)) for folder in (names[:-1] if self.names_files else names))
        return tuple(re.compile(text, re.DOTALL) for text in texts if text)

    def _named(self, part: Part) -> str:
        # `write` encodes a value that would be a reserved name.
        is_bare = isinstance(part, Placeholder) and part.bare
        return (rf"(?!(?:{RESERVED.pattern})\Z)" if is_bare else "") + self.group(part)

    def group(self, part: Part) -> str:
        """Return a part of the template as a regular expression."""
        if isinstance(part, Static):
            return re.escape(part.text)
        if part.is_wildcard:
            return "([^/]*)"
        if part.granularity is None:
            return f"({'.' if self.nested else '[^/]'}{'*' if part.may_be_empty else '+'}?)"
        digits = DIGITS[part.granularity]
        return f"({digits})" if part.is_now else f"({digits}|{re.escape(part.null)})"

    def read(self, texts: PlaceholderTexts) -> str | None:
        """Return the encoded value of a partition column; None if no value has all of these texts.

        Raises LayoutError if it is percent-encoded, but not in UTF-8.
        """
        values = {None if text == p.null else unescape(text) for p, text in texts if p.granularity is None}
        if len(values) > 1:
            return None
        if values:
            value = values.pop()
            if any(self.write(p, value) != text for p, text in texts if p.granularity):
                return None
            # The pattern matches an empty text only where it is a value.
            return HIVE_NULL if value is None else escape(value) if value else ""
        nulls = [text == placeholder.null for placeholder, text in texts]
        if any(nulls):
            return HIVE_NULL if all(nulls) else None
        digits: dict[Granularity, str] = {}
        for placeholder, text in texts:
            if placeholder.granularity and digits.setdefault(placeholder.granularity, text) != text:
                return None
        return join_parts(digits, iso_year=texts[0][0].iso_year)

    def clean(self, path: str) -> str:
        """Return the final path for the joined texts of the parts."""
        return path


def _name(value: str, also: str, spelling: str) -> str:
    """Return the value as a whole name of a folder, which is neither of dots nor one that is never read."""
    if not value.strip("."):
        return value.replace(".", "%2E")
    first = percent(value[0]) if is_reserved(value) else ""
    return first + escape_characters(value[len(first) > 0 :], also=also, spelling=spelling)
