"""A line about a storage or a catalog's server that does not answer, which a command prints while it waits for it."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from lake_assets.cli.terminal import info

if TYPE_CHECKING:
    from lake_assets.storage.retry_window import Server

SILENCE = 10.0  # seconds without an answer, after which the line is printed
ASKED = SILENCE / 2  # seconds of a use of a storage, after which it is asked for a sign of life


@contextmanager
def silent_storages() -> Iterator[None]:
    """Print a line for each storage and server that the block uses, and that does not answer for ten seconds."""
    from lake_assets.storage.retry_window import watching

    waiting = _Waiting()
    try:
        with watching(waiting.using):
            yield
    finally:
        waiting.end()


class _Waiting:
    """The uses of servers that have not ended. A use may take long; only a server that is silent is named."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._uses: dict[object, tuple[Sequence[Server], float]] = {}
        self._next: dict[str, float] = {}  # when a server may be asked again, by its name; never if it was named
        self._has_ended = Event()
        self._thread: Thread | None = None

    @contextmanager
    def using(self, servers: "Sequence[Server]") -> Iterator[None]:
        use = object()
        with self._lock:
            self._uses[use] = (servers, time.monotonic())
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
                long = [server for of_use, at in self._uses.values() if now - at >= ASKED for server in of_use]
                due = {name: server for server in long if self._next.get(name := _name(server), now) <= now}
                self._next |= dict.fromkeys(due, math.inf)
            for name, server in due.items():
                Thread(target=self._ask, args=(name, server), daemon=True).start()

    def _ask(self, name: str, server: "Server") -> None:
        from lake_assets.config.catalogs import PostgresCatalog
        from lake_assets.lake.postgres import REACH_FIX
        from lake_assets.storage.storage_errors import reach_fix

        answered = Event()
        Thread(target=_answers, args=(server, answered), daemon=True).start()
        if answered.wait(SILENCE - ASKED):
            with self._lock:
                self._next[name] = time.monotonic() + SILENCE
            return
        with self._lock:
            in_use = any(name == _name(used) for of_use, _ in self._uses.values() for used in of_use)
        if in_use and not self._has_ended.is_set():
            to_do = REACH_FIX if isinstance(server, PostgresCatalog) else reach_fix(server)
            info(f"{name} has not answered for {SILENCE:g} seconds: {to_do}", err=True)


def _name(server: "Server") -> str:
    from lake_assets.config.catalogs import PostgresCatalog
    from lake_assets.lake import postgres
    from lake_assets.storage.storage_errors import location

    return f"the catalog {postgres.location(server)}" if isinstance(server, PostgresCatalog) else location(server)


def _answers(server: "Server", answered: Event) -> None:
    """Set the event if the server answers, also by a refusal."""
    from lake_assets.config.catalogs import PostgresCatalog
    from lake_assets.errors import CatalogError
    from lake_assets.lake import postgres
    from lake_assets.storage.probes import is_alive

    if isinstance(server, PostgresCatalog):
        with suppress(CatalogError):
            postgres.connect(server).close()
        answered.set()
    elif is_alive(server, SILENCE - ASKED):
        answered.set()
