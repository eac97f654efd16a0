"""How requests reach one object store: its client, the retries of what may be done twice, and errors as ours."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.exceptions import InvalidPathError, NotFoundError, PermissionDeniedError, UnauthenticatedError

from lake_assets.config.secrets import mask_error
from lake_assets.config.storages import AnyStorage, AzureStorage, LocalStorage
from lake_assets.errors import AbsentStorageError, LakeAssetsError, SourceError, StorageError, StorageUnreachableError
from lake_assets.escapes import visible_name
from lake_assets.retrying import Result, retry
from lake_assets.storage import failures, local
from lake_assets.storage.clients import Client, as_obstore
from lake_assets.storage.failures import Operation, access_fix, location, reason
from lake_assets.storage.manifest import LandedObject, landed_object
from lake_assets.storage.retry_window import once, pauses, retries, using
from lake_assets.storage.vendor_errors import Meaning, code_of, find


class Access:
    """The client of a storage, made at its first request, and its errors with the object, the cause and the fix."""

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        self._client: Client | None = None
        self._once: Client | None = None  # sends each request once

    @property
    def root(self) -> str:
        """The root as a URI without a trailing slash: an absolute path, or of the form `s3://bucket/prefix`."""
        return self.storage.root

    def uri(self, key: str) -> str:
        """Return the key as a URI that DuckDB, Spark and people understand."""
        return f"{self.root}/{key}"

    def probe(self) -> LandedObject | None:
        """Return an object below the root, hidden or not, by one request; None if there is none.

        Raises:
            StorageError: as `Store.list`.
        """
        with self._errors("list"):
            page = next(iter(obstore.list(self._open(), chunk_size=1)), ())
        return landed_object(self.root, page[0]) if page else None

    def _listed(self, work: Callable[[], Result], prefix: str) -> Result:
        """The result of a listing, which is repeated if an answer breaks off; obstore's client does not retry that."""

        def attempt() -> Result:
            with self._errors("list", folder=prefix):
                return work()

        if isinstance(self.storage, LocalStorage):
            return attempt()
        limits = self.storage.requests
        return retry(attempt, passes=_has_broken_off, limit=retries(limits), pause=pauses(limits))

    def _retried(self, operation: Operation, work: Callable[[Client], object], key: str | None = None) -> None:
        """Do what may be done twice, with the storage's retries and pauses.

        obstore's client sends a deletion once if the connection breaks, because the object may be gone then.
        """
        if isinstance(self.storage, LocalStorage):
            with self._errors(operation, key):
                work(self._open())
            return
        if self._once is None:
            with self._errors(operation, key):
                self._once = _made(once(self.storage))
        opened = self._once

        def attempt() -> None:
            with self._errors(operation, key):
                work(opened)

        limits = self.storage.requests
        retry(attempt, passes=StorageUnreachableError, limit=retries(limits), pause=pauses(limits))

    def _open(self) -> Client:
        if self._client is None:
            if isinstance(self.storage, LocalStorage) and not Path(self.storage.path).is_dir():
                raise AbsentStorageError(
                    f"the folder {self.storage.path} does not exist:", "create it, or correct `path` in the config."
                )
            self._client = _made(self.storage)
        return self._client

    @contextmanager
    def _errors(self, operation: Operation, key: str | None = None, folder: str = "") -> Iterator[None]:
        """Raise the store's errors as ours, with the object of the key or the folder."""
        try:
            with using(self.storage):
                yield
        except (ObstoreError, OSError, ValueError) as error:
            mask_error(error, self.storage)
            if (odd := odd_name(error, self.root, None if key is None else self.uri(key))) is not None:
                raise odd from error
            if isinstance(error, ValueError) and not isinstance(error, ObstoreError):
                raise
            uri = None if key is None else self.uri(key)
            raise client_error(error, self.storage, operation, uri, lambda: self._refusing(folder)) from error

    def _refusing(self, folder: str) -> str:
        """The URI that cannot be listed: this folder alone, or the whole store, for one error of all its folders."""
        if folder:
            with suppress(StorageError):
                self.probe()
                return self.uri(folder)
        return self.root


def _made(storage: AnyStorage) -> Client:
    """Return the client of a storage.

    Raises:
        StorageError: there are no credentials, or the client refuses the config, such as an absent key file.
    """
    try:
        return as_obstore(storage)
    except ObstoreError as error:
        mask_error(error, storage)
        raise StorageError(f"{location(storage)} cannot be used: {reason(error)}:", access_fix(storage)) from error


def _has_broken_off(error: BaseException) -> bool:
    return isinstance(error, StorageUnreachableError) and find(error, Meaning.BROKEN_OFF) is not None


_REFUSALS = (PermissionDeniedError, UnauthenticatedError, PermissionError)


# The client checks a key when it gets one, and in the answer to a listing.
_ODD_NAME = re.compile(r'Error parsing Path "([^"]*)"', re.DOTALL)


def odd_name(error: Exception, root: str, uri: str | None) -> LakeAssetsError | None:
    """Return the error for an object whose name the client does not accept, such as one with control characters.

    Args:
        error: of the client.
        root: of the storage.
        uri: of the object; None if it was listed.

    Returns:
        A `SourceError` for one object, which `on_bad_object` may leave out; None for another error.
    """
    if not isinstance(error, (InvalidPathError, ValueError)) or (match := _ODD_NAME.search(str(error))) is None:
        return None
    kind, name = (StorageError, f"{root}/{match[1].lstrip('/')}") if uri is None else (SourceError, uri)
    return kind(f"the object {visible_name(name)} has a control character in its name:", "rename it or remove it.")


def client_error(
    error: Exception, storage: AnyStorage, operation: Operation, uri: str | None, refusing: Callable[[], str]
) -> StorageError:
    """Return the error of ours for one of the client or of the operating system.

    Args:
        error: without secrets.
        storage: of the failed operation.
        operation: that failed.
        uri: of its object; None if the operation was on the storage, or on a folder in it.
        refusing: returns the URI of the storage or folder that refuses access; it may send a request.
    """
    if isinstance(storage, LocalStorage) and (refusal := local.refusal(error)):
        return refusal
    # Where the store gives a code, the code decides: a clock that is wrong is a 403 too.
    text = code_of(error) or str(error)
    if isinstance(error, UnauthenticatedError) or find(text, Meaning.WRONG_KEY):
        return StorageError(f"{storage.root} refuses access:", failures.access_fix(storage))
    if isinstance(error, _REFUSALS) or find(text, Meaning.REFUSED):
        if uri is None:
            return StorageError(f"{refusing()} refuses access:", failures.access_fix(storage, operation))
        return failures.refused_object(storage, uri, operation)
    if find(text, Meaning.ABSENT):
        kind = "container" if isinstance(storage, AzureStorage) else "bucket"
        return AbsentStorageError(
            f"the {kind} {storage.root.split('/')[2]!r} does not exist at {failures.server_of(storage)}:",
            f"create it, or correct `{kind}` in the config.",
        )
    if isinstance(error, (NotFoundError, FileNotFoundError)):
        return StorageError(f"{storage.root} was removed while it was read:", "run it again.")
    return failures.no_answer(error, storage, f"{uri} was not read" if uri and operation == "read" else None)
