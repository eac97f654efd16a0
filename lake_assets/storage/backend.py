"""A storage by its clients; there is one class for folders, and one for each vendor's buckets.

Each class gives its clients server, region and keys of the config, so that all reach the same bucket. From the
environment they take credentials alone, where the config has none.
"""

# ruff: noqa: ARG002 - some methods are for storages that can do more

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, S3Store
from pyarrow import fs

from lake_assets.base.errors import StorageError
from lake_assets.base.retrying import Result, Transient
from lake_assets.config.connections import RemoteStorage
from lake_assets.config.storages import AnyStorage
from lake_assets.storage import patience
from lake_assets.storage.manifest import LandedObject, etag_of

if TYPE_CHECKING:
    from obstore import ObjectMeta

Client = LocalStore | S3Store | GCSStore | AzureStore | HTTPStore
Config = TypeVar("Config", bound=AnyStorage)

Hides = Callable[[Sequence[str]], bool]
"""Whether a folder is hidden, by its names from the storage's root on."""

_NO_PROXY = {"proxy_url": "http://none.invalid", "proxy_excludes": "*,0.0.0.0/0,::/0"}  # of obstore


class Backend(ABC, Generic[Config]):
    """A storage by its clients. By default it cannot do what not every storage can."""

    extension: ClassVar[str | None] = None  # of DuckDB, which reads it
    has_conditions: ClassVar[bool] = True  # whether an object is read only if it has an ETag

    def __init__(self, storage: Config) -> None:
        self.storage = storage

    @abstractmethod
    def as_obstore(self) -> Client:
        """Make obstore's client, whose keys are relative to the storage's root; nothing is connected yet.

        The client's own refusal, such as of a key file that does not exist, is an ObstoreError.
        """

    @property
    @abstractmethod
    def client(self) -> Client:
        """Obstore's client, which sends each request once."""

    def as_arrow(self) -> fs.FileSystem | None:
        """Make Arrow's client; None if it has none.

        Nothing is connected yet, except to fetch the token of a service account.
        """
        return None

    def as_duckdb_secret(self) -> dict[str, str]:
        """Return the options of `CREATE SECRET` for the bucket of a lake or an indexed source, as SQL with secrets."""
        raise AssertionError(f"{self.storage.type} storage has no secret")

    @property
    def is_chained(self) -> bool:
        """Whether DuckDB takes keys from AWS's credential chain."""
        return False

    @abstractmethod
    def retried(self, transient: Transient, work: Callable[[], Result]) -> Result:
        """Return the result of requests, with the storage's retries and pauses."""

    def etag(self, meta: "ObjectMeta") -> str:
        """Return the ETag of an object; see `etag_of`."""
        return etag_of(meta)

    def content(self, key: str, etag: str) -> bytes | None:
        """Return the bytes of an object with this ETag if no server is asked; None if one is."""
        return None

    @abstractmethod
    def pages(self, prefix: str, after: str, *, tree: bool) -> Iterator[Sequence["ObjectMeta"]]:
        """Yield the objects below a folder whose keys sort after a text, in the keys' order.

        A prefix without a slash at its end is the beginning of names: the listing begins and ends with these. Azure,
        which begins no listing within a folder, lists those before too. Raises KeyOrderError if the store lists in tree
        order, and that of whole keys was expected; StorageError if it lists in neither, as directory buckets of S3.
        """

    @abstractmethod
    def unordered_pages(self, prefix: str, hides: Hides | None = None) -> Iterator[Sequence["ObjectMeta"]]:
        """Yield the objects below a folder in any order.

        Of a local folder hidden files are yielded only if it is known which folders the layout hides. Without `hides`,
        hidden folders are not opened; one that it hides may refuse to be read.
        """

    @abstractmethod
    def folders(self, prefix: str) -> Sequence[str]:
        """Return the folders right below a folder, without slashes at their ends."""

    @abstractmethod
    def create(self, key: str, body: bytes) -> bool:
        """Write a new object of which no reader sees a part; False or an AlreadyExistsError if the key is taken."""

    def delete_if_match(self, key: str, etag: str) -> bool | None:
        """Delete an object if it has this ETag, by one request; False if the key has another object.

        None if the server does not know the condition; nothing was deleted then.
        """
        return None

    def checksum(self, key: str, etag: str) -> str:
        """Return the checksum that the store keeps of a whole object with this ETag, as `CRC64NVME:…`; empty if none.

        One of the parts of an upload is left out: the same content in other parts has another one.
        """
        return ""

    def tag(self, key: str, name: str, value: str) -> None:
        """Add a tag to an object, beside those that it has."""
        raise NotImplementedError  # the config refuses it, by `has_tags`

    def abort_uploads(self, prefix: str) -> None:
        """Abort the uploads to keys with this prefix, which no other attempt has.

        A store that does not permit it is left as it is: a rule of the bucket's lifecycle, or the vendor after a week,
        removes what is left.
        """

    def copied_from(self, source: AnyStorage, original: LandedObject, key: str, *, may_link: bool) -> bool:
        """Return whether the storage itself made a copy of an object, with the content that the listing saw.

        Raises SourceChangedError if the original is gone or has another ETag.
        """
        return False


def obstore_options(storage: RemoteStorage) -> dict[str, Any]:
    """Return how obstore reaches a storage: its way, limits and retries."""
    options: dict[str, Any] = {
        "allow_http": True,
        "connect_timeout": dt.timedelta(seconds=storage.requests.connect_timeout),
        "timeout": dt.timedelta(seconds=storage.requests.timeout),
    }
    if storage.certificates is not None:
        options["root_certificate"] = _certificates(storage.certificates)
    if storage.proxy is not None:  # else obstore takes that of the environment
        options |= {"proxy_url": storage.proxy.get_secret_value()} if storage.proxy else _NO_PROXY
    return {"client_options": options, "retry_config": patience.of_obstore(storage.requests)}


def _certificates(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(
            f"the certificates {path} cannot be read: {error.strerror}:",
            "correct `certificates` of the storage, or AWS_CA_BUNDLE and SSL_CERT_FILE.",
        ) from error


def sql_literals(**texts: str | None) -> dict[str, str]:
    """Return options of a secret as SQL, without those that are None."""
    from lake_assets.base.duckdb_engine import literal  # noqa: PLC0415 - tasks use this room, and do without DuckDB

    return {name: literal(text) for name, text in texts.items() if text is not None}


def duckdb_keys(key_id: str | None, secret: str | None, token: str | None = None) -> dict[str, str]:
    """Return the options of a secret for keys of S3's protocol, or for the credential chain without them."""
    if key_id is None or secret is None:
        # Refreshed when they have expired: an engine may live longer than a role's keys.
        return {"PROVIDER": "credential_chain", "REFRESH": "auto"}
    return sql_literals(KEY_ID=key_id, SECRET=secret, SESSION_TOKEN=token)
