"""JSON that is not an object a line: an array of objects, or objects one after the other, on any number of lines."""

import codecs
import json
import re
from collections.abc import Iterator

from lake_assets.errors import SourceError
from lake_assets.formats.blocks import BLOCK, LONGEST
from lake_assets.formats.decoding import TextFile
from lake_assets.formats.records import Lines, Parser

_TRIED = 10  # lines of the begin of a text, of which half are whole objects if each line is one
_TWO = 2  # or more objects on a line
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def is_one_a_line(begin: bytes) -> bool:
    """Return whether a text that begins so has an object a line, of which a few may be damaged."""
    if not begin.lstrip().startswith(b"{"):
        return not begin.lstrip().startswith(b"[")
    lines = [line for line in begin.strip().split(b"\n", _TRIED)[:_TRIED] if line.strip()]
    objects = list(map(_objects_of, lines))
    return max(objects) < _TWO and (len(lines) == 1 or 2 * sum(objects) >= len(lines))


def _objects_of(line: bytes) -> int:
    """Return whether a line has one object, or two and more; 0 if it has anything else."""
    text = line.decode("utf-8", "replace").strip()
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return 0
    rest = text[end:].lstrip()
    if not isinstance(value, dict) or (rest and not rest.startswith("{")):
        return 0
    return _TWO if rest else 1


def documents(file: TextFile, parser: Parser) -> Iterator[Lines]:
    """Yield the elements of the array, or the objects, some at a time; each with the line that it begins on.

    Raises:
        SourceError: the text is no JSON, or an element is too long.
    """
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
