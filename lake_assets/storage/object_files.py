"""Objects as files, where Arrow's client of a storage does not make them."""

# ruff: noqa: D102 - the methods are those of Python's files

import io
import tempfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore import GetResult

ARROWS_PART = 10 * 2**20  # bytes, up to which Arrow's client keeps an object of S3 in memory
_SMALL = 2**20  # bytes of an answer that is kept for another read: readers of Parquet read the end of a file twice


class RangeFile(io.RawIOBase):
    """An object that is read by ranges."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._last = (0, b"")  # where the last small answer begins, and its bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        end = self._size if size is None or size < 0 else min(self._position + size, self._size)
        if end <= self._position:
            return b""
        start, self._position = self._position, end
        begin, answer = self._last
        if not begin <= start <= end <= begin + len(answer):
            begin, answer = start, self._fetch(start, end)
            if len(answer) != end - start:
                raise OSError(f"{len(answer)} bytes came in place of {end - start}")
            if len(answer) <= _SMALL:
                self._last = begin, answer
        return answer[start - begin : end - begin]


class BufferedUpload(io.RawIOBase):
    """A new object that is uploaded in parts above a threshold; Arrow's client has a fixed one, of 10 MiB.

    An object up to the threshold, in bytes, is one request when it is closed. Above 10 MiB Arrow's client uploads the
    parts.
    """

    def __init__(self, stream: Callable[[], Any], put: Callable[[bytes], None], threshold: int) -> None:
        super().__init__()
        self._new_stream = stream
        self._put = put
        self._limit = max(threshold, ARROWS_PART)  # bytes in memory
        self._position = 0
        self._buffer: io.BytesIO | None = io.BytesIO()
        self._stream: Any = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer, which typeshed has no stable name for
        if self._buffer is not None and self._position + len(data) > self._limit:
            self._stream = self._new_stream()
            self._stream.write(self._buffer.getvalue())
            self._buffer = None
        if self._buffer is not None:
            self._buffer.write(data)
        elif self._stream is not None:
            self._stream.write(memoryview(data).cast("B"))
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        buffer, self._buffer = self._buffer, None
        if self._stream is not None:
            self._stream.close()
        elif buffer is not None:
            self._put(buffer.getvalue())


def copied(answer: "GetResult") -> IO[bytes]:
    """Return the bytes of an answer as a temporary file, which the caller closes."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    for piece in answer:
        file.write(piece)
    file.seek(0)
    return file
