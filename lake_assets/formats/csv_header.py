"""What a text of CSV has before its first row: blank lines and comments, the line of Excel, the columns' names."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from lake_assets.config.formats import CsvFormat, FoundCsv
from lake_assets.errors import SourceError
from lake_assets.formats.blocks import LONGEST
from lake_assets.formats.decoding import PEEKED
from lake_assets.formats.record_ends import Quotes, line_breaks

_DELIMITERS = ",\t;|"  # the first of those that are equally often
_QUOTED = re.compile(rb'"[^"]*"?')
_SEPARATOR = re.compile(rb'"?sep=([!-~\t ])"?\r?\n', re.IGNORECASE)
HEADER_OF_LOGS = re.compile(
    rb"^.(?:version:|separator ).*?^.fields[:\t]([^\n]*)", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
"""The comments with the names in logs by the W3C's extended format, as of IIS and CloudFront, and in those of Zeek."""
_FIELDS = re.compile(rb".fields[:\t]([^\n]*)", re.IGNORECASE)


class Header(NamedTuple):
    """The begin of a text."""

    text: bytes  # of the header, and of the blank lines and comments before it
    names: list[str]  # of the columns; the last ones may have none, and then no values


def with_separator(begin: bytes, dialect: CsvFormat) -> CsvFormat:
    """Return the dialect of a text; its first line may be one to skip that tells the delimiter: `sep=;`, of Excel.

    If only the text's name is known, the delimiter is the one that the header has most often.
    """
    changed: dict[str, object] = {}
    if (line := _SEPARATOR.match(begin)) is not None:
        changed = {"delimiter": line[1].decode(), "skip_lines": max(dialect.skip_lines, 1)}
    elif isinstance(dialect, FoundCsv):
        header, _, _ = _QUOTED.sub(b"", begin.lstrip(b"\r\n")).partition(b"\n")
        changed = {"delimiter": max(_DELIMITERS, key=lambda character: header.count(character.encode()))}
    return dialect.model_copy(update=changed) if changed else dialect


def refuse_other_fields(comment: bytes, names: Sequence[str], origin: str) -> None:
    """Refuse a comment within a log that gives the rows behind it other columns."""
    if (fields := _FIELDS.match(comment)) and (given := fields[1].decode("utf-8", "replace").split()) != [*names]:
        raise SourceError(
            f"{origin} has a comment between its rows that gives them other columns, {' '.join(given)}:",
            "let its writer begin a new file when its fields change, or split it at that line.",
        )


def quotes_of(dialect: CsvFormat) -> Quotes | None:
    """Return how values are quoted; None if they are not."""
    if dialect.quote is None:
        return None
    escape = None if dialect.escape is None else dialect.escape.encode()
    return Quotes(dialect.quote.encode(), dialect.delimiter.encode(), escape)


def read_header(peek: Callable[[int], bytes], dialect: CsvFormat, origin: str) -> Header:
    """Return the header of a text, of which `peek` returns so many first bytes; fewer if it has no more."""
    size, quotes = PEEKED, quotes_of(dialect)
    comment = rb"(?!)" if dialect.comment is None else re.escape(dialect.comment.encode())
    before = re.compile(rb"(?:\r?\n|%b[^\n]*\n)*+" % comment)
    while True:
        head = peek(size)
        is_all = len(head) < size
        text = head + b"\n" if is_all and not head.endswith(b"\n") else head
        first = before.match(text).end()  # type: ignore[union-attr]
        if (fields := HEADER_OF_LOGS.search(text[:first])) and (is_all or first < len(text)):
            return Header(head[:first], fields[1].decode("utf-8", "replace").split())
        rest = memoryview(text)[first:]
        ends = (quotes.ends if quotes else line_breaks)(rest)
        if len(ends):
            record = bytes(rest[: int(ends[0])])
            return Header(head[: first + len(record) + 1], _names(record, dialect, origin))
        if is_all and first == len(text):
            return Header(head, [])
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
