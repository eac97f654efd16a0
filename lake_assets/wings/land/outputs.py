"""The outputs of a stream: stores that get every batch, each with its own retries and limit of uploads."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lake_assets.base.errors import LandingError, StorageUnreachableError
from lake_assets.base.retrying import Limit, pause_from, retry
from lake_assets.config.sections import Landing
from lake_assets.config.streams import Stream
from lake_assets.storage.store import Store
from lake_assets.wings.land.buffer import output_name

_PAUSE = pause_from(0.2, 10.0)


class Output:
    """One store that gets every batch."""

    def __init__(self, store: Store, options: Landing) -> None:
        self.store = store
        self.name = output_name(store.root)
        self.in_flight = options.max_in_flight
        self._options = options
        self._pool = ThreadPoolExecutor(options.max_in_flight, f"land-{self.name}")
        if store.storage.is_local:
            try:
                Path(store.root).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LandingError(
                    f"the output {store.root} cannot be made: {error.strerror}:",
                    "create this folder, or correct its path in the config.",
                ) from error

    def submit(self, key: str, read: Callable[[], bytes], *, retries: int | None = None) -> "Future[bool]":
        """Upload a batch in the background under its name; see `Store.put_new`. False if it had arrived before.

        A batch arrives once, even if the answer to an upload is lost. `max_in_flight` uploads run at a time. `read`
        gives its bytes when its upload begins, always the same for a key. `retries` are of transient errors, with
        capped exponential pauses and jitter; the config's when None. The future raises StorageUnreachableError after
        them, StorageError if the store refuses the batch, and any error of `read`.
        """
        return self._pool.submit(self._send, key, read, self._options.retries if retries is None else retries)

    def _send(self, key: str, read: Callable[[], bytes], retries: int) -> bool:
        put = partial(self.store.put_new, key, read(), multipart_above=self._options.multipart_threshold)
        return retry(put, transient=StorageUnreachableError, limit=Limit(retries=retries), pause=_PAUSE)

    def close(self) -> None:
        """End the threads when all submitted uploads have ended."""
        self._pool.shutdown()


def open_outputs(stream: Stream, options: Landing) -> Sequence[Output]:
    """Return the stream's outputs in the order of the config. Nothing is connected yet.

    A web server is a LandingError.
    """
    if not stream.source.is_listable:
        raise LandingError(
            f"{stream.source.root} is a web server, to which nothing can be written:",
            "name the bucket or folder behind it as the stream's source.",
        )
    return [Output(Store(storage), options) for storage in options.outputs or (stream.source,)]
