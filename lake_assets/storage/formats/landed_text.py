"""The rows of a CSV or JSON object, in the types that the table has, or in inferred ones."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

import numpy as np
import pyarrow as pa

from lake_assets.base.errors import LandingError, SchemaError, SourceError
from lake_assets.config.formats import TextFormat
from lake_assets.schema.arrow_types import untyped_columns, with_types_of
from lake_assets.schema.bad_rows import ROW_NUMBER, BadRows
from lake_assets.schema.column_rules import drift_error
from lake_assets.schema.fitter import Fitter
from lake_assets.storage.formats.blocks import BLOCK, LONGEST, TextBlock, fill_from, whole_records
from lake_assets.storage.formats.inferred_types import fit
from lake_assets.storage.formats.landed_rows import WHOLE_OBJECT, ExpectedObject, LandedBatch, Part
from lake_assets.storage.formats.records import Block, Lines, Records, Rejected, TextSource, validate
from lake_assets.storage.formats.text_files import TextFile

RAW, LINE = "_raw", "_line"
"""The columns of dead letters of texts: a record as it was landed, and the number of its first line, from 1."""

_WINDOW = 2**20  # bytes, at first, that show whether a part of an object begins within quotes
_FIX = (
    "correct it and land the object again, give the form of its values in the stream's format, or set on_bad_row: "
    "dead_letter, with which the other rows are committed."
)


class LandedText(ABC):
    """The rows of a text, which is divided into shares by its bytes if it is stored as it is read."""

    schema: pa.Schema
    count: int | None = None

    def __init__(self, file: pa.NativeFile, origin: str, expected: ExpectedObject) -> None:
        self._file = file
        self._form: TextFormat = expected.form
        self._origin = origin
        self._rules = expected.rules
        self._texts: list[TextFile] = []  # an Arrow stream that is not used any more closes the file below it
        text = self._opened()
        self._is_stored, self._mark = text.is_stored, text.begin
        self._skipped, self._lines = 0, 0  # bytes and lines of the text before its first record

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return self._is_stored and self._file.size() <= BLOCK

    def read(
        self, part: Part, columns: Sequence[str], fitter: Fitter, *, numbered: bool
    ) -> Iterator[LandedBatch | BadRows]:
        """See `LandedRows`."""
        schema = pa.schema([self.schema.field(name) for name in columns or self.schema.names[:1]])
        parser = self._parser(schema)
        lines = cache(partial(self.lines_before, part))  # counted when they are needed first
        first = self._rows_before(part) if numbered else 0

        def admitted(records: Records, rows: pa.Table) -> tuple[Records, pa.Table]:
            fitted = fit(rows.select([name for name in schema.names if name in rows.column_names]), schema)
            rescue = self._rules.rescue
            is_kept = rescue is not None and rescue in rows.column_names
            return records, fitted.append_column(rescue, rows.column(rescue)) if is_kept else fitted

        for records in self._records(parser, part):
            for result in validate(records, admitted):
                if not isinstance(result, Rejected):
                    kept, rows = result
                    letters = partial(_letters, kept, lines, first)
                    for batch in rows.combine_chunks().to_batches():
                        yield LandedBatch(batch, first, letters)
                        first += batch.num_rows
                    continue
                first += 1
                self._refuse_new_columns(result)
                number = lines() + (result.line or 1)
                if not fitter.splits:
                    raise SchemaError(f"line {number:,} of {self._origin} does not fit: {result.reason}:", _FIX)
                yield _bad([(number, result.record)], [f"line {number:,}: {result.reason}"])

    @abstractmethod
    def _parser(self, schema: pa.Schema) -> TextSource:
        """Return a parser of the object's records as a schema."""

    @abstractmethod
    def _records(self, parser: TextSource, part: Part) -> Iterator[Block | Lines]:
        """Yield the records of a part, some at a time."""

    def _refuse_new_columns(self, rejected: Rejected) -> None:
        """Refuse a record with a column that was not known before it, or with the first value of one without a type."""
        if not self._may_be_new(rejected):
            return
        try:
            schema = self._with_new_columns(Lines([(1, rejected.record.encode())], self._parser(self.schema)))
        except SourceError:  # it is no record
            return
        if {f.name.lower(): f.type for f in schema} != {f.name.lower(): f.type for f in self.schema}:
            raise drift_error(self._origin, schema)

    def _may_be_new(self, rejected: Rejected) -> bool:  # noqa: ARG002 - for the forms that override it
        return bool(untyped_columns(self.schema)) and not self._rules.is_input

    def _with_new_columns(self, records: Block | Lines) -> pa.Schema:
        """Return the known columns, with types for those without one that the records have."""
        return with_types_of(self.schema, [self._inferred(records)])

    def _rows_before(self, part: Part) -> int:
        """Return the number of records before a part; the object is read for it up to there."""
        if not self._is_stored:
            return 0  # the first part has all of them
        parser = self._parser(self.schema)
        before = (Part(number, part.of) for number in range(part.number))
        parts = (records for earlier in before for records in self._records(parser, earlier))
        return sum(len(records.lines() if isinstance(records, Block) else records) for records in parts)

    def lines_before(self, part: Part) -> int:
        """Return the number of lines before the first record of a part; the object is read for it up to there."""
        if not part.number:
            return self._lines
        start, lines = self._first_record(self._parser(self.schema), part), 0
        for position in range(0, start, BLOCK):
            lines += self._file.read_at(min(BLOCK, start - position), position).count(b"\n")
        return lines

    def _opened(self) -> TextFile:
        self._file.seek(0)
        self._texts.append(TextFile(self._file, self._form, self._origin))
        return self._texts[-1]

    def _sample(self) -> Block | Lines | None:
        return next(iter(self._records(self._parser(pa.schema([])), WHOLE_OBJECT)), None)

    def _inferred(self, sample: Block | Lines) -> pa.Schema:
        try:
            return self._parser(pa.schema([])).infer(sample)
        except LandingError as error:
            raise SourceError(error.problem, error.hint) from error

    def _blocks(self, parser: TextSource, part: Part) -> Iterator[TextBlock]:
        """Yield the records that begin in a part's bytes; the first part has all of a text that is not stored."""
        if not self._is_stored:
            if not part.number:
                file = self._opened()
                file.skip(self._skipped)
                yield from whole_records(partial(fill_from, file), self._origin, parser.find_ends)
            return
        position, end = self._first_record(parser, part), self._end_of(part)
        self._file.seek(position)
        for text, ends in whole_records(partial(fill_from, self._file), self._origin, parser.find_ends):
            own = int(np.searchsorted(position + np.append(0, ends[:-1] + 1), end))
            if own:
                yield TextBlock(text[: int(ends[own - 1]) + 1], ends[:own])
            if own < len(ends):
                self._check_end(parser, part, position + (int(ends[own - 1]) + 1 if own else 0))
                return
            position += len(text)
        self._check_end(parser, part, min(position, self._file.size()))

    def _end_of(self, part: Part) -> int:
        return part.span(int(self._file.size())).stop

    def _check_end(self, parser: TextSource, part: Part, position: int) -> None:
        """Refuse a text of which the next part would not begin where this one ends, so that rows could be lost."""
        end = self._end_of(part)
        if part.number + 1 < part.of and end > self._begin and self._start_near(parser, end) not in {None, position}:
            raise SourceError(
                f"the quotes of {self._origin} do not tell where the records near byte {end:,} begin:",
                "correct them, or land it compressed, so that it is read from its begin.",
            )

    def _first_record(self, parser: TextSource, part: Part) -> int:
        """Return the position of the first record that begins in a part's bytes, or behind them if none does."""
        begin, size = self._begin, int(self._file.size())
        at = part.span(size).start
        if at <= begin:
            return begin
        if (start := self._start_near(parser, at)) is not None:
            return start
        self._file.seek(position := begin)
        for text, ends in whole_records(partial(fill_from, self._file), self._origin, parser.find_ends):
            starts = position + ends + 1
            if starts[-1] >= at:
                return min(int(starts[np.searchsorted(starts, at)]), size)
            position += len(text)
        return size

    @property
    def _begin(self) -> int:
        return self._mark + self._skipped

    def _start_near(self, parser: TextSource, at: int) -> int | None:
        """Return where the first record from a position on begins; None if only the whole text before it tells."""
        size, window = self._file.size(), _WINDOW
        if (begin := at - 2) < self._begin:
            return None
        while True:
            text = memoryview(self._file.read_at(window, begin))
            is_all = begin + window >= size
            is_long = is_all or window >= LONGEST
            ends = parser.ends_from_anywhere(text, is_long=is_long)
            if ends is not None and len(ends):
                return begin + int(ends[0]) + 1
            if is_all:
                return size if ends is not None else None
            if is_long:
                return None
            window *= 4


def _letters(records: Records, lines: Callable[[], int], first: int, bad: BadRows) -> BadRows:
    """Return rows that do not fit as they were landed; `first` is the number of the first record."""
    assert isinstance(records, Block | Lines)  # noqa: S101 - those of a text
    landed = [records.at(row - first).lines[0] for row in bad.rows.column(ROW_NUMBER).to_pylist()]
    return _bad([(lines() + line, record.decode("utf-8", "backslashreplace")) for line, record in landed], bad.reasons)


def _bad(records: Iterable[tuple[int, str]], reasons: list[str]) -> BadRows:
    numbers, texts = zip(*records, strict=True)
    columns = [pa.array(texts, pa.string()), pa.array(numbers, pa.int64()), pa.nulls(len(texts), pa.int64())]
    return BadRows(pa.RecordBatch.from_arrays(columns, [RAW, LINE, ROW_NUMBER]), reasons)
