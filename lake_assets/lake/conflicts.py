"""Errors of two writers that meet: which they are, and the error of ours."""

import duckdb

from lake_assets.errors import CatalogError, CatalogLockedError
from lake_assets.lake.vendor_errors import Meaning, matches

BUSY = 60.0  # seconds that a writer who knows nothing of our lock may hold a catalog

WHO_LOCKS = "run it again when that one has ended: `fuser` on the catalog's file names it, or pg_locks in PostgreSQL."


def is_conflict(error: BaseException) -> bool:
    """Whether the error, or the driver's error that it was made from, is a conflict between writers."""
    cause = error.__cause__ if isinstance(error, CatalogError) else error
    known = isinstance(error, (CatalogError, duckdb.Error)) and cause is not None
    return known and (matches(cause, Meaning.CONFLICT) or matches(cause, Meaning.LOCKED))


def is_locked(error: BaseException) -> bool:
    """Whether another process has the catalog's file, or a table of it, to itself for now."""
    return matches(error.__cause__ or error, Meaning.LOCKED)


def locked(place: str, text: str) -> CatalogLockedError:
    """The error for a catalog that another process has locked.

    Args:
        place: the catalog's.
        text: what its database says.
    """
    said = " ".join(text.split())[:1000].rstrip(".")
    return CatalogLockedError(f"the catalog {place} is locked by another process, and says: {said}:", WHO_LOCKS)
