"""One placeholder's place in a path: what is written there for a value, and what is read from it."""

import datetime as dt
import re
from collections.abc import Sequence

from lake_assets.errors import LayoutError
from lake_assets.layout.grammar import Part, Placeholder, Static
from lake_assets.layout.hive import HIVE_NULL, escape, escape_characters, unescape
from lake_assets.layout.timestamps import DIGITS, EXAMPLE, Granularity, compose, part, take_apart
from lake_assets.layout.values import value_text, value_time


def write(placeholder: Placeholder, value: object, zone: dt.tzinfo, *, nested: bool) -> str:
    """What the path holds for a row's value; not empty, unless the place keeps that, and of one folder unless `nested`.

    Raises:
        LayoutError: the value is of a type that no path can name.
    """
    if placeholder.granularity is None:
        return _encoded(placeholder, value_text(placeholder.column, value, zone), nested=nested)
    time = value_time(placeholder.column, value, zone)
    return placeholder.null if time is None else part(time, placeholder.granularity, iso_year=placeholder.iso_year)


def _encoded(placeholder: Placeholder, value: str | None, *, nested: bool) -> str:
    if value == "" and placeholder.keeps_empty:
        return ""
    if value in {None, "", HIVE_NULL}:
        return placeholder.null
    also = placeholder.separator
    if nested and "/" in value and all(value.split("/")):
        return "/".join(escape(piece, also=also) for piece in value.split("/"))
    if placeholder.bare and not value.strip("."):
        return value.replace(".", "%2E")
    text = escape_characters(value, also=also)
    if text == placeholder.null:
        # A value that reads as the default does is told from it by one encoded letter of `default_`.
        return escape_characters(value, also=also + ("e" if also == "d" else "d"))
    return text


def write_partition(
    placeholder: Placeholder, text: str, together: Sequence[Granularity], zone: dt.tzinfo, *, nested: bool
) -> str:
    """What the path holds for a partition's value.

    Args:
        placeholder: the place.
        text: the encoded value, as `read` gives it.
        together: the granularities of the column's places, by which the text of a time's parts is taken apart;
            none where the whole value has a place too, for then it is the text.
        zone: whose clock dates and hours are of.
        nested: a `/` in the value makes folders.

    Raises:
        LayoutError: the place is for a part of a time, and the text is no time.
    """
    if text == "" and placeholder.may_be_empty:
        return ""
    if text in {"", HIVE_NULL}:
        return placeholder.null
    value = unescape(text)
    if placeholder.granularity is None or not together:
        return write(placeholder, value, zone, nested=nested)
    parts = take_apart(value, together, zone, iso_year=placeholder.iso_year)
    if parts is None:
        example = compose({name: EXAMPLE[name] for name in together}, iso_year=placeholder.iso_year)
        raise LayoutError(f"partition value {placeholder.name}={value!r} is no time:", f"write it as {example}.")
    return parts[placeholder.granularity]


def pattern(parts: Sequence[Part], *, nested: bool) -> re.Pattern[str]:
    """The template as a regular expression with one group a placeholder, for a path without a slash at its end."""
    if not parts:
        return re.compile(".*", re.DOTALL)
    # Each value ends where its separator first occurs, so the shortest reading is the one that was written.
    text = "".join(re.escape(part.text) if isinstance(part, Static) else _group(part, nested=nested) for part in parts)
    return re.compile(text if nested else f"{text}(?:/.*)?", re.DOTALL)


def _group(placeholder: Placeholder, *, nested: bool) -> str:
    if placeholder.granularity:
        return _digits(placeholder)
    return f"({'.' if nested else '[^/]'}{'*' if placeholder.may_be_empty else '+'}?)"


def _digits(placeholder: Placeholder) -> str:
    assert placeholder.granularity is not None  # noqa: S101 - the caller asked
    digits = DIGITS[placeholder.granularity]
    return f"({digits})" if placeholder.is_now else f"({digits}|{re.escape(placeholder.null)})"


def read(found: Sequence[tuple[Placeholder, str]], zone: dt.tzinfo) -> str | None:
    """The encoded value of a partition column from all its places in a path; None if no one value has them all.

    Raises:
        LayoutError: the value is percent-encoded, but not in UTF-8.
    """
    whole = {text == placeholder.null or unescape(text) for placeholder, text in found if not placeholder.granularity}
    if len(whole) > 1:
        return None
    if whole:
        value = None if (only := whole.pop()) is True else str(only)
        parts = [(placeholder, text) for placeholder, text in found if placeholder.granularity]
        if any(write(placeholder, value, zone, nested=False) != text for placeholder, text in parts):
            return None
        # Where a path may hold nothing, that is the text; elsewhere it is not matched.
        return HIVE_NULL if value is None else escape(value) if value else ""
    nulls = [text == placeholder.null for placeholder, text in found]
    if any(nulls):
        return HIVE_NULL if all(nulls) else None
    digits: dict[Granularity, str] = {}
    for placeholder, text in found:
        if placeholder.granularity and digits.setdefault(placeholder.granularity, text) != text:
            return None
    return compose(digits, iso_year=found[0][0].iso_year)
