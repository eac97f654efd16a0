"""The removal of the files that a failed attempt of a task has written, at once: a full storage must not stay full.

Every file has a name of its own attempt, and only names that the attempt itself made are removed. Where the removal
fails too, maintenance does it later.
"""

import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress

from lake_assets.config.storages import AnyStorage
from lake_assets.errors import StorageError
from lake_assets.storage.store import Store
from lake_assets.storage.uploads import abort_uploads


def discard(storage: AnyStorage, uris: Iterable[str]) -> None:
    """Remove files, as far as the store lets it."""
    store = Store(storage)
    with suppress(StorageError):
        store.delete(tuple(uri.removeprefix(f"{store.root}/") for uri in uris))


def discard_unfinished(storage: AnyStorage, uris: Sequence[str], error: BaseException) -> None:
    """Remove the files of a writer that failed, of which the last may not be whole; as far as the store lets it.

    Args:
        storage: where they are.
        uris: in the order in which they were begun.
        error: by which the writer failed.
    """
    if not uris:
        return
    _forget_sinks(error)
    discard(storage, uris)
    abort_uploads(storage, uris[-1].removeprefix(f"{storage.root}/"))


def _forget_sinks(error: BaseException) -> None:
    """Let go of the files that the functions an error came through have open: forgotten, each tries to close again.

    Later that would write an object which has been removed.
    """
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__
