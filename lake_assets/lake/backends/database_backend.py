"""What a lake needs of its catalog's database: to attach it, to read and write it by a driver, to lock it.

A lake has two locks: that of its commits, for speed, and that of its files, which maintenance deletes.

DuckLake numbers its snapshots, so one of two overlapping commits must be retried. Waiting for the commit lock is
cheaper. The catalog guarantees correctness: a writer without that lock causes a conflict, never mixed rows.

A commit looks for its new files before it waits for the commit lock, so that no writer waits for the storage of
another. From that look to its end it shares the files lock, which the removal of files without a commit takes alone. So
no file vanishes between the look and the commit, however old it is, and however wrong the clocks of machines are.

A lock ends with its process.
"""

import fcntl
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import duckdb

from lake_assets.base.errors import CatalogError, CatalogLockedError, CatalogUnreachableError
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.config.lake import CatalogModel, FileCatalog, Lake
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, Row

TIMEOUT = 600.0  # seconds; a commit takes well under one
BUSY = 60.0  # seconds that a writer without the lake's lock may hold a catalog
WHO_LOCKS = "run it again when that one has ended: `fuser` on the catalog's file names it, or pg_locks in PostgreSQL."

_UNLOCKED = threading.RLock()  # of threads that read catalogs beside which they can open no lock file


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock of a lake: an advisory one of a PostgreSQL catalog, a file beside a file catalog."""

    name: str  # what it is for
    suffix: str  # of the file
    is_shared: bool = False  # several may have it at once, if no other has it alone


COMMITS = Lock("commit", ".lock")
FILES_IN_USE = Lock("files", ".files.lock", is_shared=True)
FILES_REMOVED = Lock("files", ".files.lock")


@contextmanager
def file_lock(catalog: str, lock: Lock, timeout: float | None = None, *, read_only: bool = False) -> Iterator[None]:
    """Hold a lock that is a file beside this file of a catalog, which must be free within `TIMEOUT` seconds.

    A reader makes no file. Where it can open none, only threads of this process wait for it, and it for nobody.
    """
    path, seconds = Path(f"{catalog}{lock.suffix}"), TIMEOUT if timeout is None else timeout
    with ExitStack() as stack:
        try:
            if lock == COMMITS:
                stack.enter_context(_flock(path, lock, seconds, "r" if read_only else "a"))
            else:
                # Commits whose times overlap would keep maintenance waiting for ever. So it takes the turn, and waits.
                with _flock(Path(f"{path}.turn"), lock, seconds):
                    stack.enter_context(_flock(path, lock, seconds))
        except OSError as error:
            if not read_only:
                raise CatalogError(
                    f"the lock {path} cannot be acquired: {error.strerror}:",
                    "let this user write that file, or its folder if the file does not exist yet.",
                ) from error
            stack.enter_context(_UNLOCKED)
        yield


@contextmanager
def _flock(path: Path, lock: Lock, timeout: float, mode: Literal["a", "r"] = "a") -> Iterator[None]:
    kind = fcntl.LOCK_SH if lock.is_shared else fcntl.LOCK_EX
    with path.open(mode) as file:

        def is_free() -> bool:
            with suppress(BlockingIOError):
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                return True
            return False

        if not poll(is_free, pause=pause_between(0.005, 0.015), limit=Limit(seconds=timeout)):
            raise CatalogLockedError(
                f"the lock {path} was not free within {timeout:g} seconds:",
                "see which process holds it (`fuser` on that file), and run it again when that one has ended.",
            )
        yield


C = TypeVar("C", bound=CatalogModel)
F = TypeVar("F", bound=FileCatalog)

ALIAS = "lake"  # the name of an attached lake that MotherDuck does not manage


class EngineLostError(Exception):
    """A checkpoint failed, and DuckDB closed the catalog."""


class CatalogBackend(ABC, Generic[C]):
    """The database of a lake's catalog. A session has an object of its own, because it may keep a connection."""

    extensions: ClassVar[tuple[str, ...]] = ()  # of DuckDB
    settings: ClassVar[tuple[str, ...]] = ()  # statements for an engine that attaches the lake
    prefix: ClassVar[str] = ""  # of the database in an ATTACH of the lake
    source_options: ClassVar[tuple[str, ...]] = ()  # of an ATTACH of the database itself
    is_exclusive: ClassVar[bool] = False  # a process with the lake attached has the commit lock, and excludes others
    loses_answers: ClassVar[bool] = False  # a server may commit although the connection is lost
    locks_in_transactions: ClassVar[bool] = False  # a transaction acquires its lock itself
    is_scanned: ClassVar[bool] = False  # DuckDB reads whole tables of it, so conditions that prune files do not pay
    through_duckdb: ClassVar[type[CatalogDatabase] | None] = None  # where no driver is; None: only the extension writes

    def __init__(self, lake: Lake, catalog: C) -> None:
        self.lake, self.catalog = lake, catalog

    @property
    @abstractmethod
    def database(self) -> str:
        """The database as ATTACH names it."""

    @property
    def alias(self) -> str:
        """The name of the attached lake."""
        return ALIAS

    @property
    def engine_name(self) -> str:
        """The name of the engine that a user's connections share; empty if each has its own."""
        return ""

    def login(self) -> tuple[str, ...]:
        """Return the statements by which an engine may open the database; they must never be logged.

        Raises ConfigError if the environment lacks a token.
        """
        return ()

    def create_statements(self) -> tuple[str, ...]:
        """Return the statements before the first ATTACH, which itself creates most lakes; they may contain secrets."""
        return ()

    def attach_options(self, *, read_only: bool) -> dict[str, str]:  # noqa: ARG002 - of some
        """Return options of ATTACH for this database."""
        return {}

    def opened(self, *, read_only: bool) -> AbstractContextManager[object]:  # noqa: ARG002 - of some
        """Hold what a process needs as long as it has the lake attached."""
        return nullcontext()

    def detaching(self, engine: duckdb.DuckDBPyConnection) -> AbstractContextManager[object]:  # noqa: ARG002 - of some
        """Surround the DETACH of a lake that was written to; an EngineLostError if the engine was closed."""
        return nullcontext()

    def for_reader(self) -> Lake:
        """Return the lake as a reader of this process can open it, perhaps with a copy of the catalog.

        Raises CatalogError if the catalog cannot be read, and CatalogLockedError if another process keeps it locked.
        """
        return self.lake

    def leave_to_duckdb(self) -> None:
        """Open the database by DuckDB alone from now on in this process, because a user may read it at any time."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors of the driver."""
        return ()

    @property
    def has_driver(self) -> bool:
        """Whether a driver can open the database beside DuckDB."""
        return False

    def transaction(self, *, writes: bool, lock: Lock | None = None) -> AbstractContextManager[CatalogDatabase]:
        """Begin a transaction by the driver, which is committed when the block ends, and rolled back when it raises.

        A lock, if `locks_in_transactions`, is held from before it to its end. Raises CatalogLockedError if it is not
        free in time, CatalogUnreachableError if the server is away, and the driver's `errors`.
        """
        raise NotImplementedError

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the rows of one query by the driver."""
        with self.transaction(writes=False) as database:
            return database.rows(sql, parameters)

    def is_ready(self) -> bool:
        """Return whether an ATTACH for a writer would change nothing."""
        return True

    def tidy(self) -> None:
        """Remove what DuckDB, as a reader, leaves beside a file."""

    def close(self) -> None:
        """Close what is open; the next transaction opens it again."""

    def lock(self, lock: Lock, timeout: float | None = None) -> AbstractContextManager[Any]:  # noqa: ARG002 - of some
        """Hold a lock of the lake. Raises CatalogLockedError if it is not free within `locks.TIMEOUT` seconds.

        A database without locks has only its own check for conflicts, after which a writer retries.
        """
        return nullcontext()

    def exclusive_access(self) -> AbstractContextManager[object]:
        """Keep other threads of this process from the database; a thread may enter it again."""
        return nullcontext()

    def connection_error(self, error: Exception) -> CatalogError | None:  # noqa: ARG002 - of some
        """Return the error for a server that is unreachable or refuses a connection; None for one of a statement."""
        return None

    def ended_while_idle(self, seconds: float) -> CatalogUnreachableError | None:  # noqa: ARG002 - of some
        """Return the error for a session that was lost after so many seconds in a transaction, as a server may end it.

        None if the server ends no session for that so early, or is away.
        """
        return None

    def size(self) -> int | None:
        """Return the bytes of the catalog; None if they are not known."""
        return None


class FileBackend(CatalogBackend[F]):
    """A file on this machine, with the lake's locks as files beside it."""

    @property
    def database(self) -> str:
        """The path of the file."""
        return str(self.catalog.file.absolute())

    def lock(self, lock: Lock, timeout: float | None = None) -> AbstractContextManager[None]:
        """Hold a lock of the lake."""
        return file_lock(self.catalog.path, lock, timeout)

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        files = [Path(f"{self.catalog.path}{suffix}") for suffix in ("", "-wal", ".wal")]
        return sum(_size(file) for file in files)


def _size(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def create_secret(name: str, options: dict[str, str], where: str = "") -> str:
    """Return the statement that creates a secret of DuckDB; it must never be logged."""
    listed = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"CREATE OR REPLACE SECRET {name}{where} ({listed})"
