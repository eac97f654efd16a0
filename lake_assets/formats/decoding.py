"""The text of a landed file: decompressed, in UTF-8, without its byte order mark."""

import codecs

import pyarrow as pa

from lake_assets.config.formats import TextFormat
from lake_assets.errors import SourceError
from lake_assets.formats.compression import decompressed
from lake_assets.layout.texts import count

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
PEEKED = 64 * 2**10  # bytes of the begin of a text
_FOREIGN = "lake_assets.foreign"
codecs.register_error(_FOREIGN, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]
_MOST_SKIPPED = 16 * 2**20  # bytes of lines before a header


def mark_of(begin: bytes) -> bytes:
    """Return the byte order mark at the begin of a text; empty if there is none."""
    return next((mark for mark in MARKS if begin.startswith(mark)), b"")


class TextFile:
    """An open text of a landed file."""

    def __init__(self, file: pa.NativeFile, form: TextFormat, origin: str) -> None:
        self._origin = origin  # names it in errors
        self._most = form.most_decompressed
        self._text: pa.NativeFile | _Decoded = decompressed(file)
        self._first = self._text  # Arrow's stream, if not used any more, closes the file below it
        self._head: bytes = self._first.read(PEEKED)
        mark = mark_of(self._head)
        encoding = MARKS.get(mark, form.encoding)
        # The position of its first byte in the file, if it is stored
        self.begin = len(mark) if encoding == "utf-8" else 0
        self._head = self._head[self.begin :]
        if encoding not in {"utf-8", "ascii"}:
            self._text = _Decoded(decompressed(file), encoding)
            self._head = b""
        # Its bytes are those of the file, so that it can be read from any of its positions
        self.is_stored = self._text is file
        self._size = len(self._head)

    def skip_lines(self, lines: int) -> int:
        """Leave out the first lines, and return their bytes."""
        total = 0
        for _ in range(lines):
            size = PEEKED
            while b"\n" not in (head := self.peek(size)) and len(head) >= size:
                if size >= _MOST_SKIPPED:
                    raise SourceError(
                        f"the first {count(lines, 'line')} of {self._origin}, which skip_lines leaves out, do not end:",
                        "let its writer end lines with a line feed, or let the stream's files leave the object out.",
                    )
                size *= 4
            skipped, end, self._head = head.partition(b"\n")
            total += len(skipped + end)
        return total

    def skip(self, size: int) -> None:
        """Leave out the first bytes."""
        while size and (taken := self.readinto(memoryview(bytearray(min(size, PEEKED))))):
            size -= taken

    def peek(self, size: int = PEEKED) -> bytes:
        """Return the next bytes, which stay to be read: fewer than `size` only if the text has no more."""
        head, self._head = self._head, b""
        while len(head) < size and (more := self._read()):
            head += more
        self._head = head
        return head

    def _read(self) -> bytes:
        space = memoryview(bytearray(PEEKED))
        return bytes(space[: self.readinto(space)])

    def readinto(self, space: memoryview) -> int:
        """Read the next bytes into a buffer; returns their number, 0 at the end.

        A damaged file is an ArrowInvalid or an OSError.
        """
        if self._head:
            size = min(len(self._head), len(space))
            space[:size], self._head = self._head[:size], self._head[size:]
            return size
        size = int(self._text.readinto(space))
        self._size += size
        if self._size > self._most and not self.is_stored:
            raise SourceError(
                f"{self._origin} has more than {self._most:,} bytes when it is decompressed:",
                "if it is no error of its writer, raise most_decompressed in the stream's format.",
            )
        return size


class _Decoded:
    """A text of another encoding in UTF-8; a byte that is not of the encoding is none of UTF-8 either."""

    def __init__(self, raw: pa.NativeFile, encoding: str) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(encoding)(_FOREIGN)
        self._next = b""
        self._is_all = False

    def readinto(self, space: memoryview) -> int:
        """Read the next bytes, as `TextFile` does."""
        while not self._next and not self._is_all:
            taken = self._raw.read(PEEKED)
            if not taken:
                self._is_all, self._decoder.errors = True, "strict"
            try:
                self._next = self._decoder.decode(taken, final=self._is_all).encode("utf-8", "surrogatepass")
            except UnicodeError as error:
                raise pa.ArrowInvalid(f"{error}") from error
        size = min(len(self._next), len(space))
        space[:size], self._next = self._next[:size], self._next[size:]
        return size
