"""Comma-separated values, and their dialects."""

# ruff: noqa: D102 - `LandedRows`, `Parser` and `TextSource` say what the methods do

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import compute

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.config.formats import CsvByName, CsvFormat
from lake_assets.schema.bad_rows import converted_values, with_kept
from lake_assets.schema.casts import exact_cast, has_large, is_checked, is_number, may_wrap
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.dialects import ESCAPED_NULL, DialectTypes, with_plain_escapes, with_times_as_text
from lake_assets.storage.formats.blocks import LONGEST, Positions, Quotes, TextBlock, line_breaks
from lake_assets.storage.formats.inferred_types import BLANKS, fit, has_codes, inferred, too_wide, wide_integers
from lake_assets.storage.formats.landed_rows import ExpectedObject, Part
from lake_assets.storage.formats.landed_text import LandedText
from lake_assets.storage.formats.records import NOT_ONE_RECORD, Block, FixSchema, Lines, TextSource, reason_of
from lake_assets.storage.formats.text_files import PEEKED

_DELIMITERS = ",\t;|"  # the first of those that are equally often
_QUOTED = re.compile(rb'"[^"]*"?')
_SEPARATOR = re.compile(rb'"?sep=([!-~\t ])"?\r?\n', re.IGNORECASE)
HEADER_OF_LOGS = re.compile(
    rb"^.(?:version:|separator ).*?^.fields[:\t]([^\n]*)", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
"""The comments with the names in logs by the W3C's extended format, as of IIS and CloudFront, and in those of Zeek."""
_FIELDS = re.compile(rb".fields[:\t]([^\n]*)", re.IGNORECASE)


class _Header(NamedTuple):
    """The begin of a text."""

    text: bytes  # of the header, and of the blank lines and comments before it
    names: list[str]  # of the columns; the last ones may have none, and then no values


def _with_separator(begin: bytes, dialect: CsvFormat) -> CsvFormat:
    """Return the dialect of a text; its first line may be one to skip that tells the delimiter: `sep=;`, of Excel.

    If only the text's name is known, the delimiter is the one that the header has most often.
    """
    changed: dict[str, object] = {}
    if (line := _SEPARATOR.match(begin)) is not None:
        changed = {"delimiter": line[1].decode(), "skip_lines": max(dialect.skip_lines, 1)}
    elif isinstance(dialect, CsvByName):
        header, _, _ = _QUOTED.sub(b"", begin.lstrip(b"\r\n")).partition(b"\n")
        changed = {"delimiter": max(_DELIMITERS, key=lambda character: header.count(character.encode()))}
    return dialect.model_copy(update=changed) if changed else dialect


def _refuse_other_fields(comment: bytes, names: Sequence[str], origin: str) -> None:
    """Refuse a comment within a log that gives the rows behind it other columns."""
    if (fields := _FIELDS.match(comment)) and (given := fields[1].decode("utf-8", "replace").split()) != [*names]:
        raise SourceError(
            f"{origin} has a comment between its rows that gives them other columns, {' '.join(given)}:",
            "let its writer begin a new file when its fields change, or split it at that line.",
        )


def _quotes_of(dialect: CsvFormat) -> Quotes | None:
    """Return how values are quoted; None if they are not."""
    if dialect.quote is None:
        return None
    escape = None if dialect.escape is None else dialect.escape.encode()
    return Quotes(dialect.quote.encode(), dialect.delimiter.encode(), escape)


def read_header(peek: Callable[[int], bytes], dialect: CsvFormat, origin: str) -> _Header:
    """Return the header of a text, of which `peek` returns so many first bytes; fewer if it has no more."""
    size, quotes = PEEKED, _quotes_of(dialect)
    comment = rb"(?!)" if dialect.comment is None else re.escape(dialect.comment.encode())
    before = re.compile(rb"(?:\r?\n|%b[^\n]*\n)*+" % comment)
    while True:
        head = peek(size)
        is_all = len(head) < size
        text = head + b"\n" if is_all and not head.endswith(b"\n") else head
        first = before.match(text).end()  # type: ignore[union-attr]
        if (fields := HEADER_OF_LOGS.search(text[:first])) and (is_all or first < len(text)):
            return _Header(head[:first], fields[1].decode("utf-8", "replace").split())
        rest = memoryview(text)[first:]
        ends = (quotes.ends if quotes else line_breaks)(rest)
        if len(ends):
            record = bytes(rest[: int(ends[0])])
            return _Header(head[: first + len(record) + 1], _names(record, dialect, origin))
        if is_all and first == len(text):
            return _Header(head, [])
        if is_all or size > LONGEST:
            raise SourceError(
                f"the header of {origin} does not end:",
                "close its quotes, or leave it out by skip_lines: 1, header: false and names.",
            )
        size *= 4


def _names(header: bytes, dialect: CsvFormat, origin: str) -> list[str]:
    """Return the names in the first record; one without a name before others gets that of its place."""
    if b"\0" in header:
        raise SourceError(
            f"the header of {origin} has a zero byte, as files of other formats and encodings have:",
            "correct `format` or `files` of the stream, name the text's encoding, or let its writer land it again.",
        )
    try:
        text = header.decode().lstrip("\ufeff").strip("\r")  # a mark twice, or behind a blank line
    except UnicodeDecodeError as error:
        raise SourceError(
            f"the header of {origin} is no text in UTF-8 ({error.reason} at byte {error.start + 1:,}):",
            "name the text's encoding in the stream's format, or let its writer land it again.",
        ) from error
    quoting: Literal[0, 3] = csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=dialect.escape,
        quoting=quoting,
    )
    try:
        values, more = next(reader, []), next(reader, None)
    except csv.Error as error:
        raise SourceError(
            f"the header of {origin} cannot be read: {error}:", "correct it, or give names in the stream's format."
        ) from error
    if more is not None:
        raise SourceError(
            f"{origin} has lines that end with a carriage return alone:", "let its writer end them with a line feed."
        )
    if dialect.header_blanks == "trim":
        values = [value.strip() for value in values]
    named = next((number for number in range(len(values), 0, -1) if values[number - 1]), 0)
    names = [name or f"column_{number}" for number, name in enumerate(values[:named], 1)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None and dialect.names is None:
        raise SourceError(
            f"the header of {origin} has the name {twice!r} twice:", "rename one, or give names in the stream's format."
        )
    return names + values[named:]


_LANDED = CsvFormat()
_BEHIND = "it has a value behind the last column that has a name"
_MISREAD = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?(?:CSV conversion error to ([^:]+): )?(.*)")
_WHOLE = re.compile(r"conversion error to u?int\d+: invalid value '[^']*(\D0*|[eE]\+?\d+) *'")
_MISCOUNTED = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")


class CsvText(TextSource):
    """Comma-separated values (RFC 4180), or a dialect of them, behind their header.

    The text has been decoded. Of the `names` of columns the last ones may have none, and then no values.
    """

    _integers: Collection[str] = ()  # names of columns whose numbers are not codes

    def __init__(
        self,
        source: str,
        schema: pa.Schema | FixSchema,
        names: Sequence[str] = (),
        dialect: CsvFormat = _LANDED,
        rules: Rules | None = None,
    ) -> None:
        super().__init__(source, schema, rules)
        self._dialect = dialect
        self._names, self._nameless = _named(names)
        self._wanted = None if callable(schema) else schema.names or None  # columns that are read; None: all
        self._types = DialectTypes(dialect)
        is_escaped = dialect.quote is None and dialect.escape is not None
        self._nulls = [text for text in dialect.nulls if not is_escaped or str(dialect.escape) not in text]

    @cached_property
    def quotes(self) -> Quotes | None:
        return _quotes_of(self._dialect)

    def records(self, block: TextBlock) -> Iterator[Block | Lines]:
        text, ends = block
        unfiltered = Block(text, ends, self._line, self)
        self._line += len(line_breaks(text))
        comment = self._dialect.comment
        records = unfiltered if comment is None else self._without_comments(unfiltered, comment.encode())
        if not len(records) or not bytes(text).strip():
            return
        if self._schema is None:
            self._schema = pa.schema([field for field in self._fixed(records) if field.name in self._names])
        yield records

    def _without_comments(self, block: Block, comment: bytes) -> Block | Lines:
        starts = np.append(0, block.ends[:-1] + 1)
        if not (np.frombuffer(block.text, np.uint8)[starts] == ord(comment)).any():
            return block
        lines = block.lines().lines
        if self._dialect.names is None:
            for _, text in lines:
                if text.startswith(comment):
                    _refuse_other_fields(text, self._names, self.source)
        return Lines([line for line in lines if not line[1].startswith(comment)], self)

    def read(self, text: memoryview, ends: Positions) -> pa.Table:  # noqa: ARG002 - a row ends where its record does
        schema = self._schema or pa.schema([])
        try:
            rows = self._types.read(self._parse(text, self._types.parsed(schema)), schema)
            if (
                any(map(has_large, rows.columns))
                or _has_hex(text)
                or may_wrap(text, schema.types, f'"{self._dialect.delimiter}')
            ):
                rows = self._exact(text, schema)
            return (
                rows
                if self._rescue is None
                else fit(rows, pa.schema([schema.field(name) for name in rows.column_names]))
            )
        except pa.ArrowInvalid as error:
            if _WHOLE.search(str(error)):  # such as 10.0 of pandas for a column of whole numbers
                with suppress(pa.ArrowInvalid):
                    return self._exact(text, schema)
            if self._rescue is None:
                raise
        return self._rescued(self._parse(text, pa.schema([field.with_type(pa.string()) for field in schema])), schema)

    def _exact(self, text: memoryview, schema: pa.Schema) -> pa.Table:
        """Return the rows with numbers by their digits, which takes longer."""
        parsed = self._types.parsed(schema)
        fields = [f.with_type(pa.string()) if is_checked(pa.string(), f.type) else f for f in parsed]
        rows = self._types.read(self._parse(text, pa.schema(fields)), schema)
        columns = []
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            kind = schema.field(name).type
            is_text = pa.types.is_string(column.type) and is_checked(column.type, kind)
            columns.append(self._number(column.combine_chunks(), kind, name) if is_text else column)
        return pa.table(columns, rows.column_names)

    def _number(self, texts: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
        texts, decimal = compute.utf8_trim(texts, BLANKS), self._dialect.decimal
        if decimal != ".":
            texts = compute.replace_substring(compute.replace_substring(texts, ".", "?"), decimal, ".")
        try:
            return exact_cast(texts, kind)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"{name}: {error}") from error

    def _rescued(self, texts: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return the rows of texts, with the values that do not fit in the column `rescue`."""
        kept: defaultdict[int, dict[str, object]] = defaultdict(dict)
        columns = []
        for name, column in zip(texts.column_names, texts.columns, strict=True):
            field, values = schema.field(name), column.combine_chunks()
            converted, unfit = converted_values(len(values), partial(self._of_texts, field, values), field.type)
            columns.append(converted)
            for row in unfit:
                kept[row][name] = values[row].as_py()
        fields = [schema.field(name) for name in texts.column_names]
        rescued = with_kept(pa.nulls(len(texts), pa.string()), kept)
        return pa.table([*columns, rescued], schema=pa.schema([*fields, pa.field(str(self._rescue), pa.string())]))

    def _of_texts(self, field: pa.Field, values: pa.Array, start: int, stop: int) -> pa.Array:
        schema, part = pa.schema([field]), values.slice(start, stop - start)
        if is_checked(part.type, field.type) and self._types.parsed(schema).equals(schema):
            return self._number(part, field.type, field.name)
        if is_number(field.type):
            part = compute.utf8_trim(part, BLANKS)
        rows = self._types.read(pa.table([part], schema=pa.schema([field.with_type(part.type)])), schema)
        return fit(rows, schema).column(0).combine_chunks()

    def explain(self, record: bytes, error: Exception) -> str:  # noqa: ARG002 - as of `TextSource`
        reason = reason_of(error)
        if match := _MISREAD.match(reason):
            name = f"column {self._names[int(match[1])]!r}"
            return f"{name}, of type {match[2]}, has an {match[3]}" if match[2] else f"{name}: {match[3]}"
        if match := _MISCOUNTED.match(reason):
            return f"it has {match[2]} values, and there are {match[1]} columns"
        if reason == NOT_ONE_RECORD:
            return "a quote is not closed, or a line ends with a carriage return alone"
        return reason

    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        text = b"\n".join(lines)
        fields = list(with_times_as_text(self._parse(text, None).schema))
        fields = [f.with_type(pa.string()) if pa.types.is_binary(f.type) else f for f in fields]  # no UTF-8
        numbers = [field for field in fields if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
        texts = self._parse(text, pa.schema([field.with_type(pa.string()) for field in numbers]))
        columns = {field.name: texts.column(field.name) for field in numbers}
        for index, field in enumerate(fields):
            column = columns.get(field.name)
            if column is not None and field.name not in self._integers and has_codes(column, long=False):
                fields[index] = field.with_type(pa.string())
            elif column is not None and pa.types.is_floating(field.type):
                for number in wide_integers(column):
                    if self._rules is None:
                        raise too_wide(field.name, self.source, number)
                    fields[index] = field.with_type(pa.string())
        rows = self._parse(text, pa.schema(fields))
        known = self._types.inferred(rows)
        return pa.schema(
            [
                known.get(field.name, field)
                for field in inferred(rows, texts=True, numbers=True, nulls=self._rules is not None)
            ]
        )

    def _parse(self, text: bytes | memoryview, types: pa.Schema | None) -> pa.Table:
        text = with_plain_escapes(text, self._dialect)
        try:
            rows = self._by_arrow(text, types)
        except pa.ArrowInvalid as error:
            if not _MISCOUNTED.match(reason_of(error)):
                raise
            rows = self._by_arrow(self._even(bytes(text), error), types)
        for name in self._nameless:
            if compute.any(compute.not_equal(rows.column(name), "")).as_py():
                raise pa.ArrowInvalid(_BEHIND)
        return rows.drop_columns(self._nameless)

    def _even(self, text: bytes, error: pa.ArrowInvalid) -> bytes:
        """Return a text whose records have as many values as there are columns; raises the error if it cannot.

        One with fewer gets empty ones if the dialect pads, or only columns without a name lack. One with more may have
        delimiters at its end.
        """
        most = len(self._names) if self._dialect.ragged == "pad" else 0
        delimiter, most = self._dialect.delimiter.encode(), max(most, len(self._nameless))
        text = text if text.endswith(b"\n") else text + b"\n"
        ends = (self.quotes.ends if self.quotes else line_breaks)(memoryview(text)).tolist()
        lines = [
            text[start:end].rstrip(b"\r") for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)
        ]
        lines = [line for line in lines if line]

        def take(row: pc.InvalidRow) -> Literal["skip", "error"]:
            missing, place = row.expected_columns - row.actual_columns, row.number - 1
            if 0 < missing <= most:
                lines[place] += delimiter * missing
            elif missing < 0 and lines[place].endswith(delimiter * -missing):
                lines[place] = lines[place][:missing]
            else:
                return "error"
            return "skip"

        try:
            str(text, "utf-8")  # Arrow gives no others
        except UnicodeDecodeError:
            raise error from None
        self._by_arrow(text, pa.schema([(name, pa.string()) for name in self._names]), take)
        return b"\n".join(lines)

    def _by_arrow(
        self,
        text: bytes | memoryview,
        types: pa.Schema | None,
        take: Callable[[pc.InvalidRow], Literal["skip", "error"]] | None = None,
    ) -> pa.Table:
        dialect, nameless = self._dialect, self._nameless
        try:
            return pc.read_csv(
                pa.BufferReader(text),
                pc.ReadOptions(column_names=[*self._names, *nameless], use_threads=False, block_size=len(text) + 1),
                pc.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote or False,
                    escape_char=dialect.escape or False,
                    newlines_in_values=True,
                    invalid_row_handler=take,
                ),
                pc.ConvertOptions(
                    column_types={field.name: field.type for field in types or ()}
                    | dict.fromkeys(nameless, pa.string()),
                    null_values=[ESCAPED_NULL, *self._nulls],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=dialect.quoted_nulls,
                    decimal_point=dialect.decimal,
                    include_columns=self._wanted and [*self._wanted, *nameless],
                ),
            )
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(
                f"{self.source} is CSV, which has no such column: {error}:", "land JSON lines."
            ) from error


class CsvRecords(CsvText):
    """Comma-separated values whose first record has the names of the columns.

    Numbers with leading zeros are whole numbers in columns of `integers`, and texts in others.
    """

    def __init__(self, source: str, schema: FixSchema, integers: Collection[str] = ()) -> None:
        super().__init__(source, schema)
        self._integers = integers
        self._has_names = False

    def records(self, block: TextBlock) -> Iterator[Block | Lines]:
        text, ends = block
        if not self._has_names:
            self._dialect = _with_separator(bytes(text[:PEEKED]), self._dialect)
            begin = int(ends[self._dialect.skip_lines - 1]) + 1 if self._dialect.skip_lines else 0
            header = read_header(lambda size: bytes(text[begin : begin + size]), self._dialect, self.source)
            begin += len(header.text)
            self._line += len(line_breaks(text[:begin]))
            text, ends = text[begin:], ends[ends >= begin] - begin
            self._has_names = bool(header.names)
            self._names, self._nameless = _named(header.names)
        if self._has_names:
            yield from super().records(TextBlock(text, ends))


def _named(names: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    """Return the columns' names, and others for those behind them that have none."""
    named = [name for name in names if name]
    return named, [f"\0{number}" for number in range(len(names) - len(named))]


def _has_hex(text: memoryview) -> bool:
    """Return whether a text has what may be a number in hexadecimal digits, of which Arrow makes a whole number."""
    signs = np.frombuffer(text, np.uint8)
    return bool((signs[np.flatnonzero((signs[1:] | 0x20) == ord("x"))] == ord("0")).any())


class LandedCsv(LandedText):
    """The rows of CSV; its columns are those of its header, or of the format."""

    def __init__(self, file: pa.NativeFile, origin: str, expected: ExpectedObject) -> None:
        super().__init__(file, origin, expected)
        self._dialect: CsvFormat = expected.form
        self._header: Sequence[str] = self._dialect.names or ()
        is_empty, known = self._read_header(), expected.columns
        self.schema = known if is_empty else self._columns({field.name.lower(): field for field in known})

    def _read_header(self) -> bool:
        """Read the names, and find the first record; returns whether the object has no byte, and so no row."""
        text = self._opened()
        begin = text.peek()
        self._dialect = form = _with_separator(begin, self._dialect)
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
        return CsvText(self._origin, schema, self._header, self._dialect, self._rules)

    def _records(self, parser: TextSource, part: Part) -> Iterator[Block | Lines]:
        for block in self._blocks(parser, part):
            yield from parser.records(block)
