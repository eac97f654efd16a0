"""Checkpoints of a DuckDB-file catalog that a killed process cannot leave unreadable.

DuckDB's file has two headers, and a checkpoint ends with writing one of them; until then its log (the file's name and
`.wal`) has every commit since the last checkpoint. But DuckDB 1.5 writes the metadata of the new checkpoint into the
block that has the metadata of the last one. If the process dies in that write, the block has neither, and DuckDB
refuses the file for good ("computed checksum … does not match").

So DuckDB makes no checkpoint by itself here. `checkpointed` copies the file first, and removes the copy at the end.
If the headers of file and copy are equal when the lake is opened next, the checkpoint did not end: `recover` puts the
copy back, and DuckDB applies the log to it.
"""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import duckdb

from lake_assets.base.errors import CatalogError, CatalogLockedError
from lake_assets.base.machine import can_write
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.config.catalogs import DuckdbCatalog, SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.lake.attach import ALIAS
from lake_assets.lake.catalog import spec
from lake_assets.lake.failures import BUSY, WHO_LOCKS, catalog_error
from lake_assets.lake.locks import exclusive_access
from lake_assets.storage.folder import fill

_LOG = logging.getLogger(__name__)


class EngineLostError(Exception):
    """A checkpoint failed, and DuckDB closed the catalog."""


HEADERS = slice(4096, 12288)  # bytes of the file; DuckDB's manual, internals: storage

# For the engine that attaches the catalog: no checkpoint at DETACH or at the end, nor within a COMMIT.
SETTINGS = (
    "PRAGMA disable_checkpoint_on_shutdown",
    "SET wal_autocheckpoint = '1TB'",
)


def copy_of(catalog: DuckdbCatalog) -> Path:
    """Return the copy that exists while a checkpoint is made."""
    return Path(f"{catalog.path}.checkpoint")


@contextmanager
def checkpointed(catalog: DuckdbCatalog, engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Move what the log has into the catalog's file; the block detaches the lake. Without a log, nothing is done.

    The engine has no open transaction, and the caller holds the lake's lock. The commits are safe in the log, so a
    failure is a warning: the next checkpoint moves them. If the checkpoint fails, for example because the disk is full,
    the engine is closed: an EngineLostError.
    """
    if not Path(f"{catalog.path}.wal").exists():
        yield
        return
    # To close any descriptor of the file ends DuckDB's lock on it in this process, so it is closed last.
    with Path(catalog.path).open("rb") as file:
        try:
            _copy_open(file.fileno(), copy_of(catalog))
        except OSError as error:
            _LOG.warning("The catalog %s keeps its log, because it cannot be copied: %s.", catalog.path, error.strerror)
        else:
            _checkpoint(catalog, engine)
        yield


def _checkpoint(catalog: DuckdbCatalog, engine: duckdb.DuckDBPyConnection) -> None:
    try:
        engine.execute(f"CHECKPOINT {spec.database(ALIAS, None)}")
    except duckdb.Error as error:
        _LOG.warning("The catalog %s keeps its log, because its checkpoint failed: %s", catalog.path, error)
        engine.close()  # DuckDB refuses all other statements now, DETACH too
        raise EngineLostError from error
    copy_of(catalog).unlink(missing_ok=True)


def recover(catalog: DuckdbCatalog) -> None:
    """Undo the checkpoint in which a process died, under the lake's lock. No commit is lost."""
    copy = copy_of(catalog)
    if not copy.exists():
        return
    try:
        with Path(catalog.path).open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another client of DuckDB could open it
            if _headers(file) == _headers_of(copy):
                copy.replace(catalog.path)
            else:
                copy.unlink()
    except FileNotFoundError:
        return  # it has been moved away
    except OSError as error:
        raise CatalogError(
            f"the catalog {catalog.path} cannot be recovered after an interrupted checkpoint: {error.strerror}:",
            f"let this user write it and {copy}, and run it again.",
        ) from error


def _headers(file: IO[bytes]) -> bytes:
    return file.read(HEADERS.stop)[HEADERS]


def _headers_of(copy: Path) -> bytes:
    with copy.open("rb") as file:
        return _headers(file)


def _copy_open(file: int, copy: Path) -> None:
    """Copy an open file; the copy exists as a whole, and on the disk, or not at all."""
    part = copy.with_name(f"{copy.name}.part")
    status = os.fstat(file)
    try:
        with part.open("wb") as target:
            os.fchmod(target.fileno(), status.st_mode & 0o777)
            fill(file, target.fileno(), status.st_size)
            os.fsync(target.fileno())
        part.replace(copy)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


# Bytes that are locked, and the first of them.
_FILE = 510, 0x40000002
_CHECKPOINT, _LOG_BYTES = (1, 121), (1, 127)  # of the file `-shm`


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
            _copy_file(file, copy)
    except sqlite3.Error as error:
        raise catalog_error(error, lake) from error
    except OSError as error:
        is_refused = isinstance(error, PermissionError)
        raise CatalogError(
            f"the catalog {lake.catalog.location} cannot be copied for a reader: {error.strerror or error}:",
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


def _copy_file(file: Path, copy: Path) -> None:
    part, shared = copy.with_name("part"), Path(f"{file}-shm")
    is_whole = False
    while not is_whole:
        with ExitStack() as stack:
            opened = stack.enter_context(_locked(file, _FILE))
            if is_used := shared.exists():
                stack.enter_context(_locked(shared, _CHECKPOINT, _LOG_BYTES))
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
