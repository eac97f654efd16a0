"""One object store, seen from inside a Spark task: pyarrow's own readers and writers, no Hadoop connector."""

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from lake_assets.config.storages import LocalStorage, S3Storage


class ArrowStore:
    """Reads and writes the objects below a storage's root through pyarrow's filesystems."""

    def __init__(self, storage: LocalStorage | S3Storage) -> None:
        self._storage = storage
        if isinstance(storage, LocalStorage):
            self._fs: fs.FileSystem = fs.LocalFileSystem()
            self._root = str(Path(storage.path).absolute())
        else:
            self._fs = _s3(storage)
            self._root = f"{storage.bucket}/{storage.prefix}".rstrip("/")

    def uri(self, key: str) -> str:
        """The key as a URI, the same as `Store.uri` gives."""
        return f"{'' if isinstance(self._storage, LocalStorage) else 's3://'}{self._root}/{key}"

    def open(self, key: str) -> pa.NativeFile:
        """An object for random access.

        Raises:
            OSError: the object is absent or the store fails.
        """
        return self._fs.open_input_file(f"{self._root}/{key}")

    def create(self, key: str) -> pa.NativeFile:
        """A new object; nothing is visible under the key until the stream is closed (on S3).

        Raises:
            OSError: the store fails.
        """
        path = f"{self._root}/{key}"
        if isinstance(self._storage, LocalStorage):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return self._fs.open_output_stream(path)


def _s3(storage: S3Storage) -> fs.S3FileSystem:
    endpoint = urlsplit(storage.endpoint) if storage.endpoint else None
    return fs.S3FileSystem(
        access_key=storage.key_id,
        secret_key=storage.secret and storage.secret.get_secret_value(),
        session_token=storage.session_token and storage.session_token.get_secret_value(),
        region=storage.region,
        endpoint_override=endpoint.netloc if endpoint else None,
        scheme=endpoint.scheme if endpoint else "https",
        force_virtual_addressing=endpoint is None,
        # A small file is one request, and not a multipart upload of three.
        allow_delayed_open=True,
        connect_timeout=5,
        request_timeout=60,
    )
