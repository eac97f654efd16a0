"""Where batches go: one or several stores, each with its retries and its limit of uploads at a time."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa

from lake_assets.config.landing import Landing
from lake_assets.config.storages import LocalStorage, WebStorage
from lake_assets.config.streams import Stream
from lake_assets.errors import LandingError, StorageUnreachableError
from lake_assets.landing.buffer import output_name
from lake_assets.retrying import Limit, pause_from, retry
from lake_assets.storage.store import Store

_PAUSE = pause_from(0.2, 10.0)


class Output:
    """One store that gets every batch.

    Args:
        store: the store; the folder of a local one is made.
        options: the stream's.

    Raises:
        LandingError: a local folder cannot be made.
    """

    def __init__(self, store: Store, options: Landing) -> None:
        self.store = store
        self.name = output_name(store.root)
        self.in_flight = options.max_in_flight
        self._options = options
        self._pool = ThreadPoolExecutor(options.max_in_flight, f"land-{self.name}")
        if isinstance(store.storage, LocalStorage):
            try:
                Path(store.root).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LandingError(
                    f"the output {store.root} cannot be made: {error.strerror}:", "create it, or correct its path."
                ) from error

    def send(self, key: str, body: pa.Buffer | bytes, *, retries: int | None = None) -> bool:
        """Upload a batch under its name, whatever answers got lost on the way; see `Store.put_new`.

        Args:
            key: the batch's.
            body: its bytes, always the same for a key.
            retries: of errors that may pass, with capped exponential waits and jitter; the config's when None.

        Returns:
            Whether it was new; False if it had arrived before.

        Raises:
            StorageUnreachableError: it still failed after the retries.
            StorageError: the store refuses it.
        """
        limit = Limit(retries=self._options.retries if retries is None else retries)
        put = partial(self.store.put_new, key, bytes(body), multipart_above=self._options.multipart_threshold)
        return retry(put, passes=StorageUnreachableError, limit=limit, pause=_PAUSE)

    def submit(self, key: str, body: pa.Buffer | bytes) -> "Future[bool]":
        """`send` in the background, with as many others as `max_in_flight` says."""
        return self._pool.submit(self.send, key, body)

    def submit_file(self, key: str, path: Path, *, retries: int | None = None) -> "Future[bool]":
        """As `submit`, for a file that is read when its turn comes."""
        return self._pool.submit(lambda: self.send(key, path.read_bytes(), retries=retries))

    def close(self) -> None:
        """End the threads, when what was submitted is done."""
        self._pool.shutdown()


def open_outputs(stream: Stream, options: Landing) -> Sequence[Output]:
    """The stream's outputs, the primary first; nothing is connected yet.

    Raises:
        LandingError: a local folder cannot be made; or the stream's source is a web server, and there are no outputs.
    """
    if not options.outputs and isinstance(stream.source, WebStorage):
        raise LandingError(
            f"{stream.source.root} is a web server, to which nothing can be written:",
            "name a folder or bucket in `landing.outputs`.",
        )
    return [Output(Store(storage), options) for storage in options.outputs or (stream.source,)]
