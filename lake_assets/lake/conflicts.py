"""What catalogs' databases say when two writers meet, by vendor, and which of our errors that is."""

import duckdb

from lake_assets.errors import CatalogError, CatalogLockedError

BUSY = 60.0  # seconds that a writer who knows nothing of our lock may hold a catalog

# SQLite's words, DuckDB's of its own file, and PostgreSQL's where `lock_timeout` ends.
_LOCKED = ("database is locked", "database table is locked", "could not set lock on file", "lock timeout")

WHO_LOCKS = "run it again when that one has ended: `fuser` on the catalog's file names it, or pg_locks in PostgreSQL."

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
    return CatalogLockedError(f"the catalog {place} is locked by another process, and says: {said}:", WHO_LOCKS)
