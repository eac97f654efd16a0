"""How the catalog is written beside other writers: under the lock, and again where one was faster or has locked it."""

from collections.abc import Callable
from itertools import count

import duckdb

from lake_assets.errors import CatalogError, CatalogLockedError, CommitConflictError
from lake_assets.lake import conflicts
from lake_assets.lake.conflicts import WHO_LOCKS, is_conflict, is_locked
from lake_assets.lake.session import LakeSession
from lake_assets.retrying import Done, Limit, pause_up_to, retry


def under_lock(
    session: LakeSession, work: Callable[[], Done], what: str, find: Callable[[], Done | None] = lambda: None
) -> Done:
    """Write to the catalog: under the lake's lock, and all of it again after a conflict with a writer that has none.

    A conflict is tried again `commit_retries` times; a catalog that another process has locked, also beyond that, until
    `conflicts.BUSY` seconds have passed.

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
    tries = count()

    def one_try() -> Done:
        with session.commit_lock():
            if next(tries):
                session.reattach()
                if (done := find()) is not None:
                    return done
            return work()

    def limit(error: BaseException) -> Limit:
        if is_locked(error):
            return Limit(seconds=conflicts.BUSY)
        return Limit(retries=session.config.commit_retries)

    try:
        return retry(one_try, passes=is_conflict, limit=limit, pause=pause_up_to(0.05, 2))
    except (CatalogError, duckdb.Error) as error:
        if not is_conflict(error):
            raise
        raise _exhausted(error, what, next(tries)) from error


def _exhausted(error: BaseException, what: str, tries: int) -> CommitConflictError:
    if is_locked(error):
        return CatalogLockedError(
            f"{what} was not written: another process has locked the catalog for {conflicts.BUSY:g} seconds:", WHO_LOCKS
        )
    return CommitConflictError(
        f"{what} was not written: other writers were faster {tries} times:", "run it again, or raise commit_retries."
    )
