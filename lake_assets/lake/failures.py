"""Errors of DuckDB and of the catalogs' drivers, as errors of this package."""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import duckdb

from lake_assets.base.errors import (
    CatalogError,
    CatalogLockedError,
    LakeAssetsError,
    LakeUnreachableError,
    StorageUnreachableError,
)
from lake_assets.config.lake import Lake
from lake_assets.config.secrets import mask_error
from lake_assets.config.storages import AnyStorage
from lake_assets.lake.attach import chained
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.backends.database_backend import WHO_LOCKS
from lake_assets.lake.database_errors import Fault, fault_texts, matches
from lake_assets.storage.server_answers import Meaning as StorageMeaning
from lake_assets.storage.server_answers import meaning_of
from lake_assets.storage.storage_errors import Operation, StorageRequest, no_credentials, storage_error

_ROOM = 2**20  # bytes of a disk; with fewer, SQLite's I/O error means that it is full
# Where DuckDB names what it has asked for, the server of a bucket of AWS, and a request that writes.
_REQUEST = re.compile(
    r"(?:reading '|to URL |HTTP [A-Z]+ to '|glob \"|open file '|Read to '?)(.+?)(?:' in region|: |'|\"| failed)"
)
_HOST = re.compile(r"^(.+?)\.s3[.-][^/]*")
_WRITTEN = re.compile(r"\bto URL |HTTP (?:PUT|POST) ")
_NOT_WRITTEN = re.compile(r'file "([^"]+)": No space left on device')

OVERTAKEN = "Transaction conflict: another writer was faster"  # in DuckDB's words, by which a conflict is known


def is_conflict(error: BaseException) -> bool:
    """Return whether the error, or the driver's error that caused it, is a conflict between writers."""
    cause = error.__cause__ if isinstance(error, CatalogError) else error
    known = isinstance(error, (CatalogError, duckdb.Error)) and cause is not None
    return known and (matches(cause, Fault.CONFLICT) or matches(cause, Fault.LOCKED))


def is_locked(error: BaseException) -> bool:
    """Return whether another process has locked the catalog's file, or a table of the catalog."""
    return matches(error.__cause__ or error, Fault.LOCKED)


def storage_failure(error: duckdb.Error, storages: Iterable[AnyStorage]) -> LakeAssetsError | None:
    """Return the error of a storage that did not answer DuckDB, or not as asked; None if it is not the cause.

    An object that does not exist is a fault of the catalog's.
    """
    means = meaning_of(error) if isinstance(error, (duckdb.HTTPException, duckdb.IOException)) else None
    if means in (None, StorageMeaning.NOT_FOUND):
        return None
    text = str(error)
    storage, key = _asked(text, storages)
    if storage is None:  # of a server that a statement names
        problem = f"a storage cannot be reached or fails: {one_line(text)}:"
        is_away = means is StorageMeaning.TRANSIENT
        return LakeUnreachableError(problem, "run it again when it answers.") if is_away else None
    operation: Operation = "write" if _WRITTEN.search(text) else "read" if key else "list"
    ours = storage_error(error, StorageRequest(storage, operation, f"{storage.root}/{key}" if key else None))
    if isinstance(ours, StorageUnreachableError):
        return LakeUnreachableError(ours.problem, ours.hint)
    return ours


def _asked(text: str, storages: Iterable[AnyStorage]) -> tuple[AnyStorage | None, str]:
    """Return which storage DuckDB has asked, by the text of its error, and for which key; of a listing it is empty."""
    named = _REQUEST.search(text)
    scheme, _, path = (named[1] if named else "").partition("://")
    if scheme.startswith("http"):  # with a server before the bucket, or the bucket in the server's name
        path = _HOST.sub(r"\1", unquote(path))
    for storage in sorted(storages, key=lambda storage: len(storage.root), reverse=True):
        before, root, key = f"{path}/".partition(f"{storage.root.partition('://')[2]}/")
        is_above = f"{storage.root}/".partition("://")[2].startswith(before)  # a listing is of the bucket
        if not storage.is_local and (root or (before and is_above)):
            return storage, "" if "*" in key else key.rstrip("/")
    return None, ""


@contextmanager
def translated(config: Lake) -> Iterator[None]:
    """Raise DuckDB's errors as `CatalogError`, in one paragraph and without the secrets of the config.

    Raises StorageError if the credential chain of a storage has no credentials.
    """
    try:
        yield
    except duckdb.Error as error:
        error.args = (without_statement(error),)
        mask_error(error, config.catalog, *config.storages)
        raise (outer_error(error, config) or catalog_error(error, config)) from error


def outer_error(error: duckdb.Error, config: Lake) -> LakeAssetsError | None:
    """Return the error for a storage or server that is away or refuses; None if the statement is at fault."""
    if matches(error, Fault.NO_CREDENTIALS):
        return no_credentials(*chained(config))
    if failed := storage_failure(error, config.storages):
        return failed
    return catalog_backend(config).connection_error(error)


def catalog_error(error: Exception, config: Lake) -> CatalogError:
    """Return the error for what DuckDB or a driver says of a catalog, with the hint that fits it."""
    text, location = str(error), config.catalog.location
    if (failed := catalog_backend(config).connection_error(error)) is not None:
        return failed
    if is_locked(error):
        return CatalogLockedError(
            f"the catalog {location} is locked by another process, and says: {one_line(text)}:", WHO_LOCKS
        )
    if (full := _no_space(text, config)) is not None:
        return full
    for rejection in fault_texts(Fault.REJECTED):
        if match := re.search(rejection.pattern, text):
            # The rest of the text may be a statement with thousands of columns.
            return CatalogError(f"the catalog {location} says: {one_line(match[0])}:", rejection.advice)
    return CatalogError(
        f"the catalog {location} says: {one_line(text)}:",
        "correct the statement. `lake-assets doctor` tests catalog and storage.",
    )


def _no_space(text: str, config: Lake) -> CatalogError | None:
    """Return the error for a full disk, with the folder that is on it; None for another error."""
    file, retry = config.catalog.file, "and run it again."
    folder = None if file is None else file.absolute().parent
    is_full = matches(text, Fault.FULL)
    if not is_full and folder is not None and matches(text, Fault.IO_ERROR):
        is_full = shutil.disk_usage(folder).free < _ROOM
    if not is_full:
        return None
    unwritten = _NOT_WRITTEN.search(text)
    if unwritten is not None and unwritten[1].startswith(config.data_path):
        return CatalogError(
            f"the folder {config.data_path} has no space left: {unwritten[1]} was not written:",
            f"free space there, or move the storage to a larger disk or quota, {retry}",
        )
    if folder is not None:
        return CatalogError(
            f"the folder {folder} of the catalog {config.catalog.location} has no space left:",
            f"free space there, or move the catalog to a larger disk or quota, {retry}",
        )
    return CatalogError(
        f"the server of the catalog {config.catalog.location} has no space left, and says: {one_line(text)}:",
        f"free space on the disk of its data, {retry}",
    )


def without_statement(error: duckdb.Error) -> str:
    """Return the text of an error without the part of the statement that DuckDB quotes, which may contain a secret."""
    return str(error).split("\n\nLINE ")[0]


def one_line(text: str, limit: int = 1000) -> str:
    """Return the text in one line of at most `limit` characters, without a full stop."""
    return " ".join(text.split())[:limit].rstrip(".")
