"""Validation of records; if all of them fit, it costs one parse."""

# ruff: noqa: D102 - `Records` and `Parser` say what the methods do

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lake_assets.base.errors import LandingError, LayoutError
from lake_assets.schema.column_rules import Rules
from lake_assets.storage.formats.blocks import FindEnds, Positions, Quotes, TextBlock, line_breaks
from lake_assets.storage.formats.inferred_types import infinities

NOT_ONE_RECORD = "the line is not one whole record"

_INFINITY = re.compile(rb"\binf(inity)?\b", re.IGNORECASE)

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
        """Parse the rows."""

    def rejected(self, error: Exception) -> Rejected:
        """Return the one record with its error."""


class Parser(Protocol):
    """Parses the lines of one source."""

    source: str
    blank: bytes  # characters that are ignored at the ends of a record

    def read(self, text: memoryview, ends: Positions) -> pa.Table:
        """Return the rows of some records, given the positions of the line breaks that end them."""

    def split(self, record: bytes) -> Sequence[tuple[int, bytes]]:
        """Return the records of which one may consist as they are read: the lines of it before each, and its text."""

    def explain(self, record: bytes, error: Exception) -> str:
        """Return why a record does not fit, given the error of `read` or of the caller."""


@dataclass(frozen=True, slots=True)
class Block:
    """A text of whole records, as it was read."""

    text: memoryview  # the records, each with its line break; some may be blank
    ends: Positions  # the positions of these line breaks
    first: int  # the number of its first line in the source
    parser: Parser

    @property
    def source(self) -> str:
        return self.parser.source

    def __len__(self) -> int:
        return len(self.ends)

    def parts(self) -> Sequence[Records]:
        """Return the records that are not blank."""
        return [self.lines()]

    def at(self, row: int) -> "Lines":
        start = int(self.ends[row - 1]) + 1 if row else 0
        line = self.first + len(line_breaks(self.text[:start]))
        return Lines([(line, self._record(start, int(self.ends[row])))], self.parser)

    def lines(self) -> "Lines":
        """Return the records that are not blank."""
        starts = np.append(0, self.ends[:-1] + 1)
        numbers = self.first + np.searchsorted(line_breaks(self.text), starts)
        records = zip(numbers.tolist(), map(self._record, starts.tolist(), self.ends.tolist()), strict=True)
        parts = ((number, self.parser.split(record)) for number, record in records if record)
        return Lines([(number + before, part) for number, split in parts for before, part in split], self.parser)

    def _record(self, start: int, end: int) -> bytes:
        return bytes(self.text[start:end]).strip(self.parser.blank)

    def parse(self) -> pa.Table:
        return parsed(self.parser, self.text, self.ends)

    def rejected(self, error: Exception) -> Rejected:
        return self.lines().rejected(error)


@dataclass(frozen=True, slots=True)
class Lines:
    """Records of a text, none empty."""

    # The number of a record's first line in its source and its text, without the line break at its end
    lines: Sequence[tuple[int, bytes]]
    parser: Parser

    @property
    def source(self) -> str:
        return self.parser.source

    def __len__(self) -> int:
        return len(self.lines)

    def parts(self) -> Sequence[Records]:
        """Return two halves."""
        middle = len(self) // 2
        return [Lines(half, self.parser) for half in (self.lines[:middle], self.lines[middle:])] if middle else []

    def at(self, row: int) -> "Lines":
        return Lines([self.lines[row]], self.parser)

    def parse(self) -> pa.Table:
        text = memoryview(b"".join(line + b"\n" for _, line in self.lines))
        return parsed(self.parser, text, np.cumsum([len(line) + 1 for _, line in self.lines]) - 1)

    def rejected(self, error: Exception) -> Rejected:
        """Return the record as it came."""
        number, record = self.lines[0]
        text = record.decode("utf-8", errors="backslashreplace")
        return Rejected(self.parser.explain(record, error), text, self.source, number)


def parsed(parser: Parser, text: memoryview, ends: Positions) -> pa.Table:
    """Return the rows of a text of records, each with its line break at one of the ends.

    Raises ArrowInvalid or ValueError if a record cannot be read, is blank, is several, or is not UTF-8.
    """
    rows = parser.read(text, ends)
    if len(rows) != len(ends):
        raise pa.ArrowInvalid(NOT_ONE_RECORD)
    rows.validate(full=True)  # the JSON reader takes any bytes for text
    infinite = sum(map(infinities, rows.columns))
    if infinite and infinite > len(_INFINITY.findall(bytes(text))):
        raise pa.ArrowInvalid("a number is too large for its column")
    return rows


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows of an Arrow table."""

    rows: pa.Table
    source: str

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def parts(self) -> Sequence[Records]:
        """Return two halves."""
        middle = len(self) // 2
        halves = (self.rows.slice(0, middle), self.rows.slice(middle))
        return [ArrowRows(half, self.source) for half in halves] if middle else []

    def at(self, row: int) -> Records:
        return ArrowRows(self.rows.slice(row, 1), self.source)

    def parse(self) -> pa.Table:
        return self.rows

    def rejected(self, error: Exception) -> Rejected:
        """Return the row as JSON."""
        values = {name: _python(self.rows.column(name)) for name in self.rows.column_names}
        record = json.dumps(values, default=str, ensure_ascii=False)
        return Rejected(reason_of(error), record, self.source)


def _python(column: pa.ChunkedArray) -> object:
    """Return the only value of a column, as Arrow writes it if Python has no such time."""
    try:
        return column[0].as_py()
    except (OverflowError, ValueError):
        return column.combine_chunks().to_string(skip_new_lines=True)[1:-1]


def validate(records: Records, admit: Callable[[Records, pa.Table], Admitted]) -> Iterator[Admitted | Rejected]:
    """Yield the results of `admit` for the records that fit, and the rejected records, in their order.

    If a record does not fit, its part is halved and both halves are tried again. One bad record among n costs about two
    more parses, and a source of bad records only about log n. `admit` raises ArrowInvalid, ValueError or LayoutError if
    one of its records does not fit.
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


def reason_of(error: Exception) -> str:
    """Return the text of an error of Arrow, in one line."""
    return str(error).split("\n", 1)[0].removeprefix("JSON parse error: ").replace(" in row 0", "")


_SAMPLE = 2**20  # bytes from which a schema is inferred
_TRIED = 8  # records that may be unreadable before the first one from which it is

FixSchema = Callable[[Callable[[], pa.Schema]], pa.Schema]
"""Takes a function that infers a schema from the first records, and returns the schema of all records."""


class TextSource(ABC):
    """One source of text; parses its lines and knows its columns once these are fixed."""

    blank = b"\r"

    def __init__(self, source: str, schema: pa.Schema | FixSchema, rules: Rules | None = None) -> None:
        self.source = source
        # Those of rows for a table; None for others. For a table, no types of columns without values are inferred, and
        # decimals of numbers beyond 64 bits.
        self._rules = rules
        self._rescue = None if rules is None else rules.rescue  # the column of rows of `read` with what does not fit
        self._fix = schema if callable(schema) else None  # how the schema is fixed, as of `read_records`
        self._schema: pa.Schema | None = None if callable(schema) else schema
        self._line = 1

    @property
    def quotes(self) -> Quotes | None:
        """How a record may have line breaks; None if it has none."""
        return None

    @property
    def find_ends(self) -> FindEnds | None:
        """Finds the ends of records, if they are not those of lines."""
        quotes = self.quotes
        return None if quotes is None else lambda text, _: quotes.ends(text)

    def ends_from_anywhere(self, text: memoryview, *, is_long: bool) -> Positions | None:
        """Return the ends of the records of a text that begins anywhere, as of `Quotes`."""
        return self.quotes.ends_from_anywhere(text, is_long=is_long) if self.quotes else line_breaks(text[1:]) + 1

    def split(self, record: bytes) -> Sequence[tuple[int, bytes]]:
        return [(0, record)]

    def _fixed(self, records: "Block | Lines") -> pa.Schema:
        """Return the schema of all records, given the first ones."""
        if self._schema is None:
            assert self._fix is not None  # noqa: S101 - one of both is given
            self._schema = self._fix(lambda: self.infer(records))
        return self._schema

    @abstractmethod
    def records(self, block: TextBlock) -> Iterator[Block | Lines]:
        """Return the source's next records."""

    @abstractmethod
    def read(self, text: memoryview, ends: Positions) -> pa.Table:
        """Return the rows of some records, as a `Parser`."""

    def explain(self, record: bytes, error: Exception) -> str:  # noqa: ARG002 - for the forms that override it
        return reason_of(error)

    def infer(self, records: Block | Lines) -> pa.Schema:
        """Return the columns that records have, by the first of them that agree."""
        schema, size, first = None, 0, list[bytes]()
        for _, record in (records if isinstance(records, Lines) else records.lines()).lines:
            first.append(record)
            size += len(record)
            if size >= _SAMPLE:
                break
        schema = self._infer_first(self._admitted(first))
        if schema is None:
            raise LandingError(
                f"none of the first records of {self.source} can be read:",
                "give the right format, or correct the text.",
            )
        return schema

    def _admitted(self, records: Sequence[bytes]) -> Sequence[bytes]:
        """Return the records from which a schema is inferred."""
        return records

    @abstractmethod
    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        """Return the schema of these lines; raises ArrowInvalid if two of them disagree."""

    def _infer_first(self, lines: Sequence[bytes]) -> pa.Schema | None:
        """Return the schema of the first of these lines that agree; None if none of the first can be read."""
        for start in range(min(len(lines), _TRIED)):
            some = lines[start:]
            while some:
                try:
                    return self._infer_all(some)
                except pa.ArrowInvalid:
                    some = some[: len(some) // 2]
        return None
