"""The text of a landed file: decompressed, in UTF-8, without its byte order mark."""

import bz2
import codecs
import io
import lzma
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

from lake_assets.base.errors import SourceError
from lake_assets.base.texts import count
from lake_assets.config.formats import TextFormat

# The first bytes of compressed files; their names do not count.
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ\x00": "xz",
}
_SKIPPABLE = 0x184D2A50  # begins a frame that the readers of zstd and lz4 leave out; its last four bits are any
_AT_ONCE = 2**18  # bytes, of both sides


class _Gzip:
    """Decompresses a member of gzip, as the classes of `bz2` and `lzma` do theirs."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.eof, self.needs_input, self.unused_data = False, True, b""

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        piece = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.eof, self.unused_data = self._zlib.eof, self._zlib.unused_data
        self.needs_input = not self._zlib.unconsumed_tail
        return piece


_Member = bz2.BZ2Decompressor | lzma.LZMADecompressor | _Gzip

# How a member is read, and of how many zeros a multiple may be behind it (0: of none). Arrow has readers of these, too:
# that of gzip refuses the zeros, and that of bzip2 an empty member between others.
_MEMBERS: dict[str, tuple[Callable[[], _Member], int]] = {
    "gzip": (_Gzip, 1),
    "bz2": (bz2.BZ2Decompressor, 0),
    "xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), 4),
}


def decompressed(file: pa.NativeFile) -> pa.NativeFile | io.BufferedReader:
    """Return the bytes of a file; the file itself if it is not compressed.

    Reading them raises ArrowInvalid or OSError if a member is damaged or cut, or anything else is behind one.
    """
    position, head = 0, file.read_at(8, 0)
    while int.from_bytes(head[:4], "little") & ~0xF == _SKIPPABLE:
        position += 8 + int.from_bytes(head[4:], "little")
        head = file.read_at(8, position)
    codec = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "zstd" if position else None)
    file.seek(0)
    if codec is None:
        return file
    return io.BufferedReader(_Raw(file, codec)) if codec in _MEMBERS else pa.CompressedInputStream(file, codec)


class _Raw(io.RawIOBase):
    """The decompressed bytes of a file."""

    def __init__(self, file: pa.NativeFile, codec: str) -> None:
        self._pieces = filter(None, _pieces(file, *_MEMBERS[codec]))
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, space: memoryview) -> int:  # type: ignore[override]
        try:
            self._piece = self._piece or memoryview(next(self._pieces, b""))
        except (zlib.error, lzma.LZMAError) as error:
            raise pa.ArrowInvalid(f"a compressed member is damaged, or none: {error}") from error
        size = min(len(space), len(self._piece))
        space[:size], self._piece = self._piece[:size], self._piece[size:]
        return size


def _pieces(file: pa.NativeFile, new: Callable[[], _Member], padding: int) -> Iterator[bytes]:
    data = file.read(_AT_ONCE)
    while data:
        member = new()
        while not member.eof:
            is_at_end = member.needs_input and not (data := data or file.read(_AT_ONCE))
            piece = member.decompress(data, _AT_ONCE)
            if is_at_end and not (piece or member.eof):
                raise pa.ArrowInvalid("it ends within a compressed member")
            data = b""
            yield piece
        data, zeros = member.unused_data or file.read(_AT_ONCE), 0
        while padding and data.startswith(b"\0"):
            rest = data.lstrip(b"\0")
            zeros += len(data) - len(rest)
            data = rest or file.read(_AT_ONCE)
        if zeros and zeros % padding:
            raise pa.ArrowInvalid(f"{zeros} zeros are behind a member, which are no multiple of {padding}")


BOMS = {
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
    return next((mark for mark in BOMS if begin.startswith(mark)), b"")


class TextFile:
    """An open text of a landed file."""

    def __init__(self, file: pa.NativeFile, form: TextFormat, origin: str) -> None:
        self._origin = origin  # names it in errors
        self._most = form.most_decompressed
        self._text: pa.NativeFile | _Decoded = decompressed(file)
        self._first = self._text  # Arrow's stream, if not used any more, closes the file below it
        self._head: bytes = self._first.read(PEEKED)
        mark = mark_of(self._head)
        encoding = BOMS.get(mark, form.encoding)
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
