"""How far a statement of DuckDB is, for a progress bar."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import duckdb

from lake_assets.progress import Count, counting, is_watched

_SECONDS = 0.2  # between two looks
_WHOLE = 100


def measure(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB estimate how far its statements are; it prints no bar of its own."""
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")


@contextmanager
def followed(connection: duckdb.DuckDBPyConnection, title: str) -> Iterator[None]:
    """Count how many percent of the statement that the block executes are done, if counts are shown.

    Args:
        connection: of the statement. If its settings are locked, it needs `measure` before that.
        title: of the count.
    """
    if not is_watched():
        yield
        return
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,):
        measure(connection)
    ended = Event()
    with counting(title, "%", _WHOLE) as count:
        thread = Thread(target=_follow, args=(connection, count, ended), name="query-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _follow(connection: duckdb.DuckDBPyConnection, count: Count, ended: Event) -> None:
    done = 0
    while not ended.wait(_SECONDS):
        percent = int(connection.query_progress())  # -1: it cannot say
        if percent > done:
            count.advance(percent - done)
            done = percent
