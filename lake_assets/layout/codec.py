"""The text of a placeholder in a path: written from a value, and read back."""

import datetime as dt
import re
from collections.abc import Sequence

from lake_assets.errors import LayoutError
from lake_assets.layout.grammar import Part, Placeholder, Static
from lake_assets.layout.hive import HIVE_NULL, SPELLINGS, escape, escape_characters, percent, unescape
from lake_assets.layout.names import RESERVED, is_reserved
from lake_assets.layout.timestamps import DIGITS, EXAMPLE, Granularity, join_parts, part, split_parts
from lake_assets.layout.values import value_text, value_time

PlaceholderTexts = Sequence[tuple[Placeholder, str]]
"""Placeholders of one column, each with its text in a path."""


def write(
    placeholder: Placeholder, value: object, zone: dt.tzinfo, *, nested: bool, spelling: str = SPELLINGS[0]
) -> str:
    """The text of a placeholder for a row's value: one folder unless `nested`, and empty only if it keeps empty values.

    Args:
        placeholder: the placeholder.
        value: of the row.
        zone: the time zone of dates and hours.
        nested: a `/` in the value makes folders.
        spelling: one of `SPELLINGS`.

    Raises:
        LayoutError: paths cannot hold values of this type.
    """
    if placeholder.granularity is None:
        return _encoded(placeholder, value_text(placeholder.column, value, zone), spelling, nested=nested)
    time = value_time(placeholder.column, value, zone)
    return placeholder.null if time is None else part(time, placeholder.granularity, iso_year=placeholder.iso_year)


def _encoded(placeholder: Placeholder, value: str | None, spelling: str, *, nested: bool) -> str:
    if value == "" and placeholder.keeps_empty:
        return ""
    if value in {None, "", HIVE_NULL}:
        return placeholder.null
    also = placeholder.separator
    if nested and "/" in value and all(value.split("/")):
        return "/".join(_name(piece, also, spelling) for piece in value.split("/"))
    if placeholder.bare and (not value.strip(".") or is_reserved(value)):
        return _name(value, also, spelling)
    text = escape_characters(value, also=also, spelling=spelling)
    if text == placeholder.null:
        # One encoded letter of `default_` distinguishes a value from the default that it is equal to.
        return escape_characters(value, also=also + ("e" if also == "d" else "d"), spelling=spelling)
    return text


def _name(value: str, also: str, spelling: str) -> str:
    """Return the value as a whole name of a folder, which is neither of dots nor one that is never read."""
    if not value.strip("."):
        return value.replace(".", "%2E")
    first = percent(value[0]) if is_reserved(value) else ""
    return first + escape_characters(value[len(first) > 0 :], also=also, spelling=spelling)


def write_partition(
    placeholder: Placeholder,
    text: str,
    granularities: Sequence[Granularity],
    zone: dt.tzinfo,
    *,
    nested: bool,
    spelling: str = SPELLINGS[0],
) -> str:
    """Return the text of a placeholder for a partition's value.

    Args:
        placeholder: the placeholder.
        text: the encoded value, as `read` returns it.
        granularities: of the column's placeholders, whose values make the text; empty if one of them holds the whole
            value, which then is the text.
        zone: the time zone of dates and hours.
        nested: a `/` in the value makes folders.
        spelling: one of `SPELLINGS`.

    Raises:
        LayoutError: the placeholder is a part of a time, and the text is not a time.
    """
    if text == "" and placeholder.may_be_empty:
        return ""
    if text in {"", HIVE_NULL}:
        return placeholder.null
    value = unescape(text)
    if placeholder.granularity is None or not granularities:
        return write(placeholder, value, zone, nested=nested, spelling=spelling)
    parts = split_parts(value, granularities, zone, iso_year=placeholder.iso_year)
    if parts is None:
        example = join_parts({name: EXAMPLE[name] for name in granularities}, iso_year=placeholder.iso_year)
        raise LayoutError(f"partition value {placeholder.name}={value!r} is not a time:", f"write it as {example}.")
    return parts[placeholder.granularity]


def pattern(parts: Sequence[Part], *, nested: bool) -> re.Pattern[str]:
    """The template as a regular expression with a group for each placeholder; for a path without a slash at its end."""
    if not parts:
        return re.compile(".*", re.DOTALL)
    # Each value ends where its separator first occurs, so the shortest match is the value that was written.
    text = "".join(re.escape(part.text) if isinstance(part, Static) else _group(part, nested=nested) for part in parts)
    return re.compile(text if nested else f"{text}(?:/.*)?", re.DOTALL)


def segment_patterns(parts: Sequence[Part]) -> tuple[re.Pattern[str], ...]:
    """Return the names that each folder of a template without nested values can have."""
    texts = [""]
    for piece in parts:
        if isinstance(piece, Static):
            first, *others = map(re.escape, piece.text.split("/"))
            texts[-1] += first
            texts += others
        else:
            # `write` encodes a value that would be such a name.
            texts[-1] += (rf"(?!(?:{RESERVED.pattern})\Z)" if piece.bare else "") + _group(piece, nested=False)
    return tuple(re.compile(text, re.DOTALL) for text in texts if text)


def _group(placeholder: Placeholder, *, nested: bool) -> str:
    if placeholder.granularity is None:
        return f"({'.' if nested else '[^/]'}{'*' if placeholder.may_be_empty else '+'}?)"
    digits = DIGITS[placeholder.granularity]
    return f"({digits})" if placeholder.is_now else f"({digits}|{re.escape(placeholder.null)})"


def read(texts: PlaceholderTexts, zone: dt.tzinfo) -> str | None:
    """Return the encoded value of a partition column; None if no value has all of these texts.

    Raises:
        LayoutError: the value is percent-encoded, but not in UTF-8.
    """
    values = {None if text == p.null else unescape(text) for p, text in texts if p.granularity is None}
    if len(values) > 1:
        return None
    if values:
        value = values.pop()
        if any(write(p, value, zone, nested=False) != text for p, text in texts if p.granularity):
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
