"""Texts in blocks of whole records, read into memory of their own."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lake_assets.base.errors import SourceError

_BREAK = ord("\n")
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


def _positions_of(text: memoryview, character: int) -> Positions:
    """Return the positions of a character in a text."""
    characters = np.frombuffer(text, np.uint8)
    pieces = range(0, len(text), _AT_ONCE)
    parts = [np.flatnonzero(characters[first : first + _AT_ONCE] == character) + first for first in pieces]
    return np.concatenate(parts or [np.zeros(0, np.int64)])


def line_breaks(text: memoryview) -> Positions:
    """Return the positions of the line breaks in a text."""
    return _positions_of(text, _BREAK)


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
        ends = self._ends_if(text, breaks, quotes, inside=False)
        return ends.positions if ends.is_sound else self._ends_one_by_one(bytes(text))

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
        quotes = _positions_of(text, ord(self.quote))
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
        begins = np.isin(before, [quote, delimiter, _BREAK])
        return bool(begins.all() and np.isin(after, [quote, delimiter, _BREAK, _RETURN]).all())

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


class _Readable(Protocol):
    """A file that is read into buffers."""

    def readinto(self, space: memoryview, /) -> int | None:
        """Read the next bytes, and return their number: none at the end."""


Fill = Callable[[memoryview], int]
"""Reads into a buffer, all of it if the source is fast, and returns the number of bytes: none at the end."""

BLOCK = 4 * 2**20  # bytes of text that are parsed at a time
LONGEST = 16 * 2**20  # bytes of a record


class TextBlock(NamedTuple):
    """Whole records of a text."""

    text: memoryview
    ends: Positions  # the positions of these line breaks


def fill_from(file: _Readable, space: memoryview) -> int:
    """Read the next bytes of a file; a line break is added to the last line, so that it is parsed with the others."""
    size = 0
    while size < len(space) and (count := file.readinto(space[size:])):
        size += count
    if 0 < size < len(space) and space[size - 1] != _BREAK:
        space[size] = _BREAK
        size += 1
    return size


def whole_records(fill: Fill, path: str, find_ends: FindEnds | None = None) -> Iterator[TextBlock]:
    """Yield a text in blocks of whole records, by default of lines.

    Each block is read into its own memory: a copy would cost more than parsing saves. A record that is too long, or
    does not end, is refused.
    """
    rest = b""
    while True:
        block = memoryview(pa.allocate_buffer(len(rest) + BLOCK + 1)).cast("B")
        block[: len(rest)] = rest
        size = len(rest) + fill(block[len(rest) : -1])
        is_last = size < len(block) - 1
        ended = size == len(rest)
        if ended and rest and block[size - 1] != _BREAK:
            block[size] = _BREAK
            size += 1
        ends = find_ends(block[:size], is_last) if find_ends else line_breaks(block[:size])
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if ended and cut < size:
            raise SourceError(
                f"the last record of {path} has a quote that is not closed:",
                "land the object again, whole, or correct it.",
            )
        if cut:
            yield TextBlock(block[:cut], ends)
        if ended:
            return
        rest = bytes(block[cut:size])
        if len(rest) > LONGEST:
            raise SourceError(
                f"{path} has a record of more than {len(rest) // 2**20} MiB, as it seems:",
                "write each record on its own line, close each quote, or give the right format.",
            )
