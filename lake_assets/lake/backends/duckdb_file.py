"""A catalog in a DuckDB file, whose checkpoints a killed process cannot leave unreadable.

DuckDB's file has two headers, and a checkpoint ends with writing one of them; until then its log (the file's name and
`.wal`) has every commit since the last checkpoint. But DuckDB 1.5 writes the metadata of the new checkpoint into the
block that has the metadata of the last one. If the process dies in that write, the block has neither, and DuckDB
refuses the file for good ("computed checksum … does not match").

So DuckDB makes no checkpoint by itself here. `checkpointed` copies the file first, and removes the copy at the end.
If the headers of file and copy are equal when the lake is opened next, the checkpoint did not end: `recover` puts the
copy back, and DuckDB applies the log to it.
"""

import datetime as dt
import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

import duckdb

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import CatalogError
from lake_assets.base.machine import can_write
from lake_assets.config.lake import DuckdbCatalog
from lake_assets.lake.backends.database_backend import ALIAS, COMMITS, EngineLostError, FileBackend, file_lock
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, PendingRows, Row, names_of, set_clause
from lake_assets.storage.folder import fill

_LOG = logging.getLogger(__name__)


HEADERS = slice(4096, 12288)  # bytes of the file; DuckDB's manual, internals: storage


class DuckdbDatabase(CatalogDatabase):
    """DuckLake's tables of any database through a connection of DuckDB."""

    def _cursor(self, sql: str, parameters: Sequence[object]) -> duckdb.DuckDBPyConnection:
        cursor: duckdb.DuckDBPyConnection = self._connection.execute(sql, parameters)
        return cursor

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows to a table."""
        # A list for each column: with `executemany` DuckDB runs a statement for each row, a hundred times slower.
        lists = ", ".join("unnest(?)" for _ in columns)
        self.execute(
            f"INSERT INTO {identifier(table)} ({names_of(columns)}) SELECT {lists}",
            [list(values) for values in zip(*rows, strict=True)],
        )

    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Set columns of a table's rows."""
        lists = ", ".join(f"unnest(?) AS {identifier(name)}" for name in (*keys, *columns))
        same = " AND ".join(f"t.{identifier(key)} = v.{identifier(key)}" for key in keys)
        self.execute(
            f"UPDATE {identifier(table)} t SET {set_clause(columns, 'v')} FROM (SELECT {lists}) v WHERE {same}",  # noqa: S608 - quoted names
            [list(values) for values in zip(*rows, strict=True)],
        )

    def ask_table(self, name: str) -> PendingRows:
        """Ask whether the database has this table."""
        # DuckLake hides this database from duckdb_tables() and similar functions.
        rows = [(1,)]
        try:
            self.execute(f"SELECT 1 FROM {identifier(name)} LIMIT 0")  # noqa: S608 - quoted names
        except duckdb.CatalogException:
            rows = []
        return lambda: rows

    def inlined(self, value: object) -> object:
        """Return the value itself."""
        return value

    def inlined_time(self, moment: dt.datetime) -> object:
        """Return the time itself."""
        return moment


class DuckdbBackend(FileBackend[DuckdbCatalog]):
    """A DuckDB file, which one process at a time can open."""

    # No checkpoint at DETACH or at the end, nor within a COMMIT.
    settings = ("PRAGMA disable_checkpoint_on_shutdown", "SET wal_autocheckpoint = '1TB'")
    is_exclusive = True
    through_duckdb = DuckdbDatabase

    @property
    def engine_name(self) -> str:
        """The name of the engine that a user's connections share."""
        return str(self.catalog.file.resolve())

    @contextmanager
    def opened(self, *, read_only: bool) -> Iterator[None]:
        """Hold the lock of commits, and undo a checkpoint in which a process died, if this user may."""
        if read_only and not (copy_of(self.catalog).exists() and can_write(self.catalog.file.parent)):
            with file_lock(self.catalog.path, COMMITS, read_only=True):
                yield
        else:
            with self.lock(COMMITS):
                recover(self.catalog)
                yield

    def detaching(self, engine: duckdb.DuckDBPyConnection) -> AbstractContextManager[None]:
        """Move what the log has into the file before the DETACH."""
        return checkpointed(self.catalog, engine)


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
