"""The outputs of a stream, which get every batch, and the upload of batches in a buffer: oldest first, each once."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread

from lake_assets.base.errors import LakeAssetsError, LandingError, StorageUnreachableError
from lake_assets.base.events import counting
from lake_assets.base.retrying import Limit, pause_around, pause_from, poll, retry
from lake_assets.config.sections import Landing
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.store import Store
from lake_assets.wings.land.buffer import Buffer, Pending, output_name

_REFUSALS = 10  # batches that an output refuses before the drain of it ends
_PAUSE = pause_around(0.5, 60.0)  # between tries of an output that is away
_DAY = 86_400.0
_BETWEEN_RETRIES = pause_from(0.2, 10.0)


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
        return retry(put, transient=StorageUnreachableError, limit=Limit(retries=retries), pause=_BETWEEN_RETRIES)

    def close(self) -> None:
        """End the threads when all submitted uploads have ended."""
        self._pool.shutdown()


def open_outputs(stream: StreamConfig, options: Landing) -> Sequence[Output]:
    """Return the stream's outputs in the order of the config. Nothing is connected yet.

    A web server is a LandingError.
    """
    if not stream.source.is_listable:
        raise LandingError(
            f"{stream.source.root} is a web server, to which nothing can be written:",
            "name the bucket or folder behind it as the stream's source.",
        )
    return [Output(Store(storage), options) for storage in options.outputs or (stream.source,)]


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of a drain, and the state of the buffer after it."""

    uploaded: int = 0
    pending: int = 0
    expired: int = 0
    """Pending batches whose retention has ended. They are kept."""
    oldest: float = 0.0
    """Seconds since the oldest pending batch was buffered."""
    deleted: int = 0
    """Batches that had arrived at all outputs, and whose retention had ended."""
    errors: tuple[str, ...] = ()
    """Errors of the outputs that lack a batch."""


def open_buffer(name: str, stream: StreamConfig) -> Buffer:
    """Return the stream's buffer, which may be that of an earlier name; raises LandingError without one."""
    if stream.landing is None or stream.landing.buffer is None:
        raise LandingError(f"the stream {name} has no buffer:", f"give streams.{name}.landing.buffer a path.")
    options = stream.landing.buffer
    root = Path(options.path)
    for earlier in stream.previously:
        if not (root / name).exists():
            with suppress(FileNotFoundError):  # it never had one, or another process has renamed it
                (root / earlier).rename(root / name)
    return Buffer(root / name, options.retention_days * _DAY)


def drain(name: str, stream: StreamConfig) -> Drained:
    """Upload the pending batches of a stream's buffer, oldest first, and delete those whose retention has ended.

    Each batch arrives once: its name never changes, and an upload writes only if the name is free. So a drain may be
    interrupted and repeated, and may run beside writers and other drains.
    """
    options = stream.landing or Landing()
    buffer = open_buffer(name, stream)
    outputs = open_outputs(stream, options)
    buffer.adopt([output.name for output in outputs])
    uploaded, errors = 0, []
    total = sum(len(buffer.pending(output.name)) for output in outputs)
    with counting(f"drain {name}", "uploads", total) as done:
        for output in outputs:
            try:
                arrived, failures = drain_output(buffer, output, on_arrival=done.advance)
            finally:
                output.close()
            uploaded += arrived
            errors += [str(error) for error in failures]
    known = {output.name for output in outputs}
    errors += [
        f"{len(lost)} batches are pending for {other}, which is no longer an output of {name}: put it back, or delete "
        f"{buffer.root / 'pending' / other}."
        for other in buffer.outputs()
        if other not in known and (lost := buffer.pending(other))
    ]
    return state_of(buffer, uploaded, buffer.expire(), tuple(dict.fromkeys(errors)))


def state_of(buffer: Buffer, uploaded: int = 0, deleted: int = 0, errors: tuple[str, ...] = ()) -> Drained:
    """Return the pending batches of a buffer now, with the result of a drain."""
    pending = [batch for output in buffer.outputs() for batch in buffer.pending(output)]
    return Drained(
        uploaded,
        len(pending),
        sum(map(buffer.is_expired, pending)),
        max((batch.age for batch in pending), default=0.0),
        deleted,
        errors,
    )


def drain_output(
    buffer: Buffer, output: Output, *, retries: int | None = None, on_arrival: Callable[[int], None] = lambda _: None
) -> tuple[int, list[LakeAssetsError]]:
    """Upload the pending batches of one output, until none is left or the output is away.

    `on_arrival` is called after each upload, with the number of batches that arrived by it. `retries` is as the
    storage's config says when None. Returns how many batches arrived, and the errors of the others.
    """
    uploaded = 0
    errors: list[LakeAssetsError] = []

    def finish(batch: Pending, upload: "Future[bool]") -> None:
        nonlocal uploaded
        arrived = _finish_upload(buffer, batch, upload, errors)
        uploaded += arrived
        on_arrival(arrived)

    while not errors and (batches := buffer.pending(output.name)):
        uploads: list[tuple[Pending, Future[bool]]] = []
        for batch in batches:
            if len(errors) >= _REFUSALS or any(isinstance(e, StorageUnreachableError) for e in errors):
                break
            uploads.append((batch, output.submit(batch.key, batch.path.read_bytes, retries=retries)))
            if len(uploads) > output.in_flight:
                finish(*uploads.pop(0))
        for batch, future in uploads:
            finish(batch, future)
    return uploaded, errors


def _finish_upload(buffer: Buffer, batch: Pending, future: "Future[bool]", errors: list[LakeAssetsError]) -> int:
    """Note the result of an upload; 1 if the batch arrived by it."""
    try:
        future.result()
        buffer.arrived(batch)
    except FileNotFoundError:  # another process was faster
        return 0
    except OSError as error:
        errors.append(
            LandingError(
                f"the buffered batch {batch.path} cannot be read: {error.strerror or error}:",
                "let this user read it, and drain again.",
            )
        )
        return 0
    except LakeAssetsError as error:
        errors.append(error)
        return 0
    return 1


class Uploader:
    """Drains a buffer to one output in the background while a writer is open.

    If the output is away, the uploader retries after pauses that grow from half a second to a minute.
    """

    def __init__(self, buffer: Buffer, output: Output) -> None:
        self._buffer = buffer
        self._output = output
        self._more = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"drain-{output.name}", daemon=True)
        self._more.set()  # what an earlier writer left
        self._thread.start()

    def notify(self) -> None:
        """Start an upload of the batches that are pending now."""
        self._more.set()

    def close(self) -> None:
        """Try once more to upload all batches; those that do not arrive stay pending."""
        self._closing.set()
        self._more.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._more.clear()  # before `closing` is read, which is set before `more` is
            if self._closing.is_set():
                self._drain()
                return
            poll(self._drain, pause=_PAUSE, stopped=self._closing)
            self._more.wait()

    def _drain(self) -> bool:
        """Upload the pending batches; returns whether nothing failed."""
        # `poll` repeats the whole drain, so a single upload need only survive a lost answer.
        _, errors = drain_output(self._buffer, self._output, retries=1)
        return not errors
