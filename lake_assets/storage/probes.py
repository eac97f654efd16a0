"""Whether a storage can be read and written, for `lake-assets doctor`."""

import uuid
from contextlib import suppress

from lake_assets.errors import SourceChangedError, StorageError
from lake_assets.storage.store import Store


def probe_reading(store: Store) -> bool:
    """Return whether an object is below the root, and read a byte of it: listing and reading are two rights."""
    found = store.probe()
    if found is None:
        return False
    try:
        store.find(found.key)
        if found.size:
            with suppress(SourceChangedError):  # it was replaced or removed meanwhile, and not refused
                store.get_range(found.key, found.etag, 0, 1)
    except StorageError as error:
        raise StorageError(f"{found.uri} is listed and cannot be read: {error.problem}", error.hint) from error
    return True


def probe_writing(store: Store) -> None:
    """Write an object below the root under a name that readers ignore, and remove it."""
    key = f"_probe-{uuid.uuid4().hex}"
    try:
        store.put_new(key, b"probe")
    except StorageError as error:
        raise StorageError(f"{store.root} cannot be written to: {error.problem}", error.hint) from error
    try:
        store.delete((key,))
    except StorageError as error:
        raise StorageError(
            f"{store.root} cannot be deleted from, and {store.uri(key)} is left there: {error.problem}", error.hint
        ) from error
