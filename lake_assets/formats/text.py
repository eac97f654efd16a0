"""Texts of records, parsed by Arrow; each form of them is a class of its own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lake_assets.errors import LandingError
from lake_assets.formats.blocks import TextBlock
from lake_assets.formats.record_ends import FindEnds, Positions, Quotes, line_breaks
from lake_assets.formats.records import Block, Lines, reason_of

_SAMPLE = 2**20  # bytes from which a schema is inferred
_TRIED = 8  # records that may be unreadable before the first one from which it is

FixSchema = Callable[[Callable[[], pa.Schema]], pa.Schema]
"""Takes a function that infers a schema from the first records, and returns the schema of all records."""


class Text(ABC):
    """One source of text; parses its lines and knows its columns once these are fixed."""

    blank = b"\r"

    def __init__(
        self, source: str, schema: pa.Schema | FixSchema, *, for_table: bool = False, rescue: str | None = None
    ) -> None:
        self.source = source
        self._rescue = rescue  # the column of rows of `read` with what does not fit; None: that is an error
        # Types are inferred for a table: none of columns without values, and decimals of numbers beyond 64 bits.
        self._for_table = for_table
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
        """See `Parser`."""
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
        """See `Parser`."""

    def explain(self, record: bytes, error: Exception) -> str:  # noqa: ARG002 - for the forms that override it
        """See `Parser`."""
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
