"""One object store, seen from the driver: listing with ETags, probing, deleting; local folders and S3 alike."""

import datetime as dt
import fnmatch
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.exceptions import NotFoundError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import LocalStore, S3Store

from lake_assets.config.storages import LocalStorage, S3Storage
from lake_assets.errors import SourceChangedError, StorageError

_CODE = re.compile(r"<Code>(\w+)</Code>")
_REFUSED = (PermissionDeniedError, UnauthenticatedError, PermissionError)
_REFUSED_CODES = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}

_RETRY: "obstore.store.RetryConfig" = {"max_retries": 5, "retry_timeout": dt.timedelta(seconds=30)}


@dataclass(frozen=True, slots=True)
class LandedObject:
    """An object of a landing zone as one listing saw it."""

    uri: str
    key: str  # below the storage's root
    etag: str  # without quotes; of a local file: inode, time and size
    size: int  # bytes
    last_modified: dt.datetime  # with time zone


class Store:
    """The objects below a storage's root, addressed by keys relative to it.

    A key is taken and given back exactly as the store holds it; a percent sign in it is a character as others.
    """

    def __init__(self, storage: LocalStorage | S3Storage) -> None:
        self.storage = storage
        self._client: LocalStore | S3Store | None = None

    @property
    def root(self) -> str:
        """The root as a URI without a trailing slash: an absolute path, or `s3://bucket/prefix`."""
        if isinstance(self.storage, LocalStorage):
            return str(Path(self.storage.path).absolute())
        return f"s3://{self.storage.bucket}/{self.storage.prefix}".rstrip("/")

    def uri(self, key: str) -> str:
        """The key as a URI that DuckDB, Spark and people understand."""
        return f"{self.root}/{key}"

    def list(self, prefix: str = "", files: str = "*") -> tuple[LandedObject, ...]:
        """The objects below a folder, sorted by key; nothing outside the folder is asked for.

        Names that begin with `_` or `.` are left out, as Hive and Spark do with `_SUCCESS` and unfinished
        files, and so are folder markers.

        Args:
            prefix: folder below the root.
            files: pattern that the last part of the key must match.

        Raises:
            StorageError: the store is unreachable, refuses, or the bucket or root folder does not exist.
        """
        with self._errors():
            found = obstore.list(self._open(), prefix=prefix or None).collect()
        root = prefix.rstrip("/").count("/") + 1 if prefix else 0
        objects = (
            LandedObject(
                self.uri(meta["path"]),
                meta["path"],
                (meta["e_tag"] or "").strip('"'),
                meta["size"],
                meta["last_modified"],
            )
            for meta in found
            if _counts(meta["path"].split("/")[root:], files)
        )
        return tuple(sorted(objects, key=lambda o: o.key))

    def probe(self) -> bool:
        """Whether anything lies below the root: one request, however many objects there are.

        Raises:
            StorageError: as `list`.
        """
        with self._errors():
            return bool(next(iter(obstore.list(self._open(), chunk_size=1)), ()))

    def get(self, key: str, etag: str) -> obstore.Bytes:
        """The bytes of a whole object, by one request.

        Raises:
            SourceChangedError: the object is gone, or is not the one that was listed with this ETag.
            StorageError: the store is unreachable or refuses.
        """
        with self._errors():
            try:
                return obstore.get(self._open(), key, options={"if_match": f'"{etag}"'}).bytes()
            except (NotFoundError, FileNotFoundError, PreconditionError) as error:
                raise SourceChangedError(
                    f"the object {self.uri(key)} changed while its partition was being read:", "run it again."
                ) from error

    def delete(self, keys: tuple[str, ...]) -> None:
        """Remove objects; one that is gone already is no error.

        Raises:
            StorageError: the store is unreachable or refuses.
        """
        for key in keys:
            with self._errors():
                try:
                    obstore.delete(self._open(), key)
                except (NotFoundError, FileNotFoundError):
                    continue

    def _open(self) -> LocalStore | S3Store:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _connect(self) -> LocalStore | S3Store:
        if isinstance(self.storage, LocalStorage):
            if not Path(self.storage.path).is_dir():
                raise StorageError(
                    f"the folder {self.storage.path} does not exist:", "create it, or correct `path` in the config."
                )
            return LocalStore(self.storage.path)
        options = {
            "endpoint": self.storage.endpoint,
            "access_key_id": self.storage.key_id,
            "secret_access_key": self.storage.secret and self.storage.secret.get_secret_value(),
            "session_token": self.storage.session_token and self.storage.session_token.get_secret_value(),
        }
        return S3Store(
            self.storage.bucket,
            prefix=self.storage.prefix or None,
            region=self.storage.region,
            virtual_hosted_style_request=self.storage.endpoint is None,
            client_options={"allow_http": True, "connect_timeout": dt.timedelta(seconds=5)},
            retry_config=_RETRY,
            **{name: value for name, value in options.items() if value is not None},  # type: ignore[arg-type]
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What the store says, as one sentence that names it and the mend."""
        try:
            yield
        except (ObstoreError, OSError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> StorageError:
        # The client leaves S3's own code inside the text of most errors of a listing.
        code = _CODE.search(str(error))
        if isinstance(error, _REFUSED) or (code and code[1] in _REFUSED_CODES):
            return StorageError(
                f"{self.root} refuses access:", "check key_id and secret, or the role of the credential chain."
            )
        if isinstance(self.storage, S3Storage) and code and code[1] == "NoSuchBucket":
            return StorageError(
                f"the bucket {self.storage.bucket!r} does not exist at {self.storage.endpoint or 'AWS'}:",
                "create it, or correct `bucket` in the config.",
            )
        if isinstance(error, (NotFoundError, FileNotFoundError)):
            return StorageError(f"{self.root} vanished while it was being read:", "run it again.")
        return StorageError(f"{self.root} cannot be reached: {_first_line(error)}:", "check endpoint and network.")


def _counts(below: list[str], files: str) -> bool:
    """Whether an object, by the parts of its key below the listed folder, is data."""
    hidden = any(part.startswith(("_", ".")) and "=" not in part for part in below)
    return not hidden and fnmatch.fnmatchcase(below[-1], files)


def _first_line(error: Exception) -> str:
    """An error's first line, without the debug dump that follows in the client's messages."""
    return str(error).split("\n", 1)[0][:300].rstrip(".:")
