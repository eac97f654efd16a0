"""Plain DuckDB clients of a lake, which read it without this package's session."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

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


def install_extensions(home: Path, *names: str) -> None:
    """Copy extensions to the place below a home folder to which DuckDB would download them."""
    ((platform,),) = duckdb.sql("PRAGMA platform").fetchall()
    folder = home / ".duckdb" / "extensions" / f"v{duckdb.__version__}" / platform
    folder.mkdir(parents=True)
    for name in names:
        copy(find_extension(name).file, folder)
