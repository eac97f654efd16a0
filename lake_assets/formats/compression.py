"""The bytes of a file, decompressed: all of its members, one behind the other."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

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
