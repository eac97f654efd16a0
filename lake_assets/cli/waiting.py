"""A line about a storage that does not answer, which a command prints while it waits for it."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from lake_assets.cli.terminal import tell
from lake_assets.storage.patience import watching

if TYPE_CHECKING:
    from lake_assets.config.storages import AnyStorage

SILENCE = 10.0  # seconds without an answer, after which the line is printed
ASKED = SILENCE / 2  # seconds of a use of a storage, after which it is asked for a sign of life


@contextmanager
def silent_storages() -> Iterator[None]:
    """Print a line for each storage that the block uses, and that does not answer for ten seconds."""
    waiting = _Waiting()
    try:
        with watching(waiting.using):
            yield
    finally:
        waiting.end()


class _Waiting:
    """The uses of storages that have not ended. A use may take long; only a storage that is silent is named."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._uses: dict[object, tuple[Sequence[AnyStorage], float]] = {}
        self._next: dict[str, float] = {}  # when a storage may be asked again, by its root; never if it was named
        self._has_ended = Event()
        self._thread: Thread | None = None

    @contextmanager
    def using(self, storages: "Sequence[AnyStorage]") -> Iterator[None]:
        use = object()
        with self._lock:
            self._uses[use] = (storages, time.monotonic())
            if self._thread is None:
                self._thread = Thread(target=self._watch, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._uses.pop(use, None)

    def end(self) -> None:
        """Print no more lines."""
        self._has_ended.set()

    def _watch(self) -> None:
        while not self._has_ended.wait(0.5):
            with self._lock:
                now = time.monotonic()
                long = [storages for storages, since in self._uses.values() if now - since >= ASKED]
                storages = {storage.root: storage for of_use in long for storage in of_use}
                due = [storage for root, storage in storages.items() if self._next.get(root, now) <= now]
                self._next |= {storage.root: math.inf for storage in due}
            for storage in due:
                Thread(target=self._ask, args=(storage,), daemon=True).start()

    def _ask(self, storage: "AnyStorage") -> None:
        from lake_assets.storage.failures import location, reach_fix

        answered = Event()
        Thread(target=_answers, args=(storage, answered), daemon=True).start()
        if answered.wait(SILENCE - ASKED):
            with self._lock:
                self._next[storage.root] = time.monotonic() + SILENCE
            return
        with self._lock:
            in_use = any(storage.root == used.root for used_by, _ in self._uses.values() for used in used_by)
        if in_use and not self._has_ended.is_set():
            tell(f"{location(storage)} has not answered for {SILENCE:g} seconds: {reach_fix(storage)}", err=True)


def _answers(storage: "AnyStorage", answered: Event) -> None:
    """Set the event if the storage answers, also by a refusal."""
    from lake_assets.storage.probes import is_alive

    if is_alive(storage, SILENCE - ASKED):
        answered.set()
