"""A transaction over DuckLake's metadata tables by the driver of the catalog's database."""

import datetime as dt
import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb

from lake_assets.base.duckdb_engine import identifier
from lake_assets.config.catalogs import DuckdbCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog_driver import driver_errors
from lake_assets.lake.failures import catalog_error, translated
from lake_assets.lake.locks import COMMITS, exclusive_access
from lake_assets.lake.session import LakeSession

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]
Answer = Callable[[], list[Row]]
"""The rows that a query returns, which was sent before."""

_AT_ONCE = 500  # values in one statement
_ROWS_AT_ONCE = 10_000  # in one statement


def among(values: Sequence[object]) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield what follows `IN` in a statement for these values, with the values; of many, for several statements."""
    for start in range(0, len(values), _AT_ONCE):
        some = values[start : start + _AT_ONCE]
        yield f"({', '.join('?' for _ in some)})", some


class NotDirectError(Exception):
    """The direct strategy does not support this commit; nothing was written. The text is the reason."""


class CatalogDatabase(ABC):
    """An open transaction. Statements mark parameters by `?`, and contain no other question mark or percent sign."""

    by_time = ""  # what follows an inlined time in a statement that compares or orders it

    def __init__(self, connection: Any, root: str) -> None:  # noqa: ANN401 - of the driver
        self._connection = connection
        self.root = root  # URI of the lake's folder, ending in a slash

    @cached_property
    def version(self) -> spec.Version:
        """The version of DuckLake's specification in this transaction.

        Raises NotDirectError if it is not among the tested ones.
        """
        versions = self.rows(spec.VERSION_QUERY)
        if (reason := spec.unknown(versions[0][0] if versions else None)) is not None:
            raise NotDirectError(reason)
        return spec.VERSIONS[versions[0][0]]

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the rows that a query returns."""
        rows: list[Row] = self._cursor(sql, parameters).fetchall()
        return rows

    def ask(self, sql: str, parameters: Sequence[object] = ()) -> Answer:
        """Send a query; the answer is to be fetched once, in this transaction.

        Queries that are sent before the first answer is fetched take one round trip to PostgreSQL together.
        """
        rows = self.rows(sql, parameters)
        return lambda: rows

    def rows_among(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Return the rows of a query that ends with `IN`, for these values; of many, by several statements."""
        return [row for marks, some in among(values) for row in self.rows(f"{sql} {marks}", some)]

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        cursor = self._cursor(f"SELECT * FROM {identifier(table)} LIMIT 0", ())
        cursor.fetchall()
        return [column[0] for column in cursor.description]

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run a statement that returns nothing."""
        self._cursor(sql, parameters)

    @abstractmethod
    def _cursor(self, sql: str, parameters: Sequence[object]) -> Any:  # noqa: ANN401 - of the driver
        """Return the driver's cursor after a statement."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows to a table."""

    @abstractmethod
    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Set columns of a table's rows. Each of `rows` has the values of the keys of one, and of these columns."""

    def has_table(self, name: str) -> bool:
        """Return whether the catalog's database has this table."""
        return bool(self.ask_table(name)())

    @abstractmethod
    def ask_table(self, name: str) -> Answer:
        """Ask whether the catalog's database has this table; the answer has a row if it does."""

    def indexes(self) -> set[str]:
        """Return the names of the indexes in the catalog's database.

        Raises NotDirectError if it is better off without any.
        """
        raise NotDirectError("DuckDB refuses later changes of a table with an index")

    @abstractmethod
    def inlined(self, value: object) -> object:
        """Return a text, integer, time or None as this catalog stores it in a table of inlined rows."""

    def inlined_time(self, moment: dt.datetime) -> object:
        """Return a time that inlined times are compared with."""
        # Without zeros at its end: a time is then stored as this text, or as one with more zeros, which sorts after it.
        text = moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return text.rstrip("0").rstrip(".") + "+00"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(identifier, columns))


def _time_text(value: object) -> object:
    """Return a time as the text from which DuckDB reads a TIMESTAMPTZ; other values unchanged."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")
    return value


def _has_time(values: Iterable[object]) -> bool:
    return any(issubclass(kind, dt.datetime) for kind in set(map(type, values)))


class _Sqlite(CatalogDatabase):
    def _cursor(self, sql: str, parameters: Sequence[object]) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self._connection.execute(sql, [_time_text(p) for p in parameters])
        return cursor

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = ", ".join("?" for _ in columns)
        columnwise = [list(map(_time_text, c)) if _has_time(c) else c for c in zip(*rows, strict=True)]
        self._connection.executemany(
            f"INSERT INTO {identifier(table)} ({_names(columns)}) VALUES ({marks})", zip(*columnwise, strict=True)
        )

    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        same = " AND ".join(f"{identifier(key)} = ?" for key in keys)
        self._connection.executemany(
            f"UPDATE {identifier(table)} SET {_set(columns)} WHERE {same}",
            [(*row[len(keys) :], *row[: len(keys)]) for row in rows],
        )

    def ask_table(self, name: str) -> Answer:
        return self.ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name])

    def indexes(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'index'")}

    def inlined(self, value: object) -> object:
        return _time_text(value)


def _set(columns: Sequence[str], source: str = "") -> str:
    """Return what follows SET in a statement: each column has a parameter, or the value of a source's column."""
    return ", ".join(f"{identifier(c)} = {f'{source}.{identifier(c)}' if source else '?'}" for c in columns)


class _Postgres(CatalogDatabase):
    by_time = 'COLLATE "C"'  # the times are texts

    def _cursor(self, sql: str, parameters: Sequence[object]) -> "psycopg.Cursor[Row]":
        cursor: psycopg.Cursor[Row] = self._connection.execute(sql.replace("?", "%s").encode(), parameters)
        return cursor

    def ask(self, sql: str, parameters: Sequence[object] = ()) -> Answer:
        return self._cursor(sql, parameters).fetchall

    # A COPY cannot be sent without waiting for the answer of the statement before, and a list for each column needs
    # the columns' types.

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = _names(columns)
        for source, texts in _sources(table, columns, rows):
            self.execute(f"INSERT INTO {identifier(table)} ({names}) SELECT {names} FROM {source}", [texts])

    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        same = " AND ".join(f"t.{identifier(key)} = v.{identifier(key)}" for key in keys)
        for source, texts in _sources(table, [*keys, *columns], rows):
            self.execute(f"UPDATE {identifier(table)} t SET {_set(columns, 'v')} FROM {source} v WHERE {same}", [texts])

    def ask_table(self, name: str) -> Answer:
        return self.ask("SELECT 1 WHERE to_regclass(?) IS NOT NULL", [identifier(name)])

    def indexes(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")}

    def inlined(self, value: object) -> object:
        # DuckLake stores text as bytes here, because PostgreSQL's text cannot contain a zero byte.
        return value.encode() if isinstance(value, str) else _time_text(value)


def _sources(table: str, columns: Sequence[str], rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield rows for statements of PostgreSQL: a source whose columns have the types of the table, and its JSON."""
    source = f"json_populate_recordset(NULL::{identifier(table)}, ?)"
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = (dict(zip(columns, row, strict=True)) for row in rows[start : start + _ROWS_AT_ONCE])
        yield source, json.dumps(list(some), ensure_ascii=False, default=_json_value)


def _json_value(value: object) -> str:
    """Return a value that JSON has not as the text from which PostgreSQL reads it."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


class _Duckdb(CatalogDatabase):
    def _cursor(self, sql: str, parameters: Sequence[object]) -> duckdb.DuckDBPyConnection:
        cursor: duckdb.DuckDBPyConnection = self._connection.execute(sql, parameters)
        return cursor

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        # A list for each column: with `executemany` DuckDB runs a statement for each row, a hundred times slower.
        lists = ", ".join("unnest(?)" for _ in columns)
        self.execute(
            f"INSERT INTO {identifier(table)} ({_names(columns)}) SELECT {lists}",
            [list(values) for values in zip(*rows, strict=True)],
        )

    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        lists = ", ".join(f"unnest(?) AS {identifier(name)}" for name in (*keys, *columns))
        same = " AND ".join(f"t.{identifier(key)} = v.{identifier(key)}" for key in keys)
        self.execute(
            f"UPDATE {identifier(table)} t SET {_set(columns, 'v')} FROM (SELECT {lists}) v WHERE {same}",
            [list(values) for values in zip(*rows, strict=True)],
        )

    def ask_table(self, name: str) -> Answer:
        # DuckLake hides this database from duckdb_tables() and similar functions.
        rows = [(1,)]
        try:
            self.execute(f"SELECT 1 FROM {identifier(name)} LIMIT 0")
        except duckdb.CatalogException:
            rows = []
        return lambda: rows

    def inlined(self, value: object) -> object:
        return value

    def inlined_time(self, moment: dt.datetime) -> object:
        return moment


class _SqliteByDuckdb(_Duckdb):
    """A SQLite catalog that is left to DuckDB, in which times are texts."""

    def _cursor(self, sql: str, parameters: Sequence[object]) -> duckdb.DuckDBPyConnection:
        return super()._cursor(sql, [_plain(parameter) for parameter in parameters])

    def inlined(self, value: object) -> object:
        return _time_text(value)

    inlined_time = CatalogDatabase.inlined_time

    def indexes(self) -> set[str]:
        raise NotDirectError("a connection of this process reads the SQLite catalog by DuckDB")


def _plain(value: object) -> object:
    return list(map(_time_text, value)) if isinstance(value, list) else _time_text(value)


def catalog_transaction(session: LakeSession) -> AbstractContextManager[CatalogDatabase]:
    """Begin a transaction that is committed when the block ends, and rolled back when the block raises.

    The lake's commit lock is held from before it to its end. Raises CatalogLockedError if another process keeps it or
    the catalog locked, and NotDirectError if no database of the catalog can be opened beside the extension.
    """
    if session.config.inserts_only:
        raise NotDirectError("the lake accepts rows only through INSERT, and no files that were written outside of it")
    return _opened(session, writes=True, queues=session.queues)


def statistics_transaction(session: LakeSession) -> AbstractContextManager[CatalogDatabase]:
    """Begin a transaction as `catalog_transaction`, of any lake, for statistics of files that DuckLake has written.

    It does not acquire the commit lock.
    """
    return _opened(session, writes=True)


def catalog_reading(session: LakeSession) -> AbstractContextManager[CatalogDatabase]:
    """Open one state of the catalog by the driver of its database, for reading only; it blocks no writer."""
    return _opened(session, writes=False)


@contextmanager
def _opened(session: LakeSession, *, writes: bool, queues: bool = False) -> Iterator[CatalogDatabase]:
    catalog = session.config.catalog
    if (reason := session.unknown_specification) is not None:
        raise NotDirectError(reason)
    if session.in_transaction:
        raise NotDirectError("DuckDB has an open transaction")
    if not isinstance(catalog, SqliteCatalog | PostgresCatalog | DuckdbCatalog):
        raise NotDirectError(f"only the extension can reach a catalog of type {catalog.type}")
    errors: tuple[type[Exception], ...] = (duckdb.Error, *driver_errors(session.config))
    try:
        is_sqlite = session.driver.is_sqlite
        with session.commit_lock() if queues and is_sqlite else nullcontext(), exclusive_access(session.config):
            if not session.driver.exists:
                with _duckdb(session) as database:
                    yield database
            else:
                with session.driver.transaction(writes=writes, lock=COMMITS if queues else None) as connection:
                    yield (_Sqlite if is_sqlite else _Postgres)(connection, session.config.data_path)
    except errors as error:
        raise catalog_error(error, session.config) from error


@contextmanager
def catalog_view(session: LakeSession) -> Iterator[CatalogDatabase]:
    """Open the tables of any catalog through DuckDB, for reading only, without a transaction."""
    with translated(session.config), session.connection.cursor() as connection:
        connection.execute(f"USE {session.metadata}")
        yield _Duckdb(connection, session.config.data_path)


@contextmanager
def catalog_tables(session: LakeSession) -> Iterator[CatalogDatabase]:
    """Open the tables of any catalog for reading, by the driver of its database if possible, else through DuckDB.

    That database applies a statement's conditions, so only the rows that it returns are read. DuckDB's scanner of
    SQLite reads whole tables instead. DuckDB must not be used meanwhile. Raises SpecificationError if this package does
    not know the version of the catalog's tables.
    """
    _ = session.metadata  # refuses an unknown version
    with ExitStack() as stack:
        try:
            database = stack.enter_context(catalog_reading(session))
        except NotDirectError:
            database = stack.enter_context(catalog_view(session))
        yield database


@contextmanager
def _duckdb(session: LakeSession) -> Iterator[CatalogDatabase]:
    # The file is open in this process already, as the database that DuckLake itself attached.
    with session.connection.cursor() as connection:
        connection.execute(f"USE {session.metadata}")
        connection.execute("BEGIN")
        try:
            kind = _SqliteByDuckdb if session.driver.is_sqlite else _Duckdb
            yield kind(connection, session.config.data_path)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.TransactionException:
        return  # a failed COMMIT has already ended the transaction
