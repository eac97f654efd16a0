"""The lock under which a lake's commits follow each other: for speed, not for safety.

DuckLake numbers its snapshots in one row of commits, so two that overlap cost one of them a retry. Waiting for a
lock is cheaper. Safety is the catalog's: a writer that knows nothing of the lock makes a conflict, never a mixture.
A lock ends with its process, however that ends.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lake_assets.config.catalogs import FileCatalog, MotherDuckCatalog, PostgresCatalog
from lake_assets.config.models import Lake
from lake_assets.errors import CatalogError, CatalogLockedError
from lake_assets.lake.postgres import connect, refused, unreachable

TIMEOUT = 600.0  # seconds; a commit takes well under one


@contextmanager
def commit_lock(lake: Lake, timeout: float = TIMEOUT) -> Iterator[None]:
    """Hold the lake's lock: a file beside a file catalog, an advisory lock of a PostgreSQL catalog.

    A catalog at MotherDuck has none: its own check for conflicts, and the retry, are what there is.

    Raises:
        CatalogLockedError: it is not free within `timeout` seconds.
        CatalogUnreachableError: the catalog's server is away.
        CatalogError: it cannot be taken.
    """
    if isinstance(lake.catalog, PostgresCatalog):
        with _advisory_lock(lake.catalog, timeout):
            yield
    elif isinstance(lake.catalog, MotherDuckCatalog):
        yield
    else:
        with _file_lock(lake.catalog, timeout):
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
            f"the lock {path} cannot be taken: {error.strerror}:",
            "let this user write that file, or its folder where it is not there yet.",
        ) from error
    try:
        yield
    finally:
        lock.release()


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
            ) from None  # its words are those of a locked table, for which a writer tries again by itself
        except psycopg.Error as error:
            raise (unreachable(catalog, error) or refused(catalog, error)) from error
        yield
