"""A Spark task's access to one object store: pyarrow's own readers and writers, no Hadoop connector."""

import datetime as dt
from pathlib import Path
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
from lake_assets.storage import web
from lake_assets.storage.clients import web_client

_ATTEMPTS = 8  # of a request to S3
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
        with masking(self.storage):
            if isinstance(self._client, HTTPStore):
                return web.open_file(self._client, key)
            return self._client.open_input_file(f"{self._folder}/{key}")

    def create(self, key: str) -> pa.NativeFile:
        """A new object; it is visible only when the stream is closed, except in a local folder.

        Raises:
            OSError: the store fails.
        """
        assert not isinstance(self._client, HTTPStore), "nothing is written to a web server"  # noqa: S101 - the config refuses it
        path = f"{self._folder}/{key}"
        if isinstance(self.storage, LocalStorage):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with masking(self.storage):
            return self._client.open_output_stream(path)


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
        connect_timeout=5,
        request_timeout=60,
        # The pauses are 0.05, 0.1, 0.2 … 3.2 seconds, 6.4 in all. The standard strategy has random pauses, which may
        # all be short: the driver, which Spark does not retry, then gave up too early.
        retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


def _gcs(storage: GcsStorage) -> fs.GcsFileSystem:
    patience = dt.timedelta(seconds=60)
    if storage.service_account is None:
        return fs.GcsFileSystem(retry_time_limit=patience)
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
        retry_time_limit=patience,
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
