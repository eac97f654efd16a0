"""A plain DuckDB client of a lake, which reads it without this package's session."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from lake_assets.config.lake import Lake
from lake_assets.duckdb_engine import find_extension
from lake_assets.lake.attach import attach_statement, extensions, secret_statements


@contextmanager
def plain_client(lake: Lake, *, read_only: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own to which the lake is attached as `lake`."""
    # To verify the signatures of the extensions takes longer than nearly all that a test asks.
    with duckdb.connect(config={"threads": 1, "allow_unsigned_extensions": True}) as client:
        for name in extensions(lake):
            client.execute(f"LOAD '{find_extension(name).file}'")
        for statement in secret_statements(lake):
            client.execute(statement)
        client.execute(attach_statement(lake, read_only=read_only))
        yield client
