"""Writes to the catalog beside other writers: with retries after a conflict, under the lake's lock."""

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import duckdb

from lake_assets.base.errors import CatalogError, CatalogLockedError, CatalogUnreachableError, CommitConflictError
from lake_assets.base.retrying import Limit, Result, pause_up_to, retry
from lake_assets.lake import locks
from lake_assets.lake.failures import is_conflict, is_locked
from lake_assets.lake.locks import FILES_IN_USE, WHO_LOCKS
from lake_assets.lake.session import LakeSession

_LOG = logging.getLogger(__name__)


def under_lock(session: LakeSession, work: Callable[[], Result], what: str) -> Result:
    """Write `what` to the catalog under the lake's lock, and retry after a conflict with a writer without the lock.

    `work` writes all or nothing, perhaps twice, if the answer of a commit is lost.
    """

    def one_try() -> Result:
        with session.commit_lock():
            return work()

    return write_retried(session, one_try, what)


def write_retried(
    session: LakeSession,
    work: Callable[[], Result],
    what: str,
    find: Callable[[], Result | None] = lambda: None,
    *,
    retry_seconds: float | None = None,
) -> Result:
    """Write `what` to the catalog, and retry after a conflict with another writer, under the lake's locks.

    A conflict is retried `commit_retries` times. While another process has locked the catalog, retries go on until
    `retry_seconds` seconds have passed; `locks.BUSY` when None, and 0 is one try.

    `work` writes all or nothing; its first try acquires the lake's locks itself. `find` is called before a retry, and
    after the connection was lost; it finds the result of an earlier try whose answer was lost. Without it, the work may
    be done twice. Raises CatalogLockedError or CommitConflictError if nothing was written because of other writers.
    """
    tries = count()
    seconds = locks.BUSY if retry_seconds is None else retry_seconds

    def one_try() -> Result:
        if not next(tries):
            return work()
        session.reattach()
        # The locks of an earlier try whose answer was lost end with its transaction.
        with session.lock(FILES_IN_USE), session.commit_lock():
            return work() if (earlier := find()) is None else earlier

    def limit(error: BaseException) -> Limit:
        if is_locked(error):
            return Limit(seconds=seconds)
        return Limit(retries=session.config.commit_retries)

    try:
        return retry(one_try, transient=_kind, limit=limit, pause=pause_up_to(0.05, 2))
    except CatalogUnreachableError as lost:
        if (earlier := _found_after(session, find)) is None:
            raise
        _LOG.warning("%s was written, though its answer was lost: %s", what, lost)
        return earlier
    except (CatalogError, duckdb.Error) as error:
        if not is_conflict(error):
            raise
        raise _exhausted(error, what, next(tries), seconds) from error


def _kind(error: BaseException) -> str | None:
    """Return the word for an error of other writers; None for another error."""
    return "locked" if is_locked(error) else "conflict" if is_conflict(error) else None


def _found_after(session: LakeSession, find: Callable[[], Result | None]) -> Result | None:
    """Return the result of a commit whose answer was lost with the connection; None if it is not there, or unknown."""
    with suppress(CatalogError, duckdb.Error, *session.backend.errors):  # the first error is raised
        session.reattach()
        return find()
    return None


def _exhausted(error: BaseException, what: str, tries: int, seconds: float) -> CommitConflictError:
    if is_locked(error):
        since = f" for {seconds:g} seconds" if seconds else ""
        return CatalogLockedError(f"{what} was not written: another process has locked the catalog{since}:", WHO_LOCKS)
    return CommitConflictError(
        f"{what} was not written: other writers were faster {tries} times:", "run it again, or raise commit_retries."
    )
