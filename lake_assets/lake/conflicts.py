"""How the catalog is written beside other writers: under the lock, and again where one was faster or has locked it."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import duckdb
import tenacity

from lake_assets.errors import CatalogError, CatalogLockedError, CommitConflictError

if TYPE_CHECKING:
    from lake_assets.lake.ducklake import LakeSession

Done = TypeVar("Done")

BUSY = 60.0  # seconds that a writer who knows nothing of our lock may hold a catalog

# SQLite's words, DuckDB's of its own file, and PostgreSQL's where `lock_timeout` ends.
_LOCKED = ("database is locked", "database table is locked", "could not set lock on file", "lock timeout")

_WHO = "run it again when that one has ended: `fuser` on the catalog's file names it, or pg_locks in PostgreSQL."

# What DuckLake and its catalogs say when two writers meet: DuckLake's own check, a primary key on the snapshot's
# number (SQLite, PostgreSQL and DuckDB word it each in their way), and a file or row that is locked.
_SIGNS = (
    "transaction conflict",
    "conflict on",
    "write-write conflict",
    "unique constraint",
    "duplicate key",
    *_LOCKED,
    "could not serialize",
    "deadlock detected",
)


def is_conflict(error: BaseException) -> bool:
    """Whether the error, or the driver's error that it was made from, is a conflict between writers."""
    cause = error.__cause__ if isinstance(error, CatalogError) else error
    known = isinstance(error, (CatalogError, duckdb.Error)) and cause is not None
    return known and any(sign in str(cause).lower() for sign in _SIGNS)


def under_lock(
    session: "LakeSession", work: Callable[[], Done], what: str, find: Callable[[], Done | None] = lambda: None
) -> Done:
    """Write to the catalog: under the lake's lock, and all of it again after a conflict with a writer that has none.

    A conflict is tried again `commit_retries` times; a catalog that another process has locked, also beyond that, until
    `BUSY` seconds have passed.

    Args:
        session: an open lake.
        work: writes all or nothing.
        what: is not written if it fails, for the error.
        find: looks before another try for what an earlier one has done, whose answer was lost. Without it, the work
            may be done twice.

    Raises:
        CatalogLockedError: it has not been written, for another process has locked the catalog.
        CommitConflictError: it has not been written, for other writers were faster.
        CatalogUnreachableError: the catalog's server is away.
        CatalogError: the catalog refuses.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_conflict),
        stop=partial(_has_tried_enough, retries=session.config.commit_retries),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
        reraise=True,
    )
    tries = count()

    def one_try() -> Done:
        with session.commit_lock():
            if next(tries):
                session.reattach()
                if (done := find()) is not None:
                    return done
            return work()

    try:
        return retrying(one_try)
    except (CatalogError, duckdb.Error) as error:
        if not is_conflict(error):
            raise
        raise _exhausted(error, what, next(tries)) from error


def _exhausted(error: BaseException, what: str, tries: int) -> CommitConflictError:
    if is_locked(error):
        return CatalogLockedError(
            f"{what} was not written: another process has locked the catalog for {BUSY:g} seconds:", _WHO
        )
    return CommitConflictError(
        f"{what} was not written: other writers were faster {tries} times:", "run it again, or raise commit_retries."
    )


def _has_tried_enough(state: tenacity.RetryCallState, *, retries: int) -> bool:
    error = state.outcome.exception() if state.outcome is not None else None
    if error is not None and is_locked(error):
        return (state.seconds_since_start or 0) >= BUSY
    return state.attempt_number > retries


def is_locked(error: BaseException) -> bool:
    """Whether another process has the catalog's file, or a table of it, to itself for now."""
    return any(sign in str(error.__cause__ or error).lower() for sign in _LOCKED)


def locked(place: str, text: str) -> CatalogLockedError:
    """The error for a catalog that another process has locked.

    Args:
        place: the catalog's.
        text: what its database says.
    """
    said = " ".join(text.split())[:1000].rstrip(".")
    return CatalogLockedError(f"the catalog {place} is locked by another process, and says: {said}:", _WHO)
