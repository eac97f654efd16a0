"""A web server as a landing zone: objects are requested by name, because web servers have no common listing."""

# ruff: noqa: D102 - `Backend` says what the methods do

import io
import tempfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, ClassVar

from obstore.store import HTTPStore

from lake_assets.base.errors import StorageError
from lake_assets.config.storages import WebStorage
from lake_assets.storage.backend import obstore_options
from lake_assets.storage.bucket import Bucket
from lake_assets.storage.manifest import etag_of

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta

_SMALL = 2**20  # bytes of an answer that is kept for another read: readers of Parquet read the end of a file twice


class RangeFile(io.RawIOBase):
    """An object as a file."""

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
        """Return that many bytes, or those up to the end of the object."""
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


class WebFolder(Bucket[WebStorage]):
    """A folder of a web server."""

    has_conditions: ClassVar[bool] = False  # its ETags may be weak

    def as_obstore(self) -> HTTPStore:
        return HTTPStore.from_url(self.storage.url, **obstore_options(self.storage))

    def etag(self, meta: "ObjectMeta") -> str:
        """Return the ETag of an object, or its Last-Modified if the server has no ETags.

        Raises StorageError without either.
        """
        if meta["e_tag"]:
            return etag_of(meta)
        changed = meta["last_modified"].timestamp()
        if changed <= 0:  # the client's value for a missing header
            raise StorageError(
                f"{self.storage.url}/{meta['path']} comes with neither ETag nor Last-Modified, so a change could not "
                "be seen:",
                "let the server send one of them, or land the file in a folder or bucket.",
            )
        return f"{changed:.0f}"


def copied(answer: "GetResult") -> IO[bytes]:
    """Return the bytes of an answer as a temporary file, which the caller closes."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    for piece in answer:
        file.write(piece)
    file.seek(0)
    return file
