"""Staged files of a run: their folder, their encryption key, and the removal of those that a killed run left."""

import datetime as dt
import re
import secrets
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lake_assets.base.errors import StorageError
from lake_assets.config.storages import AnyStorage
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store

STAGING_FOLDER = "_staging/"  # below the staging storage's root; readers of data ignore this name

_STAGED = re.compile(r"_staging/[0-9a-f]{32}/[^/]+\.parquet")


class Staging:
    """The staged files of one run."""

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        self.folder = f"{STAGING_FOLDER}{uuid.uuid4().hex}/"  # key prefix of this run's files, ending in a slash
        self.key = secrets.token_bytes(16)  # encrypts the files; it exists only in the memory of this run and its tasks

    def clear(self) -> None:
        """Remove the staged files. Maintenance removes those that the store does not let go."""
        store = Store(self.storage)
        with suppress(StorageError):
            store.delete(tuple(obj.key for obj in store.list(self.folder)))
            store.abort_uploads(self.folder)
        if self.storage.is_local:
            for folder in (Path(store.root, self.folder), Path(store.root, STAGING_FOLDER)):
                with suppress(OSError):  # it does not exist, or another run uses it
                    folder.rmdir()


def leftovers(storage: AnyStorage, before: dt.datetime) -> Sequence[LandedObject]:
    """Return the staged files that are older than `before`: killed runs left them."""
    if storage.is_local and not Path(storage.root, STAGING_FOLDER).is_dir():
        return ()
    listed = Store(storage).list(STAGING_FOLDER)
    return [obj for obj in listed if obj.last_modified < before and _STAGED.fullmatch(obj.key)]
