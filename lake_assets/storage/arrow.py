"""A Spark task's access to one object store: pyarrow's own readers and writers, no Hadoop connector."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
from pyarrow import fs

from lake_assets.base.errors import StorageError
from lake_assets.config.secrets import masking
from lake_assets.config.storages import AnyStorage
from lake_assets.storage.backends import backend_of
from lake_assets.storage.storage_errors import location
from lake_assets.storage.store import Store

_PART = 10 * 2**20  # bytes, up to which Arrow's client keeps an object of S3 in memory


class ArrowStore:
    """Reads and writes the objects below a storage's root through pyarrow's filesystems.

    An error of an open file may hold a signed URL of Azure, so callers read and write inside `masking`.
    """

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        # pyarrow's paths begin with the bucket, where there is one.
        self._folder = storage.root.split("://", 1)[-1]
        with masking(self.storage):
            backend = backend_of(storage)
            self._client = backend.as_arrow() or backend.as_obstore()

    def uri(self, key: str) -> str:
        """Return the key as a URI, as `Store.uri`."""
        return f"{self.storage.root}/{key}"

    def open(self, key: str) -> pa.NativeFile:
        """Return an object for random access. Arrow's own errors are OSError."""
        with masking(self.storage), _as_os_errors():
            if not isinstance(self._client, fs.FileSystem):
                return Store(self.storage).open(key)
            return self._client.open_input_file(f"{self._folder}/{key}")

    def misled(self, uri: str) -> StorageError | None:
        """Return the error for an object whose size Arrow's client takes from a redirection; None if it is right."""
        key = uri.removeprefix(f"{self.storage.root}/")
        if not isinstance(self._client, fs.S3FileSystem) or (landed := Store(self.storage).find(key)) is None:
            return None
        if self._client.get_file_info(f"{self._folder}/{key}").size == landed.size:
            return None
        return StorageError(
            f"{location(self.storage)} sends requests on to another server, which Arrow's client does not follow:",
            "correct `endpoint` to the server that answers.",
        )

    def create(self, key: str) -> pa.NativeFile:
        """Return a new object; it is visible only when the stream is closed, except in a local folder.

        Arrow's own errors are OSError; to close a small object may raise StorageError too.
        """
        if self.storage.requests is None:
            Path(self._folder, key).parent.mkdir(parents=True, exist_ok=True)
            return self.stream(key)
        threshold = self.storage.requests.multipart_threshold
        if threshold is None and isinstance(self._client, fs.FileSystem):
            return self.stream(key)
        return pa.PythonFile(BufferedUpload(self, key, threshold or _PART), mode="w")

    def stream(self, key: str) -> Any:  # noqa: ANN401 - a file of Arrow's, or of obstore's
        """Create an object as `create` does, by the client of the store; the object's folder exists."""
        with masking(self.storage), _as_os_errors():
            if not isinstance(self._client, fs.FileSystem):
                return obstore.open_writer(self._client, key)
            return self._client.open_output_stream(f"{self._folder}/{key}", compression=None)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise what Arrow calls an unknown error, such as Azure's of a chain without credentials, as those of requests."""
    try:
        yield
    except pa.ArrowException as error:
        if type(error) is not pa.ArrowException:
            raise
        raise OSError(str(error)) from error


class BufferedUpload(io.RawIOBase):
    """A new object that is uploaded in parts above a threshold; Arrow's client has a fixed one, of 10 MiB.

    An object up to the threshold, in bytes, is one request when it is closed. Above 10 MiB Arrow's client uploads the
    parts.
    """

    def __init__(self, store: ArrowStore, key: str, threshold: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._threshold = threshold
        self._limit = max(threshold, _PART)  # bytes in memory
        self._position = 0
        self._buffer: io.BytesIO | None = io.BytesIO()
        self._stream: Any = None

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._position

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer, which typeshed has no stable name for
        """Add bytes."""
        if self._buffer is not None and self._position + len(data) > self._limit:
            self._stream = self._store.stream(self._key)
            self._stream.write(self._buffer.getvalue())
            self._buffer = None
        if self._buffer is not None:
            self._buffer.write(data)
        elif self._stream is not None:
            self._stream.write(memoryview(data).cast("B"))
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Upload the object, or complete its upload."""
        if self.closed:
            return
        super().close()
        buffer, self._buffer = self._buffer, None
        if self._stream is not None:
            self._stream.close()
        elif buffer is not None:
            Store(self._store.storage).put_own(self._key, buffer.getvalue(), multipart_above=self._threshold)
