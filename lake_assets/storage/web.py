"""A web server as a landing zone: objects are requested by name, because web servers have no common listing."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError as ObstoreError
from obstore.exceptions import NotFoundError, NotSupportedError, PermissionDeniedError, UnauthenticatedError
from obstore.store import HTTPStore

from lake_assets.errors import StorageError
from lake_assets.storage.ranges import RangeFile

if TYPE_CHECKING:
    from obstore import ObjectMeta


def find(store: HTTPStore, key: str) -> "ObjectMeta | None":
    """Return the metadata of an object, by one HEAD request; None if there is none.

    Raises:
        StorageError: it has neither an ETag nor a time of change.
        ObstoreError: the server cannot be reached, or refuses.
    """
    try:
        meta = obstore.head(store, key)
    except (NotFoundError, FileNotFoundError):
        return None
    return {**meta, "e_tag": version(store, meta)}


def version(store: HTTPStore, meta: "ObjectMeta") -> str:
    """Return the version of an object: its ETag, or its Last-Modified if the server has no ETags.

    Raises:
        StorageError: the server sends neither.
    """
    if meta["e_tag"]:
        return meta["e_tag"]
    changed = meta["last_modified"].timestamp()
    if changed <= 0:  # the client's value for a missing header
        raise StorageError(
            f"{store.url}/{meta['path']} comes with neither ETag nor Last-Modified, so a change could not be seen:",
            "let the server send one of them, or land the file in a folder or bucket.",
        )
    return f"{changed:.0f}"


def open_file(store: HTTPStore, key: str) -> pa.NativeFile:
    """Return an object for random access: by ranges, or from a temporary copy if the server has no ranges.

    Raises:
        OSError: the object is gone, or the server cannot be reached, or refuses.
    """
    with _os_errors():
        size = obstore.head(store, key)["size"]
        try:
            obstore.get_range(store, key, start=0, length=1)
        except NotSupportedError:
            return pa.PythonFile(_copy(store, key), "r")

    def fetch(start: int, end: int) -> bytes:
        with _os_errors():
            return obstore.get_range(store, key, start=start, end=end).to_bytes()

    return pa.PythonFile(RangeFile(size, fetch), "r")


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raise the client's errors as the system's, which readers of files expect."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, str(error).split("\n", 1)[0]) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, str(error).split("\n", 1)[0]) from error
    except ObstoreError as error:
        raise OSError(errno.EIO, str(error).split("\n", 1)[0]) from error


def _copy(store: HTTPStore, key: str) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    for chunk in obstore.get(store, key):
        file.write(chunk)
    file.seek(0)
    return file
