"""Which errors of a commit mean that another writer was faster, so that the whole of it is worth trying again."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import duckdb
import tenacity

from lake_assets.errors import CatalogError

if TYPE_CHECKING:
    from lake_assets.lake.ducklake import LakeSession

Done = TypeVar("Done")

# What DuckLake and its catalogs say when two writers meet: DuckLake's own check, a primary key on the snapshot's
# number (SQLite, PostgreSQL and DuckDB word it each in their way), and a file or row that is locked.
_SIGNS = (
    "transaction conflict",
    "conflict on",
    "write-write conflict",
    "unique constraint",
    "duplicate key",
    "database is locked",
    "could not serialize",
    "deadlock detected",
)


def is_conflict(error: BaseException) -> bool:
    """Whether the error, or the driver's error that it was made from, is a conflict between writers."""
    cause = error.__cause__ if isinstance(error, CatalogError) else error
    known = isinstance(error, (CatalogError, duckdb.Error)) and cause is not None
    return known and any(sign in str(cause).lower() for sign in _SIGNS)


def under_lock(session: "LakeSession", work: Callable[[], Done]) -> Done:
    """Do work that may be done twice: under the lake's lock, and again after a conflict with a writer that has none.

    Raises:
        CatalogError: the catalog refuses, after some tries.
    """
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_conflict),
        stop=tenacity.stop_after_attempt(10),
        wait=tenacity.wait_random(0, 0.5),
        reraise=True,
    )

    tries = count()

    def locked() -> Done:
        with session.commit_lock():
            if next(tries):
                session.reattach()
            return work()

    return attempts(locked)
