"""One object store, seen from the driver: listing with ETags, probing, deleting; local folders and S3 alike."""

import datetime as dt
import fnmatch
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.exceptions import NotFoundError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, S3Store

from lake_assets.config.models import LocalStorage, S3Storage
from lake_assets.errors import StorageError

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
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise StorageError(
                f"{self.root} refuses access:", "check key_id and secret, or the role of the credential chain."
            ) from error
        except (NotFoundError, FileNotFoundError) as error:
            if isinstance(self.storage, S3Storage):
                raise StorageError(
                    f"the bucket {self.storage.bucket!r} does not exist at {self.storage.endpoint or 'AWS'}:",
                    "create it, or correct `bucket` in the config.",
                ) from error
            raise StorageError(f"{self.root} has vanished while it was read: {error}.") from error
        except (ObstoreError, OSError) as error:
            raise StorageError(
                f"{self.root} cannot be reached: {_first_line(error)}:", "check endpoint and network."
            ) from error


def _counts(below: list[str], files: str) -> bool:
    """Whether an object, by the parts of its key below the listed folder, is data."""
    hidden = any(part.startswith(("_", ".")) and "=" not in part for part in below)
    return not hidden and fnmatch.fnmatchcase(below[-1], files)


def _first_line(error: Exception) -> str:
    """An error's first line, without the debug dump that follows in the client's messages."""
    return str(error).split("\n", 1)[0][:300].rstrip(".:")
