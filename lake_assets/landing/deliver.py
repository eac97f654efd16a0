"""From a complete batch to the outputs: directly, or by way of the buffer."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore, Lock
from typing import Protocol

import pyarrow as pa

from lake_assets.landing.buffer import Buffer
from lake_assets.landing.drain import Uploader
from lake_assets.landing.outputs import Output

_ENCODERS = max(1, min(4, os.cpu_count() or 1))
_ON_THEIR_WAY = 16  # batches that are encoded or uploaded at a time, besides those in the buffer

Encode = Callable[[], pa.Buffer | bytes]


class _Way(Protocol):
    """What is done with an encoded batch."""

    def take(self, key: str, body: pa.Buffer | bytes) -> "Sequence[Future[bool]]":
        """Take a batch; it is safe when all of the futures are done."""

    def close(self) -> None:
        """Wait for what can be waited for."""


class Direct:
    """Batches go to all outputs at once, from memory."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs = outputs

    def take(self, key: str, body: pa.Buffer | bytes) -> "Sequence[Future[bool]]":
        """Start its uploads."""
        return [output.submit(key, body) for output in self._outputs]

    def close(self) -> None:
        """Wait for the uploads."""
        for output in self._outputs:
            output.close()


class Buffered:
    """Batches go to the buffer, and from there to the outputs in the background."""

    def __init__(self, buffer: Buffer, outputs: Sequence[Output]) -> None:
        self._buffer = buffer
        self._outputs = outputs
        buffer.adopt([output.name for output in outputs])
        self.uploaders = [Uploader(buffer, output) for output in outputs]

    def take(self, key: str, body: pa.Buffer | bytes) -> "Sequence[Future[bool]]":
        """Put it into the buffer, where it is safe at once."""
        self._buffer.put(key, body, [output.name for output in self._outputs])
        for uploader in self.uploaders:
            uploader.notify()
        return []

    def close(self) -> None:
        """Try once more to empty the buffer."""
        for uploader in self.uploaders:
            uploader.close()
        for output in self._outputs:
            output.close()


class Delivery:
    """Encodes batches and sends them on their way, some at a time.

    A batch that fails does not stop those that are on their way beside it; the first error is raised by the next call.
    """

    def __init__(self, way: _Way) -> None:
        self._way = way
        self._encoders = ThreadPoolExecutor(_ENCODERS, "land-encode")
        self._slots = BoundedSemaphore(_ON_THEIR_WAY)
        self._lock = Lock()
        self._flushing = Lock()
        self._error: BaseException | None = None
        self.bytes = 0
        """Bytes of the batches that have arrived, or are in the buffer."""
        self.files = 0
        """How many batches these are."""

    def send(self, key: str, encode: Encode, done: Callable[[], None]) -> None:
        """Send a batch; waits while too many are on their way.

        Args:
            key: its name at every output.
            encode: makes its bytes.
            done: called when it has arrived.

        Raises:
            LakeAssetsError: an earlier batch did not arrive.
        """
        self.check()
        self._slots.acquire()
        self._encoders.submit(self._deliver, key, encode, done)

    def check(self) -> None:
        """Raise what befell an earlier batch.

        Raises:
            LakeAssetsError: it did not arrive.
        """
        if self._error is not None:
            raise self._error

    def flush(self) -> None:
        """Wait until every batch has arrived, or is in the buffer.

        Raises:
            LakeAssetsError: one did not.
        """
        # Two that each held some of the slots would wait for each other for ever.
        with self._flushing:
            for _ in range(_ON_THEIR_WAY):
                self._slots.acquire()
            for _ in range(_ON_THEIR_WAY):
                self._slots.release()
        self.check()

    def close(self) -> None:
        """As `flush`, and end all threads.

        Raises:
            LakeAssetsError: a batch did not arrive.
        """
        self._encoders.shutdown()
        try:
            self.flush()
        finally:
            self._way.close()

    def _deliver(self, key: str, encode: Encode, done: Callable[[], None]) -> None:
        try:
            body = encode()
            futures = self._way.take(key, body)
        except BaseException as error:  # noqa: BLE001 - raised by the next call
            self._settle(error, 0, done)
            return
        left = len(futures)
        if not left:
            self._settle(None, len(body), done)
            return
        errors: list[BaseException] = []
        lock = Lock()

        def one(future: "Future[bool]") -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left == 0
                if (error := future.exception()) is not None:
                    errors.append(error)
            if last:
                self._settle(errors[0] if errors else None, len(body), done)

        for future in futures:
            future.add_done_callback(one)

    def _settle(self, error: BaseException | None, size: int, done: Callable[[], None]) -> None:
        with self._lock:
            if error is None:
                self.bytes += size
                self.files += 1
                done()
            else:
                self._error = self._error or error
        self._slots.release()
