"""Delivery of complete batches to the outputs, directly or through the buffer."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore, Lock

import pyarrow as pa

from lake_assets.base.errors import StorageUnreachableError
from lake_assets.base.machine import usable_cores
from lake_assets.wings.land.buffer import Buffer
from lake_assets.wings.land.drain import Output, Uploader

_ENCODERS = max(1, min(4, usable_cores()))
_IN_PROGRESS = 16  # batches that are encoded or uploaded at a time, besides those in the buffer

Encode = Callable[[], pa.Buffer | bytes]
OnArrival = Callable[[Sequence[str], int], None]
"""Called when a batch is at all outputs or in the buffer, with no roots; else with those of the outputs that have it.

The second argument is its size in bytes.
"""


class Delivery:
    """Encodes batches in the background, and uploads them or puts them into the buffer.

    A batch that fails does not stop the others; the next call raises the first error. In the buffer batches are safe at
    once, and are uploaded from there; without one, from memory.
    """

    def __init__(self, outputs: Sequence[Output], files: str, buffer: Buffer | None = None) -> None:
        self._outputs = outputs
        self._files = files
        self._names = [output.name for output in outputs]
        self._buffer = buffer
        self._uploaders: list[Uploader] = []
        if buffer is not None:
            buffer.adopt(self._names)
            self._uploaders = [Uploader(buffer, output) for output in outputs]
        self._encoders = ThreadPoolExecutor(_ENCODERS, "land-encode")
        self._slots = BoundedSemaphore(_IN_PROGRESS)
        self._lock = Lock()
        self._flushing = Lock()
        self._error: BaseException | None = None

    def send(self, key: str, encode: Encode, on_arrival: OnArrival) -> None:
        """Send a batch. The call blocks while too many batches are in progress.

        Raises the error of an earlier batch that did not arrive. `on_arrival` is not called if no output has the batch.
        """
        self.check()
        self._slots.acquire()
        self._encoders.submit(self._deliver, key, encode, on_arrival)

    def check(self) -> None:
        """Raise the error of an earlier batch."""
        if self._error is not None:
            raise self._error

    def flush(self) -> None:
        """Block until every batch has arrived, or is in the buffer. Raises the error of one that did not."""
        # Two threads that each held some of the slots would block each other.
        with self._flushing:
            for _ in range(_IN_PROGRESS):
                self._slots.acquire()
            for _ in range(_IN_PROGRESS):
                self._slots.release()
        self.check()

    def close(self) -> None:
        """Flush; then try once more to empty the buffer, and end all threads.

        Raises the error of a batch that did not arrive.
        """
        self._encoders.shutdown()
        try:
            self.flush()
        finally:
            for uploader in self._uploaders:
                uploader.close()
            for output in self._outputs:
                output.close()

    def _deliver(self, key: str, encode: Encode, on_arrival: OnArrival) -> None:
        try:
            body = encode()
            uploads = self._store(key, body)
        except BaseException as error:  # noqa: BLE001 - raised by the next call
            self._finish([error], [], 0, on_arrival)
            return
        if not uploads:
            self._finish([], [], len(body), on_arrival)
        errors, reached, lock = list[BaseException](), list[str](), Lock()

        def count_down(upload: "Future[bool]", root: str) -> None:
            with lock:
                if (error := upload.exception()) is not None:
                    errors.append(error)
                else:
                    reached.append(root)
                is_last = len(errors) + len(reached) == len(uploads)
            if is_last:
                self._finish(errors, reached, len(body), on_arrival)

        for output, upload in zip(self._outputs, uploads, strict=True) if uploads else ():
            upload.add_done_callback(partial(count_down, root=output.store.root))

    def _store(self, key: str, body: pa.Buffer | bytes) -> "list[Future[bool]]":
        """Put a batch into the buffer, or start its uploads; it is safe when these are done."""
        if self._buffer is None:
            return [output.submit(key, lambda: bytes(body)) for output in self._outputs]
        self._buffer.put(key, body, self._names)
        for uploader in self._uploaders:
            uploader.notify()
        return []

    def _finish(
        self, errors: Sequence[BaseException], reached: Sequence[str], size: int, on_arrival: OnArrival
    ) -> None:
        with self._lock:
            if not errors or reached:
                on_arrival(tuple(sorted(reached)) if errors else (), size)
            if errors:
                self._error = self._error or self._away(errors[0])
        self._slots.release()

    def _away(self, error: BaseException) -> BaseException:
        """Return the error of an upload, which must not advise to land the same records again without a word."""
        if not isinstance(error, StorageUnreachableError):
            return error
        return StorageUnreachableError(
            error.problem,
            "start it, or correct it in the config. Delete the files "
            f"{self._files}, which have arrived, before you land their records again. A `landing.buffer` keeps records "
            "while an output is away.",
        )
