"""A Spark task's access to one object store: pyarrow's own readers and writers, no Hadoop connector."""

import datetime as dt
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from obstore.store import HTTPStore
from pyarrow import fs

from lake_assets.config.secrets import masking
from lake_assets.config.storages import (
    AnyStorage,
    AzureStorage,
    GcsStorage,
    LakeStorage,
    LocalStorage,
    R2Storage,
    S3Storage,
    WebStorage,
)
from lake_assets.errors import StorageError
from lake_assets.retrying import doublings
from lake_assets.storage import web
from lake_assets.storage.clients import web_client
from lake_assets.storage.retry_window import using
from lake_assets.storage.store import Store

_PART = 10 * 2**20  # bytes, up to which Arrow's client keeps an object of S3 in memory
_FIRST_PAUSE = 0.05  # seconds, of Arrow's client of S3; each pause is twice as long as the last one
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class ArrowStore:
    """Reads and writes the objects below a storage's root through pyarrow's filesystems.

    An error of an open file may hold a signed URL of Azure, so callers read and write inside `masking`.
    """

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        # pyarrow's paths begin with the bucket, where there is one.
        self._folder = storage.root.split("://", 1)[-1]
        with masking(self.storage):
            self._client = web_client(storage) if isinstance(storage, WebStorage) else filesystem(storage)

    def uri(self, key: str) -> str:
        """The key as a URI, as `Store.uri`."""
        return f"{self.storage.root}/{key}"

    def open(self, key: str) -> pa.NativeFile:
        """An object for random access.

        Raises:
            OSError: the object is absent or the store fails.
        """
        with using(self.storage), masking(self.storage), _as_os_errors():
            if isinstance(self._client, HTTPStore):
                return web.open_file(self._client, key)
            return self._client.open_input_file(f"{self._folder}/{key}")

    def create(self, key: str) -> pa.NativeFile:
        """A new object; it is visible only when the stream is closed, except in a local folder.

        Raises:
            OSError: the store fails.
            StorageError: the store fails while the stream of a small object is closed.
        """
        assert not isinstance(self._client, HTTPStore), "nothing is written to a web server"  # noqa: S101 - the config refuses it
        path = f"{self._folder}/{key}"
        if isinstance(self.storage, LocalStorage):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        elif (threshold := self.storage.requests.multipart_threshold) is not None:
            return pa.PythonFile(BufferedUpload(self, key, threshold), mode="w")
        return self.stream(key)

    def stream(self, key: str) -> pa.NativeFile:
        """As `create`, by Arrow's own client of the store; the object's folder exists.

        Raises:
            OSError: the store fails.
        """
        assert not isinstance(self._client, HTTPStore), "nothing is written to a web server"  # noqa: S101 - the config refuses it
        with using(self.storage), masking(self.storage), _as_os_errors():
            return self._client.open_output_stream(f"{self._folder}/{key}")


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

    An object up to the threshold is one request when it is closed. Above 10 MiB Arrow's client uploads the parts.

    Args:
        store: where the object goes.
        key: the object's.
        threshold: in bytes.
    """

    def __init__(self, store: ArrowStore, key: str, threshold: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._threshold = threshold
        self._limit = max(threshold, _PART)  # bytes in memory
        self._position = 0
        self._buffer: io.BytesIO | None = io.BytesIO()
        self._stream: pa.NativeFile | None = None

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer, which typeshed has no stable name for
        """Add bytes."""
        if self._buffer is not None and self._position + len(data) > self._limit:
            self._stream = self._store.stream(self._key)
            self._stream.write(self._buffer.getbuffer())
            self._buffer = None
        if self._buffer is not None:
            self._buffer.write(data)
        elif self._stream is not None:
            self._stream.write(data)
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Upload the object, or complete its upload.

        Raises:
            OSError: the store fails.
            StorageError: as `Store.put_own`.
        """
        if self.closed:
            return
        super().close()
        buffer, self._buffer = self._buffer, None
        if self._stream is not None:
            self._stream.close()
        elif buffer is not None:
            Store(self._store.storage).put_own(self._key, buffer.getvalue(), multipart_above=self._threshold)


def filesystem(storage: LakeStorage) -> fs.FileSystem:
    """Arrow's client of a storage; nothing is connected yet, except to fetch the token of a service account.

    Raises:
        StorageError: the service account's key file cannot be used.
    """
    if isinstance(storage, LocalStorage):
        return fs.LocalFileSystem()
    if isinstance(storage, GcsStorage):
        return _gcs(storage)
    if isinstance(storage, AzureStorage):
        return _azure(storage)
    return _s3(storage)


def _s3(storage: S3Storage | R2Storage) -> fs.S3FileSystem:
    service = storage.service
    endpoint = urlsplit(service.endpoint) if service.endpoint else None
    return fs.S3FileSystem(
        access_key=storage.key_id,
        secret_key=storage.secret and storage.secret.get_secret_value(),
        session_token=storage.session_token and storage.session_token.get_secret_value(),
        anonymous=service.anonymous,
        region=service.region,
        endpoint_override=endpoint.netloc if endpoint else None,
        scheme=endpoint.scheme if endpoint else "https",
        force_virtual_addressing=endpoint is None,
        # A small file is one request, and not a multipart upload of three.
        allow_delayed_open=True,
        connect_timeout=storage.requests.connect_timeout,
        request_timeout=storage.requests.timeout,
        # By default the pauses are 0.05, 0.1, 0.2 … 3.2 seconds, 6.4 in all. The standard strategy has random pauses,
        # which may all be short: the driver, which Spark does not retry, then gave up too early.
        retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=_retries(storage.requests.retry_seconds)),
    )


def _retries(retry_seconds: float) -> int:
    """The retries that Arrow calls attempts. The client makes no pause before the first of them."""
    pauses = doublings(_FIRST_PAUSE, retry_seconds)
    return pauses + 1 if pauses else 0


def _gcs(storage: GcsStorage) -> fs.GcsFileSystem:
    # It bounds all attempts of a request together, the first one too.
    retry_seconds = dt.timedelta(seconds=max(storage.requests.retry_seconds, storage.requests.timeout))
    if storage.service_account is None:
        return fs.GcsFileSystem(retry_time_limit=retry_seconds)
    # pyarrow takes a token instead of a key file; it is valid for an hour, and a task takes minutes.
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
    from google.auth.transport.requests import Request  # noqa: PLC0415
    from google.oauth2.service_account import Credentials  # noqa: PLC0415

    try:
        credentials = Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            storage.service_account, scopes=[_GOOGLE_SCOPE]
        )
        credentials.refresh(Request())
    except (OSError, ValueError, GoogleAuthError) as error:
        raise StorageError(
            f"the service account of {storage.root} cannot be used: {type(error).__name__}:",
            f"check the key file {storage.service_account}.",
        ) from error
    return fs.GcsFileSystem(
        access_token=credentials.token,
        credential_token_expiration=credentials.expiry.replace(tzinfo=dt.UTC),
        retry_time_limit=retry_seconds,
    )


def _azure(storage: AzureStorage) -> fs.AzureFileSystem:
    access = storage.access
    blob, scheme = access.authority, urlsplit(access.url).scheme
    return fs.AzureFileSystem(
        access.account,
        account_key=access.key,
        # pyarrow appends it to the URL unchanged.
        sas_token=f"?{access.sas}" if access.sas else None,
        blob_storage_authority=blob,
        dfs_storage_authority=blob.replace(".blob.", ".dfs.", 1),
        blob_storage_scheme=scheme,
        dfs_storage_scheme=scheme,
    )
