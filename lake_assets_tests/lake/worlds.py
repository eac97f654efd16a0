"""Worlds on the catalogs for which a test has a reason: the first of each runs in `make test`."""

import pytest

_POSTGRES = pytest.param(("postgres", "local"), marks=pytest.mark.more)
_DUCKDB = pytest.param(("duckdb", "local"), marks=pytest.mark.more)

# Transactions overlap on PostgreSQL alone: SQLite locks its file, and one process has a DuckDB file.
ON_POSTGRES = pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
# For what the driver of a catalog does; DuckDB's is that of the extension.
BY_DRIVER = pytest.mark.parametrize("world", [("sqlite", "local"), _POSTGRES], indirect=True)
EACH_CATALOG = pytest.mark.parametrize("world", [("sqlite", "local"), _DUCKDB, _POSTGRES], indirect=True)
