"""Validation of records; if all of them fit, it costs one parse."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lake_assets.errors import LayoutError
from lake_assets.formats.schema import infinities

BREAK = ord("\n")
NOT_ONE_RECORD = "the line is not one whole record"

_AT_ONCE = 2**18  # bytes that are searched for line breaks at a time; the intermediate array fits the processor's cache

_INFINITY = re.compile(rb"\binf(inity)?\b", re.IGNORECASE)

Positions = npt.NDArray[np.int64]

Admitted = TypeVar("Admitted")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that does not fit, as it came, with the reason."""

    reason: str
    record: str
    source: str  # a file's path, `-` for standard input, or what the caller calls it
    line: int | None = None  # in the source, from 1


class Records(Protocol):
    """Some records of a source, not parsed yet."""

    @property
    def source(self) -> str:
        """As in `Rejected`."""

    def __len__(self) -> int: ...

    def parts(self) -> Sequence["Records"]:
        """Return the same records in smaller parts; none if this is one record."""

    def at(self, row: int) -> "Records":
        """Return the one record of a row of `parse`, from 0."""

    def parse(self) -> pa.Table:
        """Parse the rows.

        Raises:
            ArrowInvalid, ValueError: one of them cannot be read.
        """

    def rejected(self, error: Exception) -> Rejected:
        """Return the one record with its error."""


class Parser(Protocol):
    """Parses the lines of one source.

    Attributes:
        source: as in `Rejected`.
        blank: characters that are ignored at the ends of a line.
    """

    source: str
    blank: bytes

    def read(self, text: memoryview, breaks: Positions) -> pa.Table:
        """Return the rows of some lines, each with its line break, given the positions of these."""

    def explain(self, line: bytes) -> str | None:
        """Return a better reason than the parser's why a line does not fit, if there is one."""


@dataclass(frozen=True, slots=True)
class Block:
    """A text of whole lines, as it was read.

    Args:
        text: the lines, each with its line break; some may be blank.
        breaks: the positions of the line breaks.
        first: the number of its first line in the source.
        parser: of the source.
    """

    text: memoryview
    breaks: Positions
    first: int
    parser: Parser

    @property
    def source(self) -> str:
        """See `Records`."""
        return self.parser.source

    def __len__(self) -> int:
        return len(self.breaks)

    def parts(self) -> Sequence[Records]:
        """Return the lines that are not blank."""
        return [self.lines()]

    def at(self, row: int) -> Records:
        """See `Records`."""
        start = int(self.breaks[row - 1]) + 1 if row else 0
        line = bytes(self.text[start : int(self.breaks[row])]).strip(self.parser.blank)
        return Lines([(self.first + row, line)], self.parser)

    def lines(self) -> "Lines":
        """Return the lines that are not blank."""
        lines = ((n, line.strip(self.parser.blank)) for n, line in enumerate(bytes(self.text).split(b"\n"), self.first))
        return Lines([(n, line) for n, line in lines if line], self.parser)

    def parse(self) -> pa.Table:
        """See `Records`."""
        return parsed(self.parser, self.text, self.breaks)

    def rejected(self, error: Exception) -> Rejected:
        """See `Records`."""
        return self.lines().rejected(error)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a text, none empty.

    Args:
        lines: a line's number in its source and its text, without the line break.
        parser: of the source.
    """

    lines: Sequence[tuple[int, bytes]]
    parser: Parser

    @property
    def source(self) -> str:
        """See `Records`."""
        return self.parser.source

    def __len__(self) -> int:
        return len(self.lines)

    def parts(self) -> Sequence[Records]:
        """Return two halves."""
        middle = len(self) // 2
        return [Lines(half, self.parser) for half in (self.lines[:middle], self.lines[middle:])] if middle else []

    def at(self, row: int) -> Records:
        """See `Records`."""
        return Lines([self.lines[row]], self.parser)

    def parse(self) -> pa.Table:
        """See `Records`."""
        text = memoryview(b"".join(line + b"\n" for _, line in self.lines))
        return parsed(self.parser, text, line_breaks(text))

    def rejected(self, error: Exception) -> Rejected:
        """Return the line as it came."""
        number, line = self.lines[0]
        text = line.decode("utf-8", errors="backslashreplace")
        return Rejected(self.parser.explain(line) or _reason(error), text, self.source, number)


def line_breaks(text: memoryview) -> Positions:
    """Return the positions of the line breaks in a text."""
    characters = np.frombuffer(text, np.uint8)
    pieces = range(0, len(text), _AT_ONCE)
    return np.concatenate(
        [np.flatnonzero(characters[first : first + _AT_ONCE] == BREAK) + first for first in pieces]
        or [np.zeros(0, np.int64)]
    )


def parsed(parser: Parser, text: memoryview, breaks: Positions) -> pa.Table:
    """Return the rows of a text, each line of which must be one record.

    Args:
        parser: of the source.
        text: the lines, each with its line break.
        breaks: the positions of these.

    Raises:
        ArrowInvalid, ValueError: a line is not a record, is several, or is not UTF-8.
    """
    rows = parser.read(text, breaks)
    if len(rows) != len(breaks):
        raise pa.ArrowInvalid(NOT_ONE_RECORD)
    rows.validate(full=True)  # the JSON reader takes any bytes for text
    infinite = sum(map(infinities, rows.columns))
    if infinite and infinite > len(_INFINITY.findall(bytes(text))):
        raise pa.ArrowInvalid("a number is too large for its column")
    return rows


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an Arrow table."""

    rows: pa.Table
    source: str

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def parts(self) -> Sequence[Records]:
        """Return two halves."""
        middle = len(self) // 2
        halves = (self.rows.slice(0, middle), self.rows.slice(middle))
        return [Rows(half, self.source) for half in halves] if middle else []

    def at(self, row: int) -> Records:
        """See `Records`."""
        return Rows(self.rows.slice(row, 1), self.source)

    def parse(self) -> pa.Table:
        """See `Records`."""
        return self.rows

    def rejected(self, error: Exception) -> Rejected:
        """Return the row as JSON."""
        record = json.dumps(self.rows.to_pylist()[0], default=str, ensure_ascii=False)
        return Rejected(_reason(error), record, self.source)


def validate(records: Records, admit: Callable[[Records, pa.Table], Admitted]) -> Iterator[Admitted | Rejected]:
    """Yield the results of `admit` for the records that fit, and the rejected records, in their order.

    If a record does not fit, its part is halved and both halves are tried again. One bad record among n costs about two
    more parses, and a source of bad records only about log n.

    Args:
        records: any number.
        admit: is given records with their rows; raises ArrowInvalid, ValueError or LayoutError if one does not fit.
    """
    if not len(records):
        return
    try:
        yield admit(records, records.parse())
    except (pa.ArrowInvalid, ValueError, LayoutError) as error:
        parts = records.parts()
        if not parts:
            yield records.rejected(error)
        for part in parts:
            yield from validate(part, admit)


def _reason(error: Exception) -> str:
    return str(error).split("\n", 1)[0].removeprefix("JSON parse error: ").replace(" in row 0", "")
