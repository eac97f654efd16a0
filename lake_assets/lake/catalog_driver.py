"""Connections to the database of a SQLite or PostgreSQL catalog by its own driver, beside DuckDB's."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from lake_assets.base.duckdb_engine import identifier
from lake_assets.config.catalogs import PostgresCatalog, SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.lake import failures
from lake_assets.lake.locks import TIMEOUT, Lock, begin, end, exclusive_access, held, in_transaction, next_transaction
from lake_assets.lake.postgres import connect, unreachable_now

WRITER_TURN = 5.0  # seconds that SQLite itself retries a write; `retry.under_lock` retries it for longer

_LEFT_TO_DUCKDB: set[Path] = set()


def leave_to_duckdb(lake: Lake) -> None:
    """Open a SQLite catalog by DuckDB alone from now on in this process, because a user may read it at any time.

    DuckDB has an SQLite of its own, and two of them in one process do not see each other's locks: a transaction of the
    driver beside a query of DuckDB can damage the file.
    """
    if isinstance(lake.catalog, SqliteCatalog):
        with exclusive_access(lake):
            _LEFT_TO_DUCKDB.add(Path(lake.catalog.path).resolve())


class Driver:
    """Connections of one session, which are not shared by threads.

    A connection to PostgreSQL is kept for further transactions. One to SQLite is not: DuckDB has an SQLite of its own,
    and two of them in one process do not see each other's locks. The connection that DuckDB closes last would remove
    the WAL file under one that was kept, which would then read, and write, a file that no other process sees. For the
    same reason no driver's transaction may be open during one of DuckDB.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._connection: Any = None
        self._is_busy = False
        self._locks = 0  # that the connection holds for longer than a transaction

    @property
    def exists(self) -> bool:
        """Whether the catalog has such a database, which is not left to DuckDB."""
        catalog = self._lake.catalog
        if isinstance(catalog, SqliteCatalog):
            return Path(catalog.path).resolve() not in _LEFT_TO_DUCKDB
        return isinstance(catalog, PostgresCatalog)

    @property
    def is_sqlite(self) -> bool:
        """Whether the catalog is a SQLite file; else it is a PostgreSQL database."""
        return isinstance(self._lake.catalog, SqliteCatalog)

    @contextmanager
    def transaction(self, *, writes: bool, lock: Lock | None = None) -> Iterator[Any]:
        """Begin a transaction on the connection; a second one at a time has a connection of its own.

        It is committed when the block ends, and rolled back when the block raises. In PostgreSQL, the statements of the
        block are sent without waiting, until the first rows that it fetches; so are those after them. A lock is held
        from before the transaction to its end, without a round trip of its own; only in PostgreSQL.

        Raises CatalogLockedError if the lock is not free within `locks.TIMEOUT` seconds, CatalogUnreachableError if the
        server is away, and the database's own sqlite3.Error or psycopg.Error.
        """
        if self._is_busy or self.is_sqlite:
            with (
                exclusive_access(self._lake),
                closing(self._connect(writes=writes)) as connection,
                self._sqlite(connection, writes=writes) if self.is_sqlite else self._postgres(connection, lock),
            ):
                yield connection
            return
        with self._kept() as connection, self._postgres(connection, lock):
            yield connection

    @contextmanager
    def held(self, lock: Lock) -> Iterator[None]:
        """Hold a lock of a PostgreSQL catalog, on the connection that transactions have too."""
        catalog = self._lake.catalog
        assert isinstance(catalog, PostgresCatalog)  # noqa: S101 - the caller checks
        with ExitStack() as stack:
            if self._is_busy:
                connection = stack.enter_context(closing(self._connect(writes=True)))
            else:
                connection = self._kept_connection()
            stack.enter_context(held(catalog, connection, lock))
            self._locks += 1
            try:
                yield
            finally:
                self._locks -= 1

    def _kept_connection(self) -> Any:  # noqa: ANN401 - of the driver
        """Return the connection that is kept. A lost one with locks is not replaced: what follows relies on these."""
        if self._connection is None:
            catalog = self._lake.catalog
            if self._locks and isinstance(catalog, PostgresCatalog):
                raise unreachable_now(catalog, "the connection with the lake's lock was lost")
            self._connection = self._connect(writes=True)
        return self._connection

    @contextmanager
    def _kept(self) -> Iterator[Any]:
        """Yield the connection that is kept, and mark it as busy."""
        self._kept_connection()
        self._is_busy = True
        try:
            yield self._connection
        finally:
            self._is_busy = False

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one query, which marks its parameters by `?` and contains no other `?` or percent sign."""
        with self.transaction(writes=False) as connection:
            found = connection.execute(sql if self.is_sqlite else sql.replace("?", "%s").encode(), parameters)
            rows: list[tuple[Any, ...]] = found.fetchall()
        return rows

    def tidy(self) -> None:
        """Let SQLite remove what DuckDB, as a reader, leaves beside its file, unless another process has it open."""
        catalog = self._lake.catalog
        if isinstance(catalog, SqliteCatalog) and self.exists and Path(f"{catalog.path}-shm").exists():
            self.rows("SELECT 1 FROM sqlite_master LIMIT 1")  # whoever closes the file last removes it

    def close(self) -> None:
        """Close the connection; the next transaction opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # a lost connection
                connection.close()

    def _connect(self, *, writes: bool) -> Any:  # noqa: ANN401 - of the driver
        catalog = self._lake.catalog
        if isinstance(catalog, SqliteCatalog):
            seconds = min(failures.BUSY, WRITER_TURN) if writes else failures.BUSY
            return sqlite3.connect(catalog.path, timeout=seconds, isolation_level=None, check_same_thread=False)
        assert isinstance(catalog, PostgresCatalog)  # noqa: S101 - the caller checks
        return connect(catalog, autocommit=True)  # each block begins its transaction itself, with its other statements

    @contextmanager
    def _sqlite(self, connection: sqlite3.Connection, *, writes: bool) -> Iterator[None]:
        # IMMEDIATE: a transaction that reads first and writes later fails if another writer committed in between.
        connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        try:
            yield
            connection.execute("COMMIT" if writes else "END")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _postgres(self, connection: Any, lock: Lock | None) -> Iterator[None]:  # noqa: ANN401
        import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

        acquired: Any = None
        is_last = not in_transaction(connection)
        try:
            with connection.pipeline():
                if is_last:
                    begin(connection)
                if lock is not None:
                    acquired = lock.ask(connection, TIMEOUT)
                    lock.give_to_transaction(connection)
                # A role, a database or PGOPTIONS may have another one, and a pooler keeps no session for ours.
                connection.execute(
                    "SELECT set_config('search_path', %s, true)", [identifier(self._lake.catalog_schema)]
                )
                yield
                end(connection, "COMMIT", is_last=is_last)
        except BaseException as error:
            try:
                if lock is not None and in_transaction(connection):
                    next_transaction(connection, "ROLLBACK")
                    lock.release(connection)  # which it may not have, of which the server makes a notice
                end(connection, "ROLLBACK", is_last=is_last)
            except Exception:  # noqa: BLE001 - the connection is lost, and the first error is raised
                connection.close()  # with it the lock
                if connection is self._connection:
                    self._connection = None
            is_acquired = acquired is not None and acquired.pgresult is not None
            if lock is not None and isinstance(error, psycopg.errors.LockNotAvailable) and not is_acquired:
                raise lock.not_free(TIMEOUT) from None
            raise


def driver_errors(lake: Lake) -> tuple[type[Exception], ...]:
    """Return the errors of the driver of this lake's catalog."""
    if not isinstance(lake.catalog, PostgresCatalog):
        return (sqlite3.Error,)
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    return (psycopg.Error,)
