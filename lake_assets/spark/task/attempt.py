"""Removal of the files of a failed attempt of a task, at once, so that a full storage does not stay full.

The name of a file belongs to one attempt, and an attempt removes only its own files. If the removal fails too,
maintenance removes them later.
"""

from collections.abc import Iterable, Sequence

from lake_assets.base.errors import StorageError, StorageUnreachableError, release_frames
from lake_assets.config.storages import AnyStorage
from lake_assets.storage.store import Store


def discard(storage: AnyStorage, uris: Iterable[str]) -> bool:
    """Remove files, as far as the store allows; False if it cannot be reached."""
    store = Store(storage)
    try:
        store.delete(tuple(uri.removeprefix(f"{store.root}/") for uri in uris))
    except StorageUnreachableError:
        return False
    except StorageError:
        return True
    return True


def discard_unfinished(storage: AnyStorage, uris: Sequence[str], error: BaseException) -> None:
    """Remove the files of a writer that failed with this error; the last of them may be unfinished."""
    if not uris:
        return
    release_frames(error)  # a file that is closed later would write an object which has been removed
    if discard(storage, uris):
        Store(storage).abort_uploads(uris[-1].removeprefix(f"{storage.root}/"))
