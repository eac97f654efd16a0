"""Texts for people and stores: numbers of things, long lists, bytes that are not UTF-8; and texts of other programs.

Python represents a byte that is not UTF-8 as half a surrogate pair. The texts that identify errors of other programs
are in tables, one for each vendor.
"""

import datetime as dt
import difflib
import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Generic, TypeVar

_Meaning = TypeVar("_Meaning", bound=Enum)


@dataclass(frozen=True, slots=True)
class VendorText(Generic[_Meaning]):
    """A text that a vendor's program or server says."""

    pattern: str
    means: _Meaning  # what it says
    when: str  # the vendor says it
    is_provoked: bool = True  # whether a test provokes it
    advice: str = ""  # how to fix it, where this text says more than its meaning


class VendorTexts(Generic[_Meaning]):
    """The texts of some vendors."""

    def __init__(
        self, vendors: Mapping[str, Sequence[VendorText[_Meaning]]], ignoring_case: Collection[_Meaning] = ()
    ) -> None:
        self.vendors = vendors
        self._ignoring_case = ignoring_case  # the meanings in whose texts upper and lower case do not count
        self._pattern = cache(self._compiled)

    def of(self, means: _Meaning) -> tuple[VendorText[_Meaning], ...]:
        """Return the texts of all vendors that say this."""
        return tuple(text for vendor in self.vendors.values() for text in vendor if text.means is means)

    def find(self, error: object, means: _Meaning) -> re.Match[str] | None:
        """Return where the text of an error says this."""
        return self._pattern(means).search(str(error))

    def _compiled(self, means: _Meaning) -> re.Pattern[str]:
        flags = re.IGNORECASE if means in self._ignoring_case else 0
        return re.compile("|".join(f"(?:{text.pattern})" for text in self.of(means)) or r"(?!)", flags)


_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufdd0-\ufdef\ufeff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile("[\t\n]")


def visible(text: str) -> str:
    r"""Return the text with escapes for its control characters; line breaks and tabs stay.

    >>> print(visible("\x1b[2Jdone\u202e"))
    \x1b[2Jdone\u202e
    """
    return _CONTROLS.sub(_escape, text.replace("\r\n", "\n"))


def visible_name(text: str) -> str:
    r"""Return the name in one line: with escapes for its control characters, line breaks and tabs.

    >>> print(visible_name("a\nb\r\n"))
    a\nb\r\n
    """
    return _BREAKS.sub(_escape, _CONTROLS.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `1,095 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def figure(number: int | None) -> str:
    """Return a number for a table; empty without one."""
    return "" if number is None else f"{number:,}"


def moment(time: dt.datetime | None) -> str:
    """Return a time for a table, in UTC; empty without one."""
    return "" if time is None else f"{time.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}"


def size(number: int) -> str:
    """Return bytes in decimal units: `12.7 kB`."""
    from rich.filesize import decimal  # noqa: PLC0415 - quick to import without it

    return decimal(number)


def duration(seconds: float) -> str:
    """Return a duration with its unit: `0.02 s`, `1.8 s`, `4 min 12 s`."""
    if round(seconds, 1) < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def age(seconds: float) -> str:
    """Return an age in its largest unit: `40 s`, `3 min`, `5 h`, `2 days`."""
    for length, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= length * (2 if unit == "day" else 1):
            number = int(seconds // length)
            return count(number, unit) if unit == "day" else f"{number} {unit}"
    return f"{max(0, int(seconds))} s"


def durations(seconds: Mapping[str, float]) -> str:
    """Return the total, and each step that took a hundredth of a second or more: `1.8 s: list 0.02 s, job 1.7 s`."""
    steps = [f"{step} {duration(taken)}" for step, taken in seconds.items() if taken >= 0.005]
    return ": ".join([duration(sum(seconds.values())), *([", ".join(steps)] if len(seconds) > 1 and steps else [])])


HASH_BITS = 40  # a change is missed once in 2^40; the cursor of a sensor holds thousands of hashes


def hash_of(*parts: object, bits: int = HASH_BITS) -> int:
    """Return a hash of the texts of the parts; `bits` is a multiple of 8."""
    text = "\0".join(map(str, parts)).encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=bits // 8).digest(), "big")


def several(names: Sequence[str], most: int = 3) -> str:
    """Return the first names and the number of the others: `a, b, c and 4 more`."""
    more = len(names) - most
    return ", ".join(map(visible_name, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def first_lines(lines: Sequence[str], most: int, rest: str = "- and {more:,} more") -> list[str]:
    """Return the first lines, and a last one, `rest`, with the number of the others for `{more}`."""
    more = len(lines) - most
    return [*lines[:most], *([rest.format(more=more)] if more > 0 else [])]


def is_unicode(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8, as catalogs, stores and Spark require."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_caret(text: str, at: int) -> str:
    """Return the line, indented, and a caret under the character at this position in the next line."""
    shown = "".join(chr(0x2400 + ord(c)) if c < " " else c for c in text)
    before = shown[:at]
    width = sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in before)
    return f"  {shown}\n  {' ' * width}^"


def value_text(value: object) -> str:
    """Return a value of a row in errors: its text in quotes, or NULL."""
    return "NULL" if value is None else repr(str(value))


def shown(text: str) -> str:
    r"""Return the text in quotes, with `\xff` for a byte that is not UTF-8, so that it can be printed and stored.

    >>> print(shown("p=\udcff"))
    'p=\xff'
    """
    return repr(text).replace(r"\udc", r"\x")


def storable(text: str) -> str:
    r"""Return the text, with `\xff` for a byte that is not UTF-8."""
    return text if is_unicode(text) else text.encode(errors="backslashreplace").decode().replace(r"\udc", r"\x")


def nearest(text: str, among: Iterable[str], *, most: int = 3, cutoff: float = 0.5) -> list[str]:
    """Return up to `most` texts that are similar, from 0 to 1 at least `cutoff`, the first most, regardless of case."""
    by_fold: dict[str, str] = {}
    for candidate in among:
        by_fold.setdefault(candidate.casefold(), candidate)
    return [by_fold[match] for match in difflib.get_close_matches(text.casefold(), by_fold, n=most, cutoff=cutoff)]


def meant(name: str, known: Iterable[str]) -> str:
    """Return how to correct an unknown name: the known one that it resembles, or all known ones."""
    *names, last = known
    if near := nearest(name, [*names, last], most=1, cutoff=0.7):
        return f"did you mean {near[0]}?"
    return f"use {', '.join(names)} or {last}." if names else f"use {last}."
