"""The rows of a CSV or JSON object, in the types that the table has, or in inferred ones."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pyarrow as pa

from lake_assets.base.errors import LandingError, SchemaError, SourceError
from lake_assets.config.formats import CsvFormat, JsonFormat, TextFormat
from lake_assets.schema.bad_rows import NUMBER, BadRows
from lake_assets.schema.column_rules import Rules, Verdict, not_yet
from lake_assets.schema.leaves import with_types_of, without_values
from lake_assets.schema.schema_fit import Fitter
from lake_assets.schema.type_fit import wider_type
from lake_assets.storage.formats.blocks import BLOCK, LONGEST, TextBlock, fill_from, object_breaks, whole_records
from lake_assets.storage.formats.csv_text import CsvText, read_header, with_separator
from lake_assets.storage.formats.decoding import PEEKED, TextFile
from lake_assets.storage.formats.json_documents import documents, have_breaks
from lake_assets.storage.formats.json_lines import JsonText, Unknown, is_of_unknown
from lake_assets.storage.formats.landed_columns import fit
from lake_assets.storage.formats.landed_rows import Rows, Share
from lake_assets.storage.formats.records import Block, Lines, Records, Rejected, Text, validate

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

    def __init__(self, file: pa.NativeFile, form: TextFormat, origin: str, rules: Rules) -> None:
        self._file = file
        self._form = form
        self._origin = origin
        self._rules = rules  # of the stream, for columns that are not known, and values that do not fit
        self._texts: list[TextFile] = []  # an Arrow stream that is not used any more closes the file below it
        text = self._opened()
        self._is_stored, self._mark = text.is_stored, text.begin
        self._skipped, self._lines = 0, 0  # bytes and lines of the text before its first record

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return self._is_stored and self._file.size() <= BLOCK

    def read(
        self,
        share: Share,
        columns: Sequence[str],
        fitter: Fitter,  # noqa: ARG002 - rows are not known before they are parsed
        *,
        numbered: bool,
        splits: bool,
    ) -> Iterator[Rows | BadRows]:
        """See `LandedRows`."""
        schema = pa.schema([self.schema.field(name) for name in columns or self.schema.names[:1]])
        parser = self._parser(schema)
        lines = cache(partial(self.lines_before, share))  # counted when they are needed first
        first = self._rows_before(share) if numbered else 0

        def admitted(records: Records, rows: pa.Table) -> tuple[Records, pa.Table]:
            fitted = fit(rows.select([name for name in schema.names if name in rows.column_names]), schema)
            rescue = self._rules.rescue
            is_kept = rescue is not None and rescue in rows.column_names
            return records, fitted.append_column(rescue, rows.column(rescue)) if is_kept else fitted

        for records in self._records(parser, share):
            for found in validate(records, admitted):
                if not isinstance(found, Rejected):
                    kept, rows = found
                    letters = partial(_letters, kept, lines, first)
                    for batch in rows.combine_chunks().to_batches():
                        yield Rows(batch, first, letters)
                        first += batch.num_rows
                    continue
                first += 1
                self._refuse_new_columns(found)
                number = lines() + (found.line or 1)
                if not splits:
                    raise SchemaError(f"line {number:,} of {self._origin} does not fit: {found.reason}:", _FIX)
                yield _bad([(number, found.record)], [f"line {number:,}: {found.reason}"])

    @abstractmethod
    def _parser(self, schema: pa.Schema) -> Text:
        """Return a parser of the object's records as a schema."""

    @abstractmethod
    def _records(self, parser: Text, share: Share) -> Iterator[Block | Lines]:
        """Yield the records of a share, some at a time."""

    def _refuse_new_columns(self, rejected: Rejected) -> None:
        """Refuse a record with a column that was not known before it, or with the first value of one without a type."""
        if not self._may_be_new(rejected):
            return
        try:
            schema = self._with_new_columns(Lines([(1, rejected.record.encode())], self._parser(self.schema)))
        except SourceError:  # it is no record
            return
        if {f.name.lower(): f.type for f in schema} != {f.name.lower(): f.type for f in self.schema}:
            raise not_yet(self._origin, schema)

    def _may_be_new(self, rejected: Rejected) -> bool:  # noqa: ARG002 - for the forms that override it
        return bool(without_values(self.schema)) and not self._rules.is_input

    def _with_new_columns(self, records: Block | Lines) -> pa.Schema:
        """Return the known columns, with types for those without one that the records have."""
        return with_types_of(self.schema, [self._inferred(records)])

    def _rows_before(self, share: Share) -> int:
        """Return the number of records before a share; the object is read for it up to there."""
        if not self._is_stored:
            return 0  # the first share has all of them
        parser = self._parser(self.schema)
        before = (replace(share, part=number) for number in range(share.part))
        records = (found for part in before for found in self._records(parser, part))
        return sum(len(found.lines() if isinstance(found, Block) else found) for found in records)

    def lines_before(self, share: Share) -> int:
        """Return the number of lines before the first record of a share; the object is read for it up to there."""
        if not share.part:
            return self._lines
        start, lines = self._first_record(self._parser(self.schema), share), 0
        for position in range(0, start, BLOCK):
            lines += self._file.read_at(min(BLOCK, start - position), position).count(b"\n")
        return lines

    def _opened(self) -> TextFile:
        self._file.seek(0)
        self._texts.append(TextFile(self._file, self._form, self._origin))
        return self._texts[-1]

    def _whole(self) -> Share:
        return Share("", "", self._file.size())

    def _sample(self) -> Block | Lines | None:
        return next(iter(self._records(self._parser(pa.schema([])), self._whole())), None)

    def _inferred(self, sample: Block | Lines) -> pa.Schema:
        try:
            return self._parser(pa.schema([])).infer(sample)
        except LandingError as error:
            raise SourceError(error.problem, error.hint) from error

    def _blocks(self, parser: Text, share: Share) -> Iterator[TextBlock]:
        """Yield the records that begin in a share's bytes; the first share has all of a text that is not stored."""
        if not self._is_stored:
            if not share.part:
                file = self._opened()
                file.skip(self._skipped)
                yield from whole_records(partial(fill_from, file), self._origin, parser.find_ends)
            return
        position, end = self._first_record(parser, share), self._end_of(share)
        self._file.seek(position)
        for text, ends in whole_records(partial(fill_from, self._file), self._origin, parser.find_ends):
            own = int(np.searchsorted(position + np.append(0, ends[:-1] + 1), end))
            if own:
                yield TextBlock(text[: int(ends[own - 1]) + 1], ends[:own])
            if own < len(ends):
                self._check_end(parser, share, position + (int(ends[own - 1]) + 1 if own else 0))
                return
            position += len(text)
        self._check_end(parser, share, min(position, self._file.size()))

    def _end_of(self, share: Share) -> int:
        return (share.part + 1) * int(self._file.size()) // share.parts

    def _check_end(self, parser: Text, share: Share, position: int) -> None:
        """Refuse a text of which the next share would not begin where this one ends, so that rows could be lost."""
        end = self._end_of(share)
        if share.part + 1 < share.parts and end > self._begin and self._told(parser, end) not in {None, position}:
            raise SourceError(
                f"the quotes of {self._origin} do not tell where the records near byte {end:,} begin:",
                "correct them, or land it compressed, so that it is read from its begin.",
            )

    def _first_record(self, parser: Text, share: Share) -> int:
        """Return the position of the first record that begins in a share's bytes, or behind them if none does."""
        begin, size = self._begin, int(self._file.size())
        at = share.part * size // share.parts
        if at <= begin:
            return begin
        if (found := self._told(parser, at)) is not None:
            return found
        self._file.seek(position := begin)
        for text, ends in whole_records(partial(fill_from, self._file), self._origin, parser.find_ends):
            starts = position + ends + 1
            if starts[-1] >= at:
                return min(int(starts[np.searchsorted(starts, at)]), size)
            position += len(text)
        return size

    @property
    def _begin(self) -> int:
        """The position of the first record."""
        return self._mark + self._skipped

    def _told(self, parser: Text, at: int) -> int | None:
        """Return the position of the first record from a position on; None if only all that is before it tells."""
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


class LandedCsv(LandedText):
    """The rows of CSV; its columns are those of its header, or of the format. `known` have a type already."""

    def __init__(self, file: pa.NativeFile, form: CsvFormat, origin: str, known: pa.Schema, rules: Rules) -> None:
        super().__init__(file, form, origin, rules)
        self._dialect = form
        self._header: Sequence[str] = form.names or ()
        is_empty = self._read_header()
        self.schema = known if is_empty else self._columns({field.name.lower(): field for field in known})

    def _read_header(self) -> bool:
        """Read the names, and find the first record; returns whether the object has no byte, and so no row."""
        text = self._opened()
        begin = text.peek()
        self._dialect = form = with_separator(begin, self._dialect)
        self._skipped, self._lines = text.skip_lines(form.skip_lines), form.skip_lines
        if form.header and text.peek():
            header = read_header(text.peek, form, self._origin)
            self._header = form.names or header.names
            self._skipped += len(header.text)
            self._lines += header.text.count(b"\n")
            if len(text.peek(len(header.text) + 1)) <= len(header.text):
                self.count = 0
        return not begin

    def _columns(self, known: dict[str, pa.Field]) -> pa.Schema:
        """Return the columns, of which those that are not known have inferred types if the table is to have them."""
        is_new, names = not known or self._rules.grows, [name for name in self._header if name]
        untyped = {name for name, field in known.items() if pa.types.is_null(field.type)}
        is_known = all(name.lower() in known for name in names)
        new = self._new() if untyped or (is_new and not is_known) else {}
        known |= {field.name.lower(): field for field in new.values() if field.name.lower() in untyped}
        other = pa.null() if is_new else pa.string()
        fields = ((name, known.get(name.lower()) or new.get(name)) for name in names)
        return pa.schema([field.with_name(name) if field else pa.field(name, other) for name, field in fields])

    def _new(self) -> dict[str, pa.Field]:
        sample = self._sample()
        return {field.name: field for field in self._inferred(sample)} if sample else {}

    def _parser(self, schema: pa.Schema) -> CsvText:
        wanted = schema.names or None
        return CsvText(
            self._origin,
            schema,
            dialect=self._dialect,
            names=self._header,
            wanted=wanted,
            for_table=True,
            rescue=self._rules.rescue,
        )

    def _records(self, parser: Text, share: Share) -> Iterator[Block | Lines]:
        for block in self._blocks(parser, share):
            yield from parser.records(block)


class LandedJson(LandedText):
    """The rows of JSON; a field that an object lacks is NULL."""

    def __init__(
        self,
        file: pa.NativeFile,
        form: JsonFormat,
        origin: str,
        known: pa.Schema,
        rules: Rules,
        omitted: Collection[str] = (),
    ) -> None:
        self.schema = known
        self._omitted = omitted  # fields that are left out, in lower case
        self._rescue: str | None = None  # of no row while the columns are not known
        self._keeps = rules.unknown is Verdict.RESCUE and len(known) > 0
        super().__init__(file, form, origin, rules)
        self._has_breaks = have_breaks(self._opened().peek())
        self._is_stored &= self._has_breaks
        self._unknown: Unknown = "ignore" if rules.unknown is Verdict.LEAVE_OUT and len(known) else "error"
        if not (len(known) and self._fits()) and (sample := self._sample()) is not None:
            self.schema = self._with_new_columns(sample)
        self._rescue = rules.rescue
        if self._keeps:
            self._unknown = "infer"

    def _fits(self) -> bool:
        """Return whether the first records have known columns only; by fewer than a sample, which costs a parse."""
        text = self._opened().peek()
        is_all = len(text) < PEEKED
        begin = memoryview(text + b"\n" if is_all and not text.endswith(b"\n") else text)
        ends = object_breaks(begin, is_all)
        if not self._has_breaks or not len(ends):
            return False
        parser = self._parser(self.schema)
        try:
            Block(begin[: int(ends[-1]) + 1], ends, 1, parser).parse()
        except (pa.ArrowInvalid, ValueError):
            return False
        return not parser.folds(begin)

    def _with_new_columns(self, records: Block | Lines) -> pa.Schema:
        """Return the known columns, named as the records have them, and those that only the records have.

        If these are kept beside the columns, as they are landed, only those are returned that decide the partition.
        """
        inferred = self._inferred(records)
        known = {field.name.lower(): field for field in with_types_of(self.schema, [inferred])}
        others = known.keys() | self._rules.reserved if self._keeps else None
        for field in inferred:
            if field.name.lower() in self._omitted or (others is not None and field.name.lower() not in others):
                continue
            mine = known.get(field.name.lower(), field)
            kind = wider_type(mine.type, field.type) if pa.types.is_nested(mine.type) and not self._keeps else None
            known[field.name.lower()] = pa.field(field.name, kind or mine.type)
        return pa.schema(known.values())

    def _may_be_new(self, rejected: Rejected) -> bool:
        return super()._may_be_new(rejected) or (self._rules.grows and is_of_unknown(rejected))

    def _parser(self, schema: pa.Schema) -> JsonText:  # noqa: ARG002 - a field that is not read must be known too
        return JsonText(
            self._origin,
            self.schema,
            unknown=self._unknown,
            omitted=self._omitted,
            for_table=True,
            rescue=self._rescue,
            reserved=self._rules.reserved,
        )

    def _records(self, parser: Text, share: Share) -> Iterator[Block | Lines]:
        if self._has_breaks:
            for block in self._blocks(parser, share):
                yield from parser.records(block)
        elif not share.part:
            yield from documents(self._opened(), parser)


def _letters(records: Records, lines: Callable[[], int], first: int, bad: BadRows) -> BadRows:
    """Return rows that do not fit as they were landed; `first` is the number of the first record."""
    assert isinstance(records, Block | Lines)  # noqa: S101 - those of a text
    found = [records.at(row - first).lines[0] for row in bad.rows.column(NUMBER).to_pylist()]
    return _bad([(lines() + line, record.decode("utf-8", "backslashreplace")) for line, record in found], bad.reasons)


def _bad(records: Iterable[tuple[int, str]], reasons: list[str]) -> BadRows:
    numbers, texts = zip(*records, strict=True)
    columns = [pa.array(texts, pa.string()), pa.array(numbers, pa.int64()), pa.nulls(len(texts), pa.int64())]
    return BadRows(pa.RecordBatch.from_arrays(columns, [RAW, LINE, NUMBER]), reasons)
