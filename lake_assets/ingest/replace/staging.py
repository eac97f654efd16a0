"""The place of staged files: a folder that is one run's alone, the key that only it has, and what killed runs left."""

import datetime as dt
import re
import secrets
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.errors import StorageError
from lake_assets.storage.store import LandedObject, Store
from lake_assets.storage.uploads import abort_uploads

FOLDER = "_staging/"  # below the staging storage's root; a name that no reader takes for data

_STAGED = re.compile(r"_staging/[0-9a-f]{32}/[^/]+\.parquet")


class Staging:
    """Where one run stages its files.

    Attributes:
        storage: where they are.
        folder: key prefix of this run alone, ending in a slash.
        key: under which they are encrypted; it is in the memory of this run and its tasks, and nowhere else.
    """

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        self.folder = f"{FOLDER}{uuid.uuid4().hex}/"
        self.key = secrets.token_bytes(16)

    def clear(self) -> None:
        """Remove what has been staged so far, as far as the store lets it: maintenance removes the rest."""
        store = Store(self.storage)
        with suppress(StorageError):
            store.delete(tuple(o.key for o in store.list(self.folder)))
            abort_uploads(self.storage, self.folder)
        if isinstance(self.storage, LocalStorage):
            for folder in (Path(store.root, self.folder), Path(store.root, FOLDER)):
                with suppress(OSError):  # not made, or another run is at work in it
                    folder.rmdir()


def leftovers(storage: AnyStorage, before: dt.datetime) -> Sequence[LandedObject]:
    """The staged files of before that time: those of runs that were killed.

    Raises:
        StorageError: the store is unreachable or refuses.
    """
    if isinstance(storage, LocalStorage) and not Path(storage.path, FOLDER).is_dir():
        return ()
    listed = Store(storage).list(FOLDER)
    return [o for o in listed if o.last_modified < before and _STAGED.fullmatch(o.key)]
