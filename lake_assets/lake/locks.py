"""The locks of a lake: that of its commits, for speed, and that of its files, which maintenance deletes.

DuckLake numbers its snapshots, so one of two overlapping commits must be retried. Waiting for the commit lock is
cheaper. The catalog guarantees correctness: a writer without that lock causes a conflict, never mixed rows.

A commit looks for its new files before it waits for the commit lock, so that no writer waits for the storage of
another. From that look to its end it shares the files lock, which the removal of files without a commit takes alone. So
no file vanishes between the look and the commit, however old it is, and however wrong the clocks of machines are.

A lock ends with its process.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lake_assets.base.errors import CatalogError, CatalogLockedError
from lake_assets.base.retrying import Limit, pause_between, poll

TIMEOUT = 600.0  # seconds; a commit takes well under one
BUSY = 60.0  # seconds that a writer without the lake's lock may hold a catalog
WHO_LOCKS = "run it again when that one has ended: `fuser` on the catalog's file names it, or pg_locks in PostgreSQL."

_UNLOCKED = threading.RLock()  # of threads that read catalogs beside which they can open no lock file


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock of a lake: an advisory one of a PostgreSQL catalog, a file beside a file catalog."""

    name: str  # what it is for
    suffix: str  # of the file
    is_shared: bool = False  # several may have it at once, if no other has it alone


COMMITS = Lock("commit", ".lock")
FILES_IN_USE = Lock("files", ".files.lock", is_shared=True)
FILES_REMOVED = Lock("files", ".files.lock")


@contextmanager
def file_lock(catalog: str, lock: Lock, timeout: float | None = None, *, read_only: bool = False) -> Iterator[None]:
    """Hold a lock that is a file beside this file of a catalog, which must be free within `TIMEOUT` seconds.

    A reader makes no file. Where it can open none, only threads of this process wait for it, and it for nobody.
    """
    path, seconds = Path(f"{catalog}{lock.suffix}"), TIMEOUT if timeout is None else timeout
    with ExitStack() as stack:
        try:
            if lock == COMMITS:
                stack.enter_context(_flock(path, lock, seconds, "r" if read_only else "a"))
            else:
                # Commits whose times overlap would keep maintenance waiting for ever. So it takes the turn, and waits.
                with _flock(Path(f"{path}.turn"), lock, seconds):
                    stack.enter_context(_flock(path, lock, seconds))
        except OSError as error:
            if not read_only:
                raise CatalogError(
                    f"the lock {path} cannot be acquired: {error.strerror}:",
                    "let this user write that file, or its folder if the file does not exist yet.",
                ) from error
            stack.enter_context(_UNLOCKED)
        yield


@contextmanager
def _flock(path: Path, lock: Lock, timeout: float, mode: Literal["a", "r"] = "a") -> Iterator[None]:
    kind = fcntl.LOCK_SH if lock.is_shared else fcntl.LOCK_EX
    with path.open(mode) as file:

        def is_free() -> bool:
            with suppress(BlockingIOError):
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                return True
            return False

        if not poll(is_free, pause=pause_between(0.005, 0.015), limit=Limit(seconds=timeout)):
            raise CatalogLockedError(
                f"the lock {path} was not free within {timeout:g} seconds:",
                "see which process holds it (`fuser` on that file), and run it again when that one has ended.",
            )
        yield
