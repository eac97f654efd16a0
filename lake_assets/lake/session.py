"""An open DuckLake: its statements, transactions and snapshots, and writes that are retried beside other writers."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import duckdb

from lake_assets.base.duckdb_engine import Engine, identifier
from lake_assets.base.errors import CatalogError, CatalogLockedError, CatalogUnreachableError, CommitConflictError
from lake_assets.base.retrying import Limit, Result, pause_up_to, retry
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import PartitionColumn
from lake_assets.lake.attach import attach_statement, secret_statements
from lake_assets.lake.backends import catalog_backend, database_backend
from lake_assets.lake.backends.database_backend import ALIAS, COMMITS, FILES_IN_USE, WHO_LOCKS, Lock
from lake_assets.lake.backends.duckdb_file import DuckdbDatabase
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, HiddenTablesError, NotDirectError
from lake_assets.lake.database_errors import Fault, matches
from lake_assets.lake.failures import catalog_error, is_conflict, is_locked, translated

AUTHOR = "lake_assets"  # of snapshots
_IN_TRANSACTION = "DuckDB has an open transaction"
KEYS_SECONDS = 300.0  # for which an engine keeps the keys of a role, which are valid for longer

# DuckDB's names of the file systems of the lake's storages; a disabled one cannot be enabled again in its engine.
_DISABLE_FILES = (
    "SET disabled_filesystems = "
    "'LocalFileSystem,S3FileSystem,HTTPFileSystem,AzureBlobStorageFileSystem,AzureDfsStorageFileSystem'"
)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of the lake."""

    schema: str
    table: str
    lake: str = ALIAS  # the name of the attached lake

    @property
    def sql(self) -> str:
        """The name for a statement, every part quoted."""
        return ".".join(identifier(part) for part in (self.lake, self.schema, self.table))

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class PartitionedTable:
    """A table, and the columns that partition it."""

    name: TableName
    columns: Sequence[PartitionColumn]

    def __str__(self) -> str:
        return str(self.name)


class LakeSession:
    """An open lake. Statements have bound parameters; a failed statement rolls back its transaction.

    DuckDB attaches the lake when it first runs a statement. If the catalog's own driver does all the work, it never
    does.
    """

    takes_locks = True  # of the lake; the catalog refuses overlapping commits of a writer that does not

    def __init__(
        self,
        config: Lake,
        engine: Engine,
        attach: Callable[[duckdb.DuckDBPyConnection], object] | None = None,
        renew: Engine | None = None,
    ) -> None:
        self.config = config
        self._open = engine
        self.backend = catalog_backend(config)
        self.in_transaction = False  # of DuckDB, whose changes the driver does not see
        self.descriptions: dict[object, Any] = {}  # the tables that `catalog/described.py` has read, by their names
        self._held = set[str]()  # the names of locks
        self._attach = self._attach_again = attach
        self._renew = renew  # gives another engine
        self._committed: int | None = None  # the last snapshot of an engine that was replaced
        has_role = any(storage.has_role for storage in config.storages)
        self._renewal = 0.0 if has_role else math.inf  # when the engine gets keys again

    @cached_property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with the extensions of the lake, and the secrets of its storages."""
        return self._open()

    @property
    def is_attached(self) -> bool:
        """Whether DuckDB has attached the lake."""
        return self._attach is None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with the lake attached, and with keys that are valid for a while."""
        self._renew_keys()
        if self._attach is not None:
            self._attach(self.engine)
            self._attach = None
        return self.engine

    def _renew_keys(self) -> None:
        """Let the engine have new keys of a role, which the older ones outlive."""
        if time.monotonic() >= self._renewal and not self.in_transaction:
            for statement in secret_statements(self.config):
                self.engine.execute(statement)
            self._renewal = time.monotonic() + KEYS_SECONDS

    @property
    def alias(self) -> str:
        """The name of the attached lake."""
        return self.backend.alias

    @property
    def metadata(self) -> str:
        """The database and schema of the catalog's own tables, for a statement.

        Raises HiddenTablesError if they cannot be used.
        """
        if (reason := self.unknown_specification) is not None:
            if self.config.is_managed:
                raise HiddenTablesError(f"{reason}:", "read its tables by lake_assets.connect.")
            raise HiddenTablesError(f"{reason}:", "use a version of lake_assets that knows it.")
        return self._metadata

    @property
    def _metadata(self) -> str:
        return spec.database(ALIAS, self.config.metadata_schema)

    @cached_property
    def unknown_specification(self) -> str | None:
        """Why the catalog's own tables cannot be used; None if they can."""
        if self.config.is_managed:
            return "MotherDuck does not show the tables of its catalog"
        versions = self.rows(f"SELECT value FROM {self._metadata}.{spec.METADATA} WHERE key = 'version'")  # noqa: S608
        return spec.unknown(versions[0][0] if versions else None)

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement returns."""
        with translated(self.config), self.backend.exclusive_access():
            return self.connection.execute(sql, parameters).fetchall()

    def engine_rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that reads files and nothing of the catalog; the lake is not attached."""
        with translated(self.config):
            self._renew_keys()
            return self.engine.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self, *, writes_files: bool = False) -> Iterator[None]:
        """Commit all statements of the block, or none of them.

        After a failed statement DuckDB's COMMIT may commit the statements before it, so every exception rolls back.

        `writes_files`: DuckLake writes files in the block. If its COMMIT fails, it deletes them, also if the server of
        the catalog has committed and only the answer was lost. On PostgreSQL it is kept from that: the COMMIT then
        fails as after a conflict, and maintenance deletes the files of a commit that was not made.
        """
        keeps_files = writes_files and self._renew is not None and self.backend.loses_answers
        begun = time.monotonic()
        with translated(self.config):
            self.connection.execute("BEGIN")
        self.in_transaction, self._committed = True, None
        try:
            yield
            with translated(self.config):
                if keeps_files:
                    self._commit_with_files()
                else:
                    self.connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if writes_files and isinstance(error, CatalogUnreachableError):
                raise (self.backend.ended_while_idle(time.monotonic() - begun) or error) from error.__cause__
            raise
        finally:
            self.in_transaction = False

    def _commit_with_files(self) -> None:
        assert self._renew is not None  # noqa: S101 - the caller checks
        connection = self.connection
        try:
            connection.execute(_DISABLE_FILES)
            connection.execute("COMMIT")
            self._committed = _last_committed(connection, self.alias)
        except duckdb.Error as error:
            if not matches(error, Fault.FILES_KEPT):
                raise
            raise duckdb.TransactionException(
                "transaction conflict at the commit, or the connection to the catalog was lost"
            ) from error
        finally:
            self.engine, self._attach = self._renew(), self._attach_again

    def _roll_back(self) -> None:
        # A failed COMMIT or a lost connection has already ended the transaction; the first error is raised.
        with suppress(duckdb.Error):
            self.engine.execute("ROLLBACK")

    def reattach(self) -> None:
        """Detach and attach the lake, before a failed transaction is retried.

        The state that DuckLake 1.5.5 keeps after a failed commit is not reliable: on a SQLite catalog in WAL mode the
        next DELETE crashed the process in one of four runs of three writers without the lock.
        """
        self.backend.close()
        self.descriptions.clear()
        if self.config.is_managed or not self.is_attached:
            return  # a managed lake is attached by the server
        with translated(self.config):
            self.connection.execute(f"DETACH DATABASE IF EXISTS {self.alias}")
            self.connection.execute(attach_statement(self.config))

    def current_snapshot(self) -> int:
        """Return the number of the newest snapshot; in a transaction, of the snapshot on which it began."""
        rows = self._rows_by_driver(f"SELECT max(snapshot_id) FROM {spec.SNAPSHOT}")  # noqa: S608 - a constant
        ((current,),) = rows or self.rows("SELECT id FROM ducklake_current_snapshot(?)", [self.alias])
        return int(current)

    def committed_snapshot(self) -> int | None:
        """Return the number of the snapshot that DuckDB's last transaction has become."""
        if self._committed is not None:
            return self._committed
        with translated(self.config):
            return _last_committed(self.connection, self.alias)

    def sign(self, author: str, message: str, extra_info: str | None = None) -> None:
        """Set the message of the snapshot that the open transaction commits."""
        more, values = ("", []) if extra_info is None else (", extra_info => ?", [extra_info])
        self.rows(f"CALL {identifier(self.alias)}.set_commit_message(?, ?{more})", [author, message, *values])

    def commit_lock(self) -> AbstractContextManager[None]:
        """Return the lock that serializes commits, as `lock`."""
        return self.lock(COMMITS)

    @property
    def queues(self) -> bool:
        """Whether a commit must wait for the commit lock: this session takes locks, and does not have that one."""
        return self.takes_locks and COMMITS.name not in self._held

    @contextmanager
    def lock(self, lock: Lock) -> Iterator[None]:
        """Hold a lock of the lake; a block within may ask for it again.

        That of the files must be acquired before that of commits. Raises CatalogLockedError if it is not free within
        `locks.TIMEOUT` seconds.
        """
        # `DuckLake.open` holds the lock of a catalog that one process at a time can open.
        if self.backend.is_exclusive or not self.takes_locks or lock.name in self._held:
            yield
            return
        with self.backend.lock(lock):
            self._held.add(lock.name)
            try:
                yield
            finally:
                self._held.discard(lock.name)

    def exists(self, table: TableName) -> bool:
        """Return whether the lake has this table."""
        # DuckDB reads the names of all tables, and of their columns.
        if self._rows_by_driver(f"SELECT 1 {spec.FROM_LIVE_TABLE}", [table.schema, table.table]):
            return True
        tables = self.rows(
            "SELECT 1 FROM information_schema.tables "
            "WHERE table_catalog = ? AND lower(table_schema) = lower(?) AND lower(table_name) = lower(?)",
            [self.alias, table.schema, table.table],
        )
        return bool(tables)

    def _rows_by_driver(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the catalog's tables, by its driver; none if DuckDB must be asked."""
        if not self.in_transaction and self.unknown_specification is None:
            with suppress(*self.backend.errors), self.backend.exclusive_access():  # DuckDB says what is wrong
                if self.backend.has_driver:
                    return self.backend.rows(query, parameters)
        return []

    @contextmanager
    def read(self, *, by_duckdb: bool = False) -> Iterator[CatalogDatabase]:
        """Open one state of the catalog's own tables for reading, by the driver of their database if there is one.

        That database applies a statement's conditions, so only the rows that it returns are read; DuckDB's scanner of
        SQLite reads whole tables instead. DuckDB must not be used meanwhile. With `by_duckdb`, statements may be in
        DuckDB's own SQL, and do not see the changes of its open transaction.

        Raises HiddenTablesError, or NotDirectError if DuckDB has an open transaction.
        """
        if not by_duckdb and (self.backend.has_driver or self.backend.through_duckdb is not None):
            with self._opened(writes=False) as database:
                yield database
            return
        if not by_duckdb and self.in_transaction:
            raise NotDirectError(_IN_TRANSACTION)
        with translated(self.config), self.connection.cursor() as connection:
            connection.execute(f"USE {self.metadata}")
            yield DuckdbDatabase(connection, self.config.data_path)

    @contextmanager
    def write(self) -> Iterator[CatalogDatabase]:
        """Begin a transaction over the catalog's own tables, which is committed when the block ends, or rolled back.

        The lake's commit lock is held from before it to its end. Raises CatalogLockedError if another process keeps it
        or the catalog locked, HiddenTablesError, and NotDirectError if DuckDB has an open transaction or only
        DuckLake's extension can write the tables.
        """
        with self._opened(writes=True) as database:
            yield database

    @contextmanager
    def _opened(self, *, writes: bool) -> Iterator[CatalogDatabase]:
        _ = self.metadata  # raises HiddenTablesError
        if self.in_transaction:
            raise NotDirectError(_IN_TRANSACTION)
        backend, kind = self.backend, self.backend.through_duckdb
        queues = writes and self.queues
        locks_before = queues and not backend.locks_in_transactions
        errors: tuple[type[Exception], ...] = (duckdb.Error, *backend.errors)
        try:
            with self.commit_lock() if locks_before else nullcontext(), backend.exclusive_access():
                if backend.has_driver:
                    with backend.transaction(writes=writes, lock=COMMITS if queues else None) as database:
                        yield database
                elif kind is not None:
                    with self._through_duckdb(kind) as database:
                        yield database
                else:
                    raise NotDirectError(f"only the extension can reach a catalog of type {self.config.catalog.type}")
        except errors as error:
            raise catalog_error(error, self.config) from error

    @contextmanager
    def _through_duckdb(self, kind: type[CatalogDatabase]) -> Iterator[CatalogDatabase]:
        # The file is open in this process already, as the database that DuckLake itself attached.
        with self.connection.cursor() as connection:
            connection.execute(f"USE {self.metadata}")
            connection.execute("BEGIN")
            try:
                yield kind(connection, self.config.data_path)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(duckdb.TransactionException):  # a failed COMMIT has already ended the transaction
                    connection.execute("ROLLBACK")
                raise


def _last_committed(connection: duckdb.DuckDBPyConnection, alias: str) -> int | None:
    ((snapshot,),) = connection.execute("SELECT id FROM ducklake_last_committed_snapshot(?)", [alias]).fetchall()
    return None if snapshot is None else int(snapshot)


_LOG = logging.getLogger(__name__)


def under_lock(session: LakeSession, work: Callable[[], Result], what: str) -> Result:
    """Write `what` to the catalog under the lake's lock, and retry after a conflict with a writer without the lock.

    `work` writes all or nothing, perhaps twice, if the answer of a commit is lost.
    """

    def one_try() -> Result:
        with session.commit_lock():
            return work()

    return write_retried(session, one_try, what)


def write_retried(
    session: LakeSession,
    work: Callable[[], Result],
    what: str,
    find: Callable[[], Result | None] = lambda: None,
    *,
    retry_seconds: float | None = None,
) -> Result:
    """Write `what` to the catalog, and retry after a conflict with another writer, under the lake's locks.

    A conflict is retried `commit_retries` times. While another process has locked the catalog, retries go on until
    `retry_seconds` seconds have passed; `database_backend.BUSY` when None, and 0 is one try.

    `work` writes all or nothing; its first try acquires the lake's locks itself. `find` is called before a retry, and
    after the connection was lost; it finds the result of an earlier try whose answer was lost. Without it, the work may
    be done twice. Raises CatalogLockedError or CommitConflictError if nothing was written because of other writers.
    """
    tries = count()
    seconds = database_backend.BUSY if retry_seconds is None else retry_seconds

    def one_try() -> Result:
        if not next(tries):
            return work()
        session.reattach()
        # The locks of an earlier try whose answer was lost end with its transaction.
        with session.lock(FILES_IN_USE), session.commit_lock():
            return work() if (earlier := find()) is None else earlier

    def limit(error: BaseException) -> Limit:
        if is_locked(error):
            return Limit(seconds=seconds)
        return Limit(retries=session.config.commit_retries)

    try:
        return retry(one_try, transient=_kind, limit=limit, pause=pause_up_to(0.05, 2))
    except CatalogUnreachableError as lost:
        if (earlier := _found_after(session, find)) is None:
            raise
        _LOG.warning("%s was written, though its answer was lost: %s", what, lost)
        return earlier
    except (CatalogError, duckdb.Error) as error:
        if not is_conflict(error):
            raise
        raise _exhausted(error, what, next(tries), seconds) from error


def _kind(error: BaseException) -> str | None:
    """Return the word for an error of other writers; None for another error."""
    return "locked" if is_locked(error) else "conflict" if is_conflict(error) else None


def _found_after(session: LakeSession, find: Callable[[], Result | None]) -> Result | None:
    """Return the result of a commit whose answer was lost with the connection; None if it is not there, or unknown."""
    with suppress(CatalogError, duckdb.Error, *session.backend.errors):  # the first error is raised
        session.reattach()
        return find()
    return None


def _exhausted(error: BaseException, what: str, tries: int, seconds: float) -> CommitConflictError:
    if is_locked(error):
        since = f" for {seconds:g} seconds" if seconds else ""
        return CatalogLockedError(f"{what} was not written: another process has locked the catalog{since}:", WHO_LOCKS)
    return CommitConflictError(
        f"{what} was not written: other writers were faster {tries} times:", "run it again, or raise commit_retries."
    )
