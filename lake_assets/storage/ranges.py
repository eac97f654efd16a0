"""An object as a file for random access, each read of which is a request."""

import io
from collections.abc import Callable

_SMALL = 2**20  # bytes of an answer that is kept for another read: readers of Parquet read the end of a file twice


class RangeFile(io.RawIOBase):
    """An object as a file.

    Args:
        size: bytes of the object.
        fetch: requests the bytes from a position up to another.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._last = (0, b"")  # where the last small answer begins, and its bytes

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the next read."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return so many bytes, or those up to the end of the object."""
        end = self._size if size is None or size < 0 else min(self._position + size, self._size)
        if end <= self._position:
            return b""
        start, self._position = self._position, end
        begin, answer = self._last
        if not begin <= start <= end <= begin + len(answer):
            begin, answer = start, self._fetch(start, end)
            if len(answer) <= _SMALL:
                self._last = begin, answer
        return answer[start - begin : end - begin]
