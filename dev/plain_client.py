"""Plain DuckDB clients of a lake, which read it without this package's session."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

import duckdb

from lake_assets.base.duckdb_engine import find_extension
from lake_assets.config.lake import Lake
from lake_assets.lake.attach import attach_statement, extensions, secret_statements


@contextmanager
def plain_client(lake: Lake, *, read_only: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own to which the lake is attached as `lake`."""
    with _engine(tuple(extensions(lake))) as client:
        for statement in secret_statements(lake):
            client.execute(statement)
        client.execute(attach_statement(lake, read_only=read_only))
        yield client


class _Kept(threading.local):
    """The engines of a thread, by the extensions that they have loaded."""

    def __init__(self) -> None:
        self.clients: dict[tuple[str, ...], duckdb.DuckDBPyConnection] = {}


_KEPT = _Kept()


@contextmanager
def reading_client(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to which the lake is attached for reading as `lake`, by an engine that a thread loads once.

    A storage with secrets gets an engine of its own, as by `plain_client`.
    """
    if secret_statements(lake):
        with plain_client(lake) as client:
            yield client
        return
    names = tuple(extensions(lake))
    client = _KEPT.clients.pop(names) if names in _KEPT.clients else _engine(names)
    try:
        client.execute(attach_statement(lake, read_only=True))
        yield client
        client.execute("DETACH lake")
    except BaseException:
        client.close()
        raise
    _KEPT.clients[names] = client


def _engine(names: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    # To verify the signatures of the extensions takes longer than nearly all that a test asks.
    # A file that is replaced within a second would be read from the cache in part.
    client = duckdb.connect(
        config={"threads": 1, "allow_unsigned_extensions": True, "enable_external_file_cache": False}
    )
    for name in names:
        client.execute(f"LOAD '{find_extension(name).file}'")
    return client


def install_extensions(home: Path, *names: str) -> None:
    """Copy extensions to the place below a home folder to which DuckDB would download them."""
    ((platform,),) = duckdb.sql("PRAGMA platform").fetchall()
    folder = home / ".duckdb" / "extensions" / f"v{duckdb.__version__}" / platform
    folder.mkdir(parents=True)
    for name in names:
        copy(find_extension(name).file, folder)
