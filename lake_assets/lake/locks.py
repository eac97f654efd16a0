"""The lock that serializes a lake's commits, for speed. Correctness does not depend on it.

DuckLake numbers its snapshots, so one of two overlapping commits must be retried. Waiting for a lock is cheaper. The
catalog guarantees correctness: a writer without the lock causes a conflict, never mixed rows. A lock ends with its
process.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from filelock import FileLock, Timeout

from lake_assets.config.catalogs import FileCatalog, MotherDuckCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.errors import CatalogError, CatalogLockedError
from lake_assets.lake.postgres import connect, refused, unreachable

TIMEOUT = 600.0  # seconds; a commit takes well under one

_GUARD = threading.Lock()
_THREADS: dict[str, threading.RLock] = {}


@contextmanager
def commit_lock(lake: Lake, timeout: float = TIMEOUT) -> Iterator[None]:
    """Hold the lake's lock: a file beside a file catalog, an advisory lock of a PostgreSQL catalog.

    A MotherDuck catalog has no lock, only its own check for conflicts and the retry.

    Raises:
        CatalogLockedError: it is not free within `timeout` seconds.
        CatalogUnreachableError: the catalog's server is unreachable.
        CatalogError: it cannot be acquired.
    """
    if isinstance(lake.catalog, PostgresCatalog):
        with _advisory_lock(lake.catalog, timeout):
            yield
    elif isinstance(lake.catalog, MotherDuckCatalog):
        yield
    else:
        with _file_lock(lake.catalog, timeout), exclusive_access(lake):
            yield


@contextmanager
def _file_lock(catalog: FileCatalog, timeout: float) -> Iterator[None]:
    path = Path(f"{catalog.path}.lock")
    lock = FileLock(path, timeout=timeout, poll_interval=0.01)
    try:
        lock.acquire()
    except Timeout as error:
        raise CatalogLockedError(
            f"the lock {path} was not free within {timeout:g} seconds:",
            "see which process holds it (`fuser` on that file), and run it again when that one has ended.",
        ) from error
    except OSError as error:
        raise CatalogError(
            f"the lock {path} cannot be acquired: {error.strerror}:",
            "let this user write that file, or its folder if the file does not exist yet.",
        ) from error
    try:
        yield
    finally:
        lock.release()


def exclusive_access(lake: Lake) -> AbstractContextManager[object]:
    """Keep other threads of this process from the file of a SQLite catalog; a thread may enter it again.

    Python's SQLite and DuckDB's do not see each other's locks within a process, and the close of a file by one of them
    ends the locks of the other.
    """
    if not isinstance(lake.catalog, SqliteCatalog):
        return nullcontext()
    with _GUARD:
        return _THREADS.setdefault(str(Path(lake.catalog.path).absolute()), threading.RLock())


@contextmanager
def _advisory_lock(catalog: PostgresCatalog, timeout: float) -> Iterator[None]:
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    key = int.from_bytes(hashlib.sha256(b"lake_assets commit").digest()[:8], "big", signed=True)
    with connect(catalog, autocommit=True) as connection:
        try:
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{int(timeout * 1000)}ms",))
            connection.execute("SELECT pg_advisory_lock(%s)", (key,))
        except psycopg.errors.LockNotAvailable:
            raise CatalogLockedError(
                f"the catalog's commit lock was not free within {timeout:g} seconds:",
                "see which session holds it (pg_locks, locktype advisory), and run it again when that one has ended.",
            ) from None  # its text is that of a locked table, after which a writer retries
        except psycopg.Error as error:
            raise (unreachable(catalog, error) or refused(catalog, error)) from error
        yield
