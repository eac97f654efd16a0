"""A reader's own copy of a SQLite catalog that it may not write.

SQLite's readers write too: beside a file in WAL mode they make two others, in which its users agree on the log. So a
reader who may not write the file or its folder, as on a read-only mount, reads a copy among the temporary files.

The copy has one state of the catalog. While it is made, SQLite's own locks are shared: those of readers, and one that
keeps the log from being moved into the file. Source: SQLite's pages on file locking and on the format of the WAL.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from lake_assets.config.catalogs import SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.errors import CatalogError, CatalogLockedError
from lake_assets.lake.failures import BUSY, WHO_LOCKS, catalog_error, catalog_location
from lake_assets.lake.locks import exclusive_access
from lake_assets.machine import can_write
from lake_assets.retrying import Limit, pause_between, poll
from lake_assets.storage.server_copies import fill

# Bytes that are locked, and the first of them.
_FILE = 510, 0x40000002
_CHECKPOINT, _LOG = (1, 121), (1, 127)  # of the file `-shm`


def for_reader(lake: Lake) -> Lake:
    """Return the lake as a reader of this process can open it, with a new copy of a catalog that it may not write.

    The copy remains until the process ends, or until the next one takes its place. Raises CatalogError if the catalog
    cannot be read, and CatalogLockedError if another process keeps it locked.
    """
    catalog = lake.catalog
    if not isinstance(catalog, SqliteCatalog) or _is_writable(Path(catalog.path)):
        return lake
    file = Path(catalog.path).absolute()
    try:
        copy = Path(_folder(file).name, file.name)
        with exclusive_access(lake):
            _copy(file, copy)
    except sqlite3.Error as error:
        raise catalog_error(error, lake) from error
    except OSError as error:
        is_refused = isinstance(error, PermissionError)
        raise CatalogError(
            f"the catalog {catalog_location(lake)} cannot be copied for a reader: {error.strerror or error}:",
            "let this user read that file, and enter its folder."
            if is_refused
            else "set TMPDIR to another folder, with more space, and run it again.",
        ) from error
    return lake.model_copy(update={"catalog": catalog.model_copy(update={"path": str(copy)})})


def _is_writable(file: Path) -> bool:
    """Return whether this user can write an existing catalog and what SQLite has beside it; or there is none."""
    others = [path for suffix in ("-wal", "-shm") if os.path.lexists(path := Path(f"{file}{suffix}"))]
    return not os.path.lexists(file) or all(map(can_write, (file, file.parent, *others)))


@cache
def _folder(file: Path) -> TemporaryDirectory[str]:
    """Return the folder of this process for copies of a catalog."""
    return TemporaryDirectory(prefix=f"lake-assets-copy-of-{file.stem}-")


def _copy(file: Path, copy: Path) -> None:
    part, shared = copy.with_name("part"), Path(f"{file}-shm")
    is_whole = False
    while not is_whole:
        with ExitStack() as stack:
            opened = stack.enter_context(_locked(file, _FILE))
            if is_used := shared.exists():
                stack.enter_context(_locked(shared, _CHECKPOINT, _LOG))
            _fill(opened, part)
            for suffix in ("-wal", "-journal"):
                Path(f"{part}{suffix}").unlink(missing_ok=True)
                if (log := Path(f"{file}{suffix}")).exists():
                    with log.open("rb") as more:
                        _fill(more, Path(f"{part}{suffix}"))
            is_whole = is_used == shared.exists()  # else a writer has come meanwhile
    with closing(sqlite3.connect(part)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # moves the log into the file
    part.replace(copy)


def _fill(file: IO[bytes], copy: Path) -> None:
    with copy.open("wb") as target:
        fill(file.fileno(), target.fileno(), os.fstat(file.fileno()).st_size)


@contextmanager
def _locked(path: Path, *ranges: tuple[int, int]) -> Iterator[IO[bytes]]:
    """Share locks of SQLite on an open file."""
    with path.open("rb") as file:

        def is_free() -> bool:
            try:
                for length, first in ranges:
                    fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, length, first)
            except BlockingIOError:
                return False
            return True

        if not poll(is_free, pause=pause_between(0.005, 0.015), limit=Limit(seconds=BUSY)):
            raise CatalogLockedError(f"the catalog's file {path} was locked for {BUSY:g} seconds:", WHO_LOCKS)
        yield file
