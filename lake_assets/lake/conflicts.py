"""Which errors of a commit mean that another writer was faster, so that the whole of it is worth trying again."""

import duckdb

from lake_assets.errors import CatalogError

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
