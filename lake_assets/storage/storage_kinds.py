"""The class of each storage of the config, with those of Azure, of Google and of web servers."""

# ruff: noqa: D102 - `Backend` says what the methods do

import datetime as dt
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, HTTPStore
from pyarrow import fs

from lake_assets.base.errors import StorageError
from lake_assets.config.storages import AnyStorage, AzureStorage, GcsStorage, WebStorage
from lake_assets.storage import patience
from lake_assets.storage.backend import Backend, duckdb_keys, obstore_options, sql_literals
from lake_assets.storage.bucket import Bucket
from lake_assets.storage.folder import Folder
from lake_assets.storage.manifest import etag_of
from lake_assets.storage.s3 import S3Bucket

if TYPE_CHECKING:
    from obstore import ObjectMeta

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class AzureContainer(Bucket[AzureStorage]):
    """A container of Azure."""

    extension: ClassVar[str | None] = "azure"
    begins_anywhere: ClassVar[bool] = False

    def as_obstore(self) -> AzureStore:
        account = self.storage.access
        keys = {"account_key": account.key, "sas_key": account.sas}
        return AzureStore(
            self.storage.container,
            prefix=self.storage.prefix or None,
            account_name=account.account,
            endpoint=account.url,
            **obstore_options(self.storage),
            **{name: key for name, key in keys.items() if key is not None},  # type: ignore[arg-type]
        )

    def as_arrow(self) -> fs.FileSystem:
        account = self.storage.access
        blob, scheme = account.authority, urlsplit(account.url).scheme
        return fs.AzureFileSystem(
            account.account,
            account_key=account.key,
            # pyarrow appends it to the URL unchanged.
            sas_token=f"?{account.sas}" if account.sas else None,
            blob_storage_authority=blob,
            dfs_storage_authority=blob.replace(".blob.", ".dfs.", 1),
            blob_storage_scheme=scheme,
            dfs_storage_scheme=scheme,
        )

    def as_duckdb_secret(self) -> dict[str, str]:
        account = self.storage.access
        options = {"TYPE": "azure", **sql_literals(SCOPE=f"az://{self.storage.container}")}
        if account.key is None and account.sas is None:
            return options | {"PROVIDER": "credential_chain", **sql_literals(ACCOUNT_NAME=account.account)}
        return options | sql_literals(CONNECTION_STRING=account.connection_string)


class GoogleBucket(Bucket[GcsStorage]):
    """A bucket of Google."""

    extension: ClassVar[str | None] = "httpfs"

    def as_obstore(self) -> GCSStore:
        options: dict[str, Any] = obstore_options(self.storage)
        if self.storage.service_account is not None:
            options["service_account"] = self.storage.service_account
        return GCSStore(self.storage.bucket, prefix=self.storage.prefix or None, **options)

    def as_arrow(self) -> fs.FileSystem:
        limit, key_file = patience.of_arrows_google(self.storage.requests), self.storage.service_account
        if key_file is None:
            return fs.GcsFileSystem(retry_time_limit=limit)
        # pyarrow takes a token instead of a key file; it is valid for an hour, and a task takes minutes.
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
        from google.auth.transport.requests import Request  # noqa: PLC0415
        from google.oauth2.service_account import Credentials  # noqa: PLC0415

        try:
            credentials = Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
                key_file, scopes=[_GOOGLE_SCOPE]
            )
            credentials.refresh(Request())
        except (OSError, ValueError, GoogleAuthError) as error:
            raise StorageError(
                f"the service account of {self.storage.root} cannot be used: {type(error).__name__}:",
                f"correct the key file {key_file}.",
            ) from error
        return fs.GcsFileSystem(
            access_token=credentials.token,
            credential_token_expiration=credentials.expiry.replace(tzinfo=dt.UTC),
            retry_time_limit=limit,
        )

    def as_duckdb_secret(self) -> dict[str, str]:
        secret = self.storage.secret.get_secret_value() if self.storage.secret else None
        scope = sql_literals(SCOPE=f"gs://{self.storage.bucket}")
        return {"TYPE": "gcs", **scope, **duckdb_keys(self.storage.key_id, secret)}

    @property
    def is_chained(self) -> bool:
        return self.storage.key_id is None


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


_BACKENDS: Mapping[str, type[Backend[Any]]] = MappingProxyType(
    {"local": Folder, "s3": S3Bucket, "r2": S3Bucket, "gcs": GoogleBucket, "azure": AzureContainer, "web": WebFolder}
)


def backend_of(storage: AnyStorage) -> Backend[Any]:
    """Return the backend of a storage of the config."""
    return _BACKENDS[storage.type](storage)
