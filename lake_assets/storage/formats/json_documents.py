"""JSON that is not an object a line: an array of objects, or objects on any number of lines."""

import codecs
import json
import re
from collections.abc import Iterator

from lake_assets.base.errors import SourceError
from lake_assets.storage.formats.blocks import BLOCK, LONGEST, object_breaks
from lake_assets.storage.formats.records import Lines, Parser
from lake_assets.storage.formats.text_files import PEEKED, TextFile

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_BEGIN = re.compile(r"^(?=\{)", re.MULTILINE)
_BETWEEN = re.compile(r"\}[ \t\r\n]*(?=\{)")


def have_breaks(begin: bytes) -> bool:
    """Return whether objects of a text that begins so end at line breaks: it is no array, nor has all on one line."""
    text = begin.decode("utf-8", "replace").lstrip()
    if text.startswith("[") or len(begin) < PEEKED or len(object_breaks(memoryview(begin), is_last=False)):
        return not text.startswith("[")
    try:
        _, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return True
    return not text[end:].lstrip().startswith("{")


def parts_of(record: bytes) -> list[tuple[int, bytes]]:
    """Return the values of a text that is between line breaks, each with the number of lines before it.

    If the text is damaged, each line of it that begins with `{` begins another one, and so does a `{` behind a `}`.
    """
    text, parts, lines, before = record.decode("utf-8", "surrogateescape"), list[tuple[int, bytes]](), 0, 0
    for start, stop in _places(text):
        lines, before = lines + text.count("\n", before, start), start
        parts.append((lines, text[start:stop].strip().encode("utf-8", "surrogateescape")))
    return [part for part in parts if part[1]]


def _places(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    for part in [text] if _spans(text) else _BEGIN.split(text):
        yield from ((position + start, position + stop) for start, stop in _spans(part) or _pieces(part))
        position += len(part)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values of a damaged text begin and end, and what is none, up to a `}` before the next `{`."""
    begin = _SPACE.match(text).end()  # type: ignore[union-attr]
    while begin < len(text):
        try:
            _, end = _DECODER.raw_decode(text, begin)
            following = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            is_whole = following == len(text) or text[following] == "{" or "\n" in text[end:following]
        except (ValueError, RecursionError) as error:
            end, is_whole = getattr(error, "pos", begin), False
        if not is_whole:
            match = _BETWEEN.search(text, max(text.rfind("}", begin, end), begin))
            end = following = match.end() if match else len(text)
        yield begin, end
        begin = following


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where the values of a text begin and end; nothing if there is anything else."""
    spans, position = list[tuple[int, int]](), _SPACE.match(text).end()  # type: ignore[union-attr]
    while position < len(text):
        try:
            _, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        spans.append((position, end))
        position = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return spans


def documents(file: TextFile, parser: Parser) -> Iterator[Lines]:
    """Yield the elements of the array, or the objects, some at a time; each with the line that it begins on."""
    text, begun, records, size = _Text(file, parser.source), False, list[tuple[int, bytes]](), 0
    is_array = text.take("[")
    while not (text.take("]") if is_array else text.is_at_end()):
        if is_array and begun and not text.take(","):
            raise text.damaged("there is neither a comma nor a bracket behind an element of the array")
        line, element = text.element()
        records.append((line, element.replace("\n", " ").replace("\r", " ").encode()))
        begun, size = True, size + len(element)
        if size >= BLOCK:
            yield Lines(records, parser)
            records, size = [], 0
    if not text.is_at_end():
        raise text.damaged("there is more behind the end of the array")
    if records:
        yield Lines(records, parser)


class _Text:
    """A text that is decoded piece by piece."""

    def __init__(self, file: TextFile, origin: str) -> None:
        self._file = file
        self._origin = origin
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text, self._position, self._line, self._ended = "", 0, 1, False

    def take(self, character: str) -> bool:
        """Return whether this is the next character, and go on behind it."""
        if self.is_at_end() or self._text[self._position] != character:
            return False
        self._position += 1
        return True

    def is_at_end(self) -> bool:
        """Return whether only white space is left."""
        while (end := _SPACE.match(self._text, self._position).end()) == len(self._text) and not self._ended:  # type: ignore[union-attr]
            self._more()
        self._line += self._text.count("\n", self._position, end)
        self._position = end
        return end == len(self._text)

    def element(self) -> tuple[int, str]:
        """Return the line of the next value, and its text."""
        if self.is_at_end():
            raise self.damaged("it ends in the middle")
        while True:
            try:
                _, end = _DECODER.raw_decode(self._text, self._position)
            except (ValueError, RecursionError) as error:
                if self._ended or len(self._text) - self._position > LONGEST:
                    raise self.damaged(getattr(error, "msg", str(error))) from error
            else:
                if end < len(self._text) or self._ended:  # otherwise a number may go on
                    break
            self._more()
        line, element = self._line, self._text[self._position : end]
        self._line += element.count("\n")
        self._position = end
        return line, element

    def damaged(self, reason: str) -> SourceError:
        """Return the error for the text at this place."""
        return SourceError(
            f"{self._origin} is no JSON at line {self._line:,}: {reason}:",
            "let its writer land it again, or give the right format.",
        )

    def _more(self) -> None:
        space = memoryview(bytearray(BLOCK))
        size = self._file.readinto(space)
        self._ended = size == 0
        try:
            more = self._utf8.decode(space[:size], final=self._ended)
        except UnicodeDecodeError as error:
            raise self.damaged(str(error)) from error
        self._text, self._position = self._text[self._position :] + more, 0
