"""What a lake needs of its catalog's database: to attach it, to read and write it by a driver, to lock it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import duckdb

from lake_assets.base.errors import CatalogError, CatalogUnreachableError
from lake_assets.config.catalogs import CatalogModel, FileCatalog
from lake_assets.config.lake import Lake
from lake_assets.lake.catalog.database import CatalogDatabase, Row
from lake_assets.lake.locks import Lock, file_lock

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
    is_exclusive: ClassVar[bool] = (
        False  # a process with the lake attached has the lock of commits, and excludes others
    )
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
