"""A catalog in a PostgreSQL database: its connections and locks, and the errors of a server that is away or refuses.

A lock is one of a session, which is in a transaction as long as it has a lock: a pooler (PgBouncer in transaction mode)
lets no other client have the session then, and ends it with its client.
"""

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from lake_assets.base.duckdb_engine import identifier, literal
from lake_assets.base.errors import CatalogError, CatalogLockedError, CatalogUnreachableError
from lake_assets.config.lake import Lake, PostgresCatalog
from lake_assets.lake.backends import database_backend
from lake_assets.lake.backends.database_backend import CatalogBackend, Lock, create_secret
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, PendingRows, Row, names_of, set_clause, time_text
from lake_assets.lake.database_errors import Fault, matches

if TYPE_CHECKING:
    import psycopg

_ROWS_AT_ONCE = 10_000  # in one statement

# The failed statement may contain any text, such as the error of an earlier run.
_STATEMENT = re.compile(r'(?:query|prepare query) ".*":\s', re.DOTALL)
_BEFORE_REASON = re.compile(r"^.*(?:failed|FATAL|ERROR|Postgres at \".*?\"):\s+", re.DOTALL)
_REASON = 200  # characters
TRUST_FIX = (
    "correct sslmode and sslrootcert of the catalog (what the server demands, and who vouches for it), or sslcert and "
    "sslkey (by which the server knows this client)."
)
SYSTEM_FIX = "set SSL_CERT_FILE to the file of the machine's authorities, or sslrootcert of the catalog to that file."
REACH_FIX = "correct host and port, or run it again when the server runs and has connections to spare."

# A server whose machine or network is gone is noticed within a minute: by a statement that is not acknowledged, and on
# an idle connection by probes. Without these the operating system takes two hours.
_LIVENESS = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_TEXTS = {"client_encoding": "UTF8"}  # DuckDB reads no other; a role, a database or PGCLIENTENCODING may have one


class _PostgresDatabase(CatalogDatabase):
    """An open transaction by psycopg."""

    by_time = 'COLLATE "C"'  # the times are texts

    def _cursor(self, sql: str, parameters: Sequence[object]) -> "psycopg.Cursor[Row]":
        cursor: psycopg.Cursor[Row] = self._connection.execute(sql.replace("?", "%s").encode(), parameters)
        return cursor

    def ask(self, sql: str, parameters: Sequence[object] = ()) -> PendingRows:
        return self._cursor(sql, parameters).fetchall

    # A COPY cannot be sent without waiting for the answer of the statement before, and a list for each column needs
    # the columns' types.

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = names_of(columns)
        for source, texts in _sources(table, columns, rows):
            self.execute(f"INSERT INTO {identifier(table)} ({names}) SELECT {names} FROM {source}", [texts])  # noqa: S608 - quoted names

    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        same = " AND ".join(f"t.{identifier(key)} = v.{identifier(key)}" for key in keys)
        for source, texts in _sources(table, [*keys, *columns], rows):
            self.execute(
                f"UPDATE {identifier(table)} t SET {set_clause(columns, 'v')} FROM {source} v WHERE {same}",  # noqa: S608 - quoted names
                [texts],
            )

    def ask_table(self, name: str) -> PendingRows:
        return self.ask("SELECT 1 WHERE to_regclass(?) IS NOT NULL", [identifier(name)])

    def indexes(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")}

    def inlined(self, value: object) -> object:
        # DuckLake stores text as bytes here, because PostgreSQL's text cannot contain a zero byte.
        return value.encode() if isinstance(value, str) else time_text(value)


def _sources(table: str, columns: Sequence[str], rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield rows for statements of PostgreSQL: a source whose columns have the types of the table, and its JSON."""
    source = f"json_populate_recordset(NULL::{identifier(table)}, ?)"
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        objects = (dict(zip(columns, row, strict=True)) for row in rows[start : start + _ROWS_AT_ONCE])
        yield source, json.dumps(list(objects), ensure_ascii=False, default=_json_value)


def _json_value(value: object) -> str:
    """Return a value that JSON has not as the text from which PostgreSQL reads it."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


class PostgresBackend(CatalogBackend[PostgresCatalog]):
    """A PostgreSQL database. One connection is kept for further transactions; threads do not share it."""

    extensions = ("postgres_scanner",)
    prefix = "postgres:"
    source_options = ("TYPE postgres", "SECRET lake_catalog")
    loses_answers = True
    locks_in_transactions = True
    has_driver = True

    def __init__(self, lake: Lake, catalog: PostgresCatalog) -> None:
        super().__init__(lake, catalog)
        self._connection: Any = None
        self._is_busy = False
        self._locks = 0  # that the connection holds for longer than a transaction

    @property
    def database(self) -> str:
        """The connection string of libpq, without user and password."""
        return " ".join(f"{name}={_libpq_value(value)}" for name, value in client_options(self.catalog).items())

    def login(self) -> tuple[str, ...]:
        """Return the statement that creates the catalog's secret."""
        catalog = self.catalog
        options = {
            "TYPE": "postgres",
            "HOST": literal(catalog.host),
            "PORT": str(catalog.port),
            "DATABASE": literal(catalog.database),
            "USER": literal(catalog.user),
        }
        if catalog.password is not None:
            options["PASSWORD"] = literal(catalog.password.get_secret_value())
        return (create_secret("lake_catalog", options),)

    def attach_options(self, *, read_only: bool) -> dict[str, str]:  # noqa: ARG002 - of all
        """Return the option that names the secret."""
        return {"META_SECRET": literal("lake_catalog")}

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors of the driver."""
        import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

        return (psycopg.Error,)

    @contextmanager
    def transaction(self, *, writes: bool, lock: Lock | None = None) -> Iterator[CatalogDatabase]:  # noqa: ARG002
        """Begin a transaction on the kept connection; a second one at a time has a connection of its own.

        The statements of the block are sent without waiting, until the first rows that it fetches; so are those after
        them. A lock takes no round trip of its own.
        """
        if self._is_busy:
            with closing(self._connect()) as connection, self._begun(connection, lock) as database:
                yield database
            return
        connection, self._is_busy = self._kept_connection(), True
        try:
            with self._begun(connection, lock) as database:
                yield database
        finally:
            self._is_busy = False

    @contextmanager
    def lock(self, lock: Lock, timeout: float | None = None) -> Iterator[None]:
        """Hold a lock, on the connection that transactions have too; if it is lost meanwhile, so is the lock."""
        with ExitStack() as stack:
            alone = stack.enter_context(closing(self._connect())) if self._is_busy else None
            connection = alone or self._kept_connection()
            stack.enter_context(
                _held(self.catalog, connection, lock, database_backend.TIMEOUT if timeout is None else timeout)
            )
            self._locks += 1
            try:
                yield
            finally:
                self._locks -= 1

    def _kept_connection(self) -> Any:  # noqa: ANN401 - of the driver
        """Return the connection that is kept. A lost one with locks is not replaced: what follows relies on these."""
        if self._connection is None:
            if self._locks:
                raise unreachable_now(self.catalog, "the connection with the lake's lock was lost")
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Any:  # noqa: ANN401 - of the driver
        # Each block begins its transaction with its other statements.
        return connect_postgres(self.catalog, autocommit=True)

    def close(self) -> None:
        """Close the connection; the next transaction opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # a lost connection
                connection.close()

    @contextmanager
    def _begun(self, connection: Any, lock: Lock | None) -> Iterator[CatalogDatabase]:  # noqa: ANN401
        import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

        acquired: Any = None
        is_last = not _in_transaction(connection)
        try:
            with connection.pipeline():
                if is_last:
                    _begin(connection)
                if lock is not None:
                    acquired = _ask(connection, lock, database_backend.TIMEOUT)
                    # The open transaction gets the lock of the session, and releases it at its end.
                    _release(connection, lock, f"pg_advisory_xact_lock{_function(lock)}({_key(lock)}), ")
                # A role, a database or PGOPTIONS may have another one, and a pooler keeps no session for ours.
                connection.execute("SELECT set_config('search_path', %s, true)", [identifier(self.lake.catalog_schema)])
                yield _PostgresDatabase(connection, self.lake.data_path)
                _end(connection, "COMMIT", is_last=is_last)
        except BaseException as error:
            try:
                if lock is not None and _in_transaction(connection):
                    _next_transaction(connection, "ROLLBACK")
                    _release(connection, lock)  # which it may not have, of which the server makes a notice
                _end(connection, "ROLLBACK", is_last=is_last)
            except Exception:  # noqa: BLE001 - the connection is lost, and the first error is raised
                connection.close()  # with it the lock
                if connection is self._connection:
                    self._connection = None
            is_acquired = acquired is not None and acquired.pgresult is not None
            if lock is not None and isinstance(error, psycopg.errors.LockNotAvailable) and not is_acquired:
                raise _not_free(lock, database_backend.TIMEOUT) from None
            raise

    def connection_error(self, error: Exception) -> CatalogError | None:
        """Return the error for a server that is unreachable or refuses a connection; None for one of a statement."""
        if (away := unreachable_server(self.catalog, error)) is not None:
            return away
        said = _STATEMENT.sub("", str(error))
        has_refused = matches(said, Fault.REFUSED) or matches(said, Fault.NOT_CONNECTED)
        return refused(self.catalog, error) if has_refused else None

    def ended_while_idle(self, seconds: float) -> CatalogUnreachableError | None:
        """Return the error for a session that was lost after so many seconds in a transaction, as a server may end it.

        None if the server ends no session for that so early, or is away.
        """
        query = "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
        with suppress(CatalogError), connect_postgres(self.catalog) as connection:
            ((limit,),) = connection.execute(query).fetchall()  # milliseconds; 0 is no limit
            if 0 < limit <= seconds * 1000:
                return CatalogUnreachableError(
                    f"the catalog {self.catalog.location} has ended the session of a commit, whose transaction may be "
                    f"idle for {limit / 1000:g} seconds:",
                    "let uploads take longer: ALTER ROLE … IN DATABASE … SET idle_in_transaction_session_timeout = "
                    "'1h'.",
                )
        return None

    def size(self) -> int | None:
        """Return the bytes of DuckLake's tables; those of inlined rows begin with `ducklake_` too."""
        with suppress(*self.errors):
            ((size,),) = self.rows(
                "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_catalog.pg_class "
                "WHERE relkind = 'r' AND starts_with(relname, 'ducklake_') AND pg_table_is_visible(oid)"
            )
            return int(size)
        return None


def client_options(catalog: PostgresCatalog) -> dict[str, Any]:
    """Return the options of libpq for both clients: of encryption, texts, and how long a connection may hang."""
    tls = catalog.model_dump(include={"sslmode", "sslrootcert", "sslcert", "sslkey"}, exclude_none=True)
    return {"connect_timeout": catalog.connect_timeout, **_LIVENESS, **_TEXTS, **tls}


def _libpq_value(value: object) -> str:
    text = re.sub(r"([\\'])", r"\\\1", str(value))
    return text if text.isalnum() else f"'{text}'"


def _key(lock: Lock) -> int:
    digest = hashlib.sha256(f"lake_assets {lock.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _function(lock: Lock) -> str:
    return "_shared" if lock.is_shared else ""


def _ask(connection: "psycopg.Connection[Any]", lock: Lock, timeout: float) -> "psycopg.Cursor[Any]":
    """Begin to acquire a lock in an open transaction, and begin the next one with it.

    In pipeline mode, the statements are not waited for. The session has the lock until `_release`, or its end. The
    cursor gets a result with the lock; LockNotAvailable if it was not free within `timeout` seconds.
    """
    connection.execute(
        "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', '0', true)",
        (f"{int(timeout * 1000)}ms",),
    )
    cursor = connection.execute(f"SELECT pg_advisory_lock{_function(lock)}(%s)".encode(), (_key(lock),))
    _next_transaction(connection)
    return cursor


def _release(connection: "psycopg.Connection[Any]", lock: Lock, instead: str = "") -> None:
    """Release a lock that the session of the connection has."""
    connection.execute(f"SELECT {instead}pg_advisory_unlock{_function(lock)}({_key(lock)})".encode())


def _not_free(lock: Lock, timeout: float) -> CatalogLockedError:
    return CatalogLockedError(
        f"the catalog's {lock.name} lock was not free within {timeout:g} seconds:",
        "see which session holds it (pg_locks, locktype advisory), and run it again when that one has ended.",
    )


@contextmanager
def _held(
    catalog: PostgresCatalog, connection: "psycopg.Connection[Any]", lock: Lock, timeout: float
) -> Iterator[None]:
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    has_locks = _in_transaction(connection)
    try:
        with connection.pipeline():
            if not has_locks:
                _begin(connection)
            _ask(connection, lock, timeout)
    except psycopg.Error as error:
        with suppress(psycopg.Error):  # the connection is lost
            _end(connection, "ROLLBACK", is_last=not has_locks)
        if isinstance(error, psycopg.errors.LockNotAvailable):
            raise _not_free(lock, timeout) from None  # its text is that of a locked table, after which a writer retries
        raise (unreachable_server(catalog, error) or refused(catalog, error)) from error
    try:
        yield
    finally:
        try:
            _release(connection, lock)
            _end(connection, "COMMIT", is_last=not has_locks)
        except psycopg.Error:
            connection.close()  # the server releases it


def _in_transaction(connection: "psycopg.Connection[Any]") -> bool:
    """Return whether a connection has an open transaction between two statements: one that keeps a lock."""
    return connection.info.transaction_status.name != "IDLE"


def _begin(connection: "psycopg.Connection[Any]") -> None:
    """Begin a transaction that sees one state."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")


def _end(connection: "psycopg.Connection[Any]", how: Literal["COMMIT", "ROLLBACK"], *, is_last: bool) -> None:
    """End a transaction; if it is not the last one of those with a lock, the next one begins."""
    if is_last:
        connection.execute(how)
    else:
        _next_transaction(connection, how)


def _next_transaction(connection: "psycopg.Connection[Any]", how: Literal["COMMIT", "ROLLBACK"] = "COMMIT") -> None:
    """End a transaction, and begin the next one of the same session. It sees the state of its first query.

    A pooler may give the session to others between two transactions, but not between these.
    """
    connection.execute(f"{how} AND CHAIN".encode())
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def connect_postgres(catalog: PostgresCatalog, *, autocommit: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
    """Return a new connection; as a context manager it commits or rolls back, and closes."""
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    try:
        connection = psycopg.connect(
            host=catalog.host,
            port=catalog.port,
            dbname=catalog.database,
            user=catalog.user,
            password=catalog.password.get_secret_value() if catalog.password else None,
            autocommit=autocommit,
            prepare_threshold=None,  # a pooler may give the next transaction a session that has not prepared it
            **client_options(catalog),
        )
        if not (connection.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
            connection.execute("SET DateStyle TO ISO")  # psycopg reads times of no other
    except psycopg.OperationalError as error:
        raise (unreachable_server(catalog, error) or refused(catalog, error)) from error
    return connection


def unreachable_server(catalog: PostgresCatalog, error: Exception) -> CatalogUnreachableError | None:
    """Return the error for a server that is unreachable or accepts no connections; None for another error.

    It is of psycopg or of DuckDB, which both have libpq's texts.
    """
    text = str(error)
    said = _STATEMENT.sub("", text)
    # If the connection was lost at the commit, DuckDB says only that the rollback failed.
    lost = matches(text, Fault.LOST)
    # A name may have several hosts: if the last one refuses for good, it does not matter that another was unreachable.
    if matches(said, Fault.REFUSED) or not (lost or matches(said, Fault.AWAY)):
        return None
    return unreachable_now(catalog, "the connection was lost" if lost else _reason(said))


def unreachable_now(catalog: PostgresCatalog, why: str) -> CatalogUnreachableError:
    """Return the error for a server that is unreachable for this reason."""
    return CatalogUnreachableError(f"the catalog {catalog.location} is unreachable: {why}:", REACH_FIX)


def refused(catalog: PostgresCatalog, error: Exception) -> CatalogError:
    """Return the error for a server that refuses the user."""
    reason, fix = _reason(str(error)), "correct host, port, database, user or password."
    if matches(reason, Fault.UNTRUSTED):
        # The wheel of psycopg looks for the machine's where no machine has them.
        fix = SYSTEM_FIX if catalog.sslrootcert == "system" else TRUST_FIX
    return CatalogError(f"the catalog {catalog.location} cannot be opened: {reason}:", fix)


def _reason(text: str) -> str:
    """Return the text of the client or the server about the last host, in one line."""
    return _BEFORE_REASON.sub("", text.strip()).split("\n", 1)[0][:_REASON].strip().rstrip(".")
