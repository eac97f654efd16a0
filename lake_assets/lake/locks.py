"""The locks of a lake: that of its commits, for speed, and that of its files, which maintenance deletes.

DuckLake numbers its snapshots, so one of two overlapping commits must be retried. Waiting for the commit lock is
cheaper. The catalog guarantees correctness: a writer without that lock causes a conflict, never mixed rows.

A commit looks for its new files before it waits for the commit lock, so that no writer waits for the storage of
another. From that look to its end it shares the files lock, which the removal of files without a commit takes alone. So
no file vanishes between the look and the commit, however old it is, and however wrong the clocks of machines are.

A lock ends with its process. On PostgreSQL it is one of a session, which is in a transaction as long as it has a lock:
a pooler (PgBouncer in transaction mode) lets no other client have the session then, and ends it with its client.
"""

import fcntl
import hashlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lake_assets.base.errors import CatalogError, CatalogLockedError
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.config.catalogs import FileCatalog, MotherDuckCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.lake.postgres import connect, refused, unreachable

if TYPE_CHECKING:
    import psycopg

TIMEOUT = 600.0  # seconds; a commit takes well under one

_GUARD = threading.Lock()
_THREADS: dict[str, threading.RLock] = {}
_UNLOCKED = threading.RLock()  # of threads that read catalogs beside which they can open no lock file


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock of a lake: an advisory one of a PostgreSQL catalog, a file beside a file catalog."""

    name: str  # what it is for
    suffix: str  # of the file
    is_shared: bool = False  # several may have it at once, if no other has it alone

    @property
    def _key(self) -> int:
        digest = hashlib.sha256(f"lake_assets {self.name}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    @property
    def _function(self) -> str:
        return "_shared" if self.is_shared else ""

    def ask(self, connection: "psycopg.Connection[Any]", timeout: float) -> "psycopg.Cursor[Any]":
        """Begin to acquire the lock of a PostgreSQL catalog, in an open transaction, and begin the next one with it.

        In pipeline mode, the statements are not waited for. The session has the lock until `release`, or its end.
        The cursor gets a result with the lock; LockNotAvailable if it was not free within `timeout` seconds.
        """
        connection.execute(
            "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', '0', true)",
            (f"{int(timeout * 1000)}ms",),
        )
        cursor = connection.execute(f"SELECT pg_advisory_lock{self._function}(%s)".encode(), (self._key,))
        next_transaction(connection)
        return cursor

    def give_to_transaction(self, connection: "psycopg.Connection[Any]") -> None:
        """Let the open transaction have the lock of the session, and release it at its end."""
        self.release(connection, f"pg_advisory_xact_lock{self._function}({self._key}), ")

    def release(self, connection: "psycopg.Connection[Any]", instead: str = "") -> None:
        """Release the lock that the session of the connection to a PostgreSQL catalog has."""
        connection.execute(f"SELECT {instead}pg_advisory_unlock{self._function}({self._key})".encode())

    def not_free(self, timeout: float) -> CatalogLockedError:
        """Return the error of a lock of a PostgreSQL catalog that was not free in time."""
        return CatalogLockedError(
            f"the catalog's {self.name} lock was not free within {timeout:g} seconds:",
            "see which session holds it (pg_locks, locktype advisory), and run it again when that one has ended.",
        )


COMMITS = Lock("commit", ".lock")
FILES_IN_USE = Lock("files", ".files.lock", is_shared=True)
FILES_REMOVED = Lock("files", ".files.lock")


@contextmanager
def commit_lock(lake: Lake, timeout: float = TIMEOUT) -> Iterator[None]:
    """Hold the lock of the lake's commits, of a PostgreSQL catalog on a connection of its own.

    A MotherDuck catalog has no lock, only its own check for conflicts and the retry. Raises CatalogLockedError if the
    lock is not free within `timeout` seconds.
    """
    if isinstance(lake.catalog, PostgresCatalog):
        with connect(lake.catalog, autocommit=True) as connection, held(lake.catalog, connection, COMMITS, timeout):
            yield
    elif isinstance(lake.catalog, MotherDuckCatalog):
        yield
    else:
        with file_lock(lake, COMMITS, timeout):
            yield


@contextmanager
def held(
    catalog: PostgresCatalog, connection: "psycopg.Connection[Any]", lock: Lock, timeout: float = TIMEOUT
) -> Iterator[None]:
    """Hold a lock on a connection to a PostgreSQL catalog. If the connection is lost meanwhile, so is the lock."""
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    has_locks = in_transaction(connection)
    try:
        with connection.pipeline():
            if not has_locks:
                begin(connection)
            lock.ask(connection, timeout)
    except psycopg.Error as error:
        with suppress(psycopg.Error):  # the connection is lost
            end(connection, "ROLLBACK", is_last=not has_locks)
        if isinstance(error, psycopg.errors.LockNotAvailable):
            raise lock.not_free(timeout) from None  # its text is that of a locked table, after which a writer retries
        raise (unreachable(catalog, error) or refused(catalog, error)) from error
    try:
        yield
    finally:
        try:
            lock.release(connection)
            end(connection, "COMMIT", is_last=not has_locks)
        except psycopg.Error:
            connection.close()  # the server releases it


def in_transaction(connection: "psycopg.Connection[Any]") -> bool:
    """Return whether a connection has an open transaction between two statements: one that keeps a lock."""
    return connection.info.transaction_status.name != "IDLE"


def begin(connection: "psycopg.Connection[Any]") -> None:
    """Begin a transaction that sees one state."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")


def end(connection: "psycopg.Connection[Any]", how: Literal["COMMIT", "ROLLBACK"], *, is_last: bool) -> None:
    """End a transaction; if it is not the last one of those with a lock, the next one begins."""
    if is_last:
        connection.execute(how)
    else:
        next_transaction(connection, how)


def next_transaction(connection: "psycopg.Connection[Any]", how: Literal["COMMIT", "ROLLBACK"] = "COMMIT") -> None:
    """End a transaction, and begin the next one of the same session. It sees the state of its first query.

    A pooler may give the session to others between two transactions, but not between these.
    """
    connection.execute(f"{how} AND CHAIN".encode())
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


@contextmanager
def file_lock(lake: Lake, lock: Lock, timeout: float = TIMEOUT, *, read_only: bool = False) -> Iterator[None]:
    """Hold a lock that is a file beside a file catalog.

    A reader makes no file. Where it can open none, only threads of this process wait for it, and it for nobody.
    """
    assert isinstance(lake.catalog, FileCatalog)  # noqa: S101 - the caller checks
    path = Path(f"{lake.catalog.path}{lock.suffix}")
    with ExitStack() as stack:
        try:
            if lock == COMMITS:
                stack.enter_context(_flock(path, lock, timeout, "r" if read_only else "a"))
                stack.enter_context(exclusive_access(lake))
            else:
                # Commits whose times overlap would keep maintenance waiting for ever. So it takes the turn, and waits.
                with _flock(Path(f"{path}.turn"), lock, timeout):
                    stack.enter_context(_flock(path, lock, timeout))
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


def exclusive_access(lake: Lake) -> AbstractContextManager[object]:
    """Keep other threads of this process from the file of a SQLite catalog; a thread may enter it again.

    Python's SQLite and DuckDB's do not see each other's locks within a process, and the close of a file by one of them
    ends the locks of the other.
    """
    if not isinstance(lake.catalog, SqliteCatalog):
        return nullcontext()
    with _GUARD:
        return _THREADS.setdefault(str(Path(lake.catalog.path).absolute()), threading.RLock())
