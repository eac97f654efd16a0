"""The lock that lets one sync at a time report commits to an instance of Dagster.

Two syncs that both find a commit lacking would both report it, and Dagster stores no event under a condition. The lock
is a file beside Dagster's SQLite files, or an advisory lock of its PostgreSQL database. It ends with its process, so a
sync that was killed keeps no other one off, and the next one reports the rest. Other storages have no lock.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import sqlalchemy
from filelock import FileLock, Timeout

from lake_assets.errors import SyncUnderWayError
from lake_assets.orchestration.dagster_private import Begin, event_database
from lake_assets.retrying import Limit, pause_between, poll

_KEY = int.from_bytes(hashlib.sha256(b"lake_assets sync").digest()[:8], "big", signed=True)
_PAUSE = pause_between(0.05, 0.1)


@contextmanager
def sync_lock(instance: dg.DagsterInstance, seconds: float) -> Iterator[None]:
    """Hold the lock of an instance.

    Args:
        instance: of Dagster.
        seconds: the time after which to give up, if another sync holds it.

    Raises:
        SyncUnderWayError: it is not free within that time.
    """
    place = event_database(instance)
    if place is None:
        yield
    elif isinstance(place, Path):
        with _file_lock(place.with_suffix(".sync.lock"), seconds):
            yield
    else:
        with _advisory_lock(place, seconds):
            yield


@contextmanager
def _file_lock(path: Path, seconds: float) -> Iterator[None]:
    lock = FileLock(path, timeout=seconds)
    try:
        lock.acquire()
    except Timeout:
        raise _under_way() from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _advisory_lock(begin: Begin, seconds: float) -> Iterator[None]:
    with begin() as connection:
        # The transaction is idle while the sync works.
        connection.execute(sqlalchemy.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        acquire = sqlalchemy.text("SELECT pg_try_advisory_xact_lock(:key)").bindparams(key=_KEY)
        if not poll(lambda: bool(connection.execute(acquire).scalar()), pause=_PAUSE, limit=Limit(seconds=seconds)):
            raise _under_way()
        yield


def _under_way() -> SyncUnderWayError:
    return SyncUnderWayError(
        "another sync reports commits to this instance of Dagster at the moment:", "run it again when that has ended."
    )
