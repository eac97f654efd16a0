"""A catalog in a SQLite file.

DuckDB has an SQLite of its own, and two of them in one process do not see each other's locks: a transaction of Python's
driver beside a query of DuckDB can damage the file, and the close of the file by one ends the locks of the other.
"""

import datetime as dt
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import duckdb

from lake_assets.base.duckdb_engine import identifier, literal
from lake_assets.base.errors import CatalogError, CatalogLockedError
from lake_assets.base.machine import can_write
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.config.lake import Lake, SqliteCatalog
from lake_assets.lake.backends import database_backend
from lake_assets.lake.backends.database_backend import COMMITS, FileBackend, Lock
from lake_assets.lake.backends.duckdb_file import DuckdbDatabase
from lake_assets.lake.catalog.catalog_database import (
    CatalogDatabase,
    NotDirectError,
    PendingRows,
    Row,
    names_of,
    set_clause,
    time_text,
)
from lake_assets.storage.folder import fill

WRITER_TURN = 5.0  # seconds that SQLite itself retries a write; `retry.under_lock` retries it for longer

_LEFT_TO_DUCKDB: set[Path] = set()
_GUARD = threading.Lock()
_THREADS: dict[str, threading.RLock] = {}


class _SqliteDatabase(CatalogDatabase):
    """An open transaction by Python's driver."""

    def _cursor(self, sql: str, parameters: Sequence[object]) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self._connection.execute(sql, [time_text(p) for p in parameters])
        return cursor

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = ", ".join("?" for _ in columns)
        columnwise = [list(map(time_text, c)) if _has_time(c) else c for c in zip(*rows, strict=True)]
        self._connection.executemany(
            f"INSERT INTO {identifier(table)} ({names_of(columns)}) VALUES ({marks})",  # noqa: S608 - quoted names
            zip(*columnwise, strict=True),
        )

    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        same = " AND ".join(f"{identifier(key)} = ?" for key in keys)
        self._connection.executemany(
            f"UPDATE {identifier(table)} SET {set_clause(columns)} WHERE {same}",  # noqa: S608 - quoted names
            [(*row[len(keys) :], *row[: len(keys)]) for row in rows],
        )

    def ask_table(self, name: str) -> PendingRows:
        return self.ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name])

    def indexes(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'index'")}

    def inlined(self, value: object) -> object:
        return time_text(value)


def _has_time(values: Iterable[object]) -> bool:
    return any(issubclass(kind, dt.datetime) for kind in set(map(type, values)))


class _SqliteByDuckdb(DuckdbDatabase):
    """A SQLite catalog that is left to DuckDB, in which times are texts."""

    def _cursor(self, sql: str, parameters: Sequence[object]) -> duckdb.DuckDBPyConnection:
        return super()._cursor(sql, [_plain(parameter) for parameter in parameters])

    def inlined(self, value: object) -> object:
        return time_text(value)

    inlined_time = CatalogDatabase.inlined_time

    def indexes(self) -> set[str]:
        raise NotDirectError("a connection of this process reads the SQLite catalog by DuckDB")


def _plain(value: object) -> object:
    return list(map(time_text, value)) if isinstance(value, list) else time_text(value)


class SqliteBackend(FileBackend[SqliteCatalog]):
    """A SQLite file. No connection is kept.

    The connection that DuckDB closes last would remove the WAL file under one that was kept, which would then read, and
    write, a file that no other process sees. For the same reason no driver's transaction may be open during one of
    DuckDB.
    """

    extensions = ("sqlite_scanner",)
    prefix = "sqlite:"
    source_options = ("TYPE sqlite",)
    is_scanned = True
    through_duckdb = _SqliteByDuckdb

    def attach_options(self, *, read_only: bool) -> dict[str, str]:
        """Let a writer set the journal's mode, which the file keeps: else a reader's transaction blocks each commit."""
        return {} if read_only else {"META_JOURNAL_MODE": literal("WAL")}

    def for_reader(self) -> Lake:
        """Return the lake, with a new copy of a catalog that this user may not write.

        The copy remains until the process ends, or until the next one takes its place.
        """
        file = self.catalog.file.absolute()
        if _is_writable(self.catalog.file):
            return self.lake
        try:
            copy = Path(_folder(file).name, file.name)
            with self.exclusive_access():
                _copy_file(file, copy)
        except OSError as error:
            is_refused = isinstance(error, PermissionError)
            raise CatalogError(
                f"the catalog {self.catalog.location} cannot be copied for a reader: {error.strerror or error}:",
                "let this user read that file, and enter its folder."
                if is_refused
                else "set TMPDIR to another folder, with more space, and run it again.",
            ) from error
        return self.lake.model_copy(update={"catalog": self.catalog.model_copy(update={"path": str(copy)})})

    def leave_to_duckdb(self) -> None:
        """Open the file by DuckDB alone from now on in this process, because a user may read it at any time."""
        with self.exclusive_access():
            _LEFT_TO_DUCKDB.add(self.catalog.file.resolve())

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors of the driver."""
        return (sqlite3.Error,)

    @property
    def has_driver(self) -> bool:
        """Whether the file is not left to DuckDB."""
        return self.catalog.file.resolve() not in _LEFT_TO_DUCKDB

    @contextmanager
    def transaction(self, *, writes: bool, lock: Lock | None = None) -> Iterator[CatalogDatabase]:  # noqa: ARG002
        """Begin a transaction on a connection of its own."""
        with self.exclusive_access(), closing(self._connect(writes=writes)) as connection:
            # IMMEDIATE: a transaction that reads first and writes later fails if another writer committed in between.
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield _SqliteDatabase(connection, self.lake.data_path)
                connection.execute("COMMIT" if writes else "END")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        seconds = min(database_backend.BUSY, WRITER_TURN) if writes else database_backend.BUSY
        return sqlite3.connect(self.catalog.path, timeout=seconds, isolation_level=None, check_same_thread=False)

    def is_ready(self) -> bool:
        """Return whether the journal has the mode that an ATTACH sets."""
        return self.rows("PRAGMA journal_mode") == [("wal",)]

    def tidy(self) -> None:
        """Let SQLite remove what DuckDB, as a reader, leaves beside its file, unless another process has it open."""
        if self.has_driver and Path(f"{self.catalog.path}-shm").exists():
            self.rows("SELECT 1 FROM sqlite_master LIMIT 1")  # whoever closes the file last removes it

    @contextmanager
    def lock(self, lock: Lock, timeout: float | None = None) -> Iterator[None]:
        """Hold a lock beside the file; with that of commits, no other thread of this process has the file open."""
        with super().lock(lock, timeout), self.exclusive_access() if lock == COMMITS else nullcontext():
            yield

    def exclusive_access(self) -> AbstractContextManager[object]:
        """Keep other threads of this process from the file; a thread may enter it again."""
        with _GUARD:
            return _THREADS.setdefault(str(self.catalog.file.absolute()), threading.RLock())


# Bytes that are locked, and the first of them.
_FILE = 510, 0x40000002
_CHECKPOINT, _LOG_BYTES = (1, 121), (1, 127)  # of the file `-shm`


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

        if not poll(is_free, pause=pause_between(0.005, 0.015), limit=Limit(seconds=database_backend.BUSY)):
            raise CatalogLockedError(
                f"the catalog's file {path} was locked for {database_backend.BUSY:g} seconds:",
                database_backend.WHO_LOCKS,
            )
        yield file
