"""Where the records of a text end: at each line break, but for those within quotes (RFC 4180, section 2.6) or JSON."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BREAK = ord("\n")
_RETURN = ord("\r")
_AT_ONCE = 2**18  # bytes that are searched at a time; the intermediate array fits the processor's cache

Positions = npt.NDArray[np.int64]
FindEnds = Callable[[memoryview, bool], Positions]
"""Finds the positions of the line breaks that end a record in a text that begins with one, and may be the last one."""

_CLOSE, _OPEN = b"}{"
_BETWEEN = re.compile(rb"(?:\A|\})[ \t\r\n]*+(?=\{)")


class Ends(NamedTuple):
    """The ends of records, if a text begins within quotes or outside of them."""

    positions: Positions
    is_sound: bool  # each quote is where one may be, so the text certainly begins as assumed


def positions_of(text: memoryview, character: int) -> Positions:
    """Return the positions of a character in a text."""
    characters = np.frombuffer(text, np.uint8)
    pieces = range(0, len(text), _AT_ONCE)
    found = [np.flatnonzero(characters[first : first + _AT_ONCE] == character) + first for first in pieces]
    return np.concatenate(found or [np.zeros(0, np.int64)])


def line_breaks(text: memoryview) -> Positions:
    """Return the positions of the line breaks in a text."""
    return positions_of(text, BREAK)


def object_breaks(text: memoryview, is_last: bool) -> Positions:
    """Return the positions of the last line breaks between `}` and `{`, as of `FindEnds`: these are between objects."""
    breaks, characters = line_breaks(text), np.frombuffer(text, np.uint8)
    inner = breaks[breaks + 1 < len(text)]
    before = characters[inner - 1]
    before = np.where(before == _RETURN, characters[inner - 2], before)
    if (before != _CLOSE).any() or (characters[inner + 1] != _OPEN).any():  # blanks, or objects on several lines
        spans = np.array([match.span() for match in _BETWEEN.finditer(text)], np.int64).reshape(-1, 2)
        last = np.searchsorted(inner, spans[:, 1]) - 1
        inner = inner[last[(last >= 0) & (inner[last] >= spans[:, 0])]]
    return np.append(inner, breaks[-1:]) if is_last else inner


@dataclass(frozen=True)
class Quotes:
    """How the values of a text are quoted.

    Besides a second quote, `escape` may be before a quote that is part of a value; None if there is none.
    """

    quote: bytes
    delimiter: bytes
    escape: bytes | None = None

    def ends(self, text: memoryview) -> Positions:
        """Return the ends of the records of a text that begins with one."""
        breaks, quotes = line_breaks(text), self._quotes(text)
        if not len(quotes):
            return breaks
        found = self._ends_if(text, breaks, quotes, inside=False)
        return found.positions if found.is_sound else self._ends_one_by_one(bytes(text))

    def _ends_if(self, text: memoryview, breaks: Positions, quotes: Positions, *, inside: bool) -> Ends:
        """Return the ends of records if the text begins within quotes, or not."""
        outside = (np.searchsorted(quotes, breaks) + inside) % 2 == 0
        return Ends(breaks[outside], self._are_sound(np.frombuffer(text, np.uint8), quotes, inside=inside))

    def ends_from_anywhere(self, text: memoryview, *, is_long: bool) -> Positions | None:
        """Return the ends of the records of a text that begins anywhere; None if it does not tell whether in quotes.

        They are known only if the text certainly begins outside of quotes, or has none: a quote within a value, such as
        an inch sign, looks like one that ends a value. The first byte is only what is before the text. `is_long`: no
        value is as long, or ends behind the text, so one without quotes is outside of them.
        """
        quotes = self._quotes(text)
        quotes = quotes[quotes > 0]
        breaks = line_breaks(text[1:]) + 1
        if not len(quotes):
            return breaks if is_long else None
        outside, inside = (self._ends_if(text, breaks, quotes, inside=inside) for inside in (False, True))
        return outside.positions if outside.is_sound and not inside.is_sound else None

    def _quotes(self, text: memoryview) -> Positions:
        quotes = positions_of(text, ord(self.quote))
        if self.escape is None or self.escape == self.quote or not len(quotes):
            return quotes
        characters = np.frombuffer(text, np.uint8)
        escapes = np.zeros(len(quotes), np.int64)  # directly before each quote: an odd number of them escapes it
        pending = np.arange(len(quotes))
        while len(pending := pending[quotes[pending] > escapes[pending]]):
            before = characters[quotes[pending] - escapes[pending] - 1]
            pending = pending[before == ord(self.escape)]
            escapes[pending] += 1
        unescaped: Positions = quotes[escapes % 2 == 0]
        return unescaped

    def _are_sound(self, characters: npt.NDArray[np.uint8], quotes: Positions, *, inside: bool) -> bool:
        """Return whether each opening quote begins a value, and each closing one ends one or is doubled."""
        opening, closing = quotes[int(inside) :: 2], quotes[int(not inside) :: 2]
        quote, delimiter = ord(self.quote), ord(self.delimiter)
        before = characters[opening[opening > 0] - 1]
        after = characters[closing[closing + 1 < len(characters)] + 1]
        begins = np.isin(before, [quote, delimiter, BREAK])
        return bool(begins.all() and np.isin(after, [quote, delimiter, BREAK, _RETURN]).all())

    def _ends_one_by_one(self, text: bytes) -> Positions:
        """Return the ends of records of a text with quotes within values, which count only where a value begins."""
        ends, position = [], 0
        while position < len(text) and (match := self._record.match(text, position)):
            position = match.end()
            ends.append(position - 1)
        return np.array(ends, np.int64)

    @cached_property
    def _record(self) -> re.Pattern[bytes]:
        quote, delimiter = re.escape(self.quote), re.escape(self.delimiter)
        escaped = rb"" if self.escape is None else re.escape(self.escape)
        within = rb"[^%b%b]|%b%b" % (quote, escaped, quote, quote)
        if escaped:
            within += rb"|%b." % escaped
        rest = rb"[^%b\n]*+" % delimiter
        value = rb"(?:%b(?:%b)*+%b%b|(?!%b)%b)" % (quote, within, quote, rest, quote, rest)
        return re.compile(rb"%b(?:%b%b)*+\n" % (value, delimiter, value), re.DOTALL)
