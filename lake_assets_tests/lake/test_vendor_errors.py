"""Every text by which errors of a catalog's database are distinguished is provoked on the real database."""

import os
import re
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from dev.servers.postgres import PostgresServer, StoppablePostgres
from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.texts import VendorText
from lake_assets.lake.database_errors import VENDORS, Fault, matches
from lake_assets_tests.lake.test_locked import held

COLUMNS = ", ".join(f"c{number} INTEGER" for number in range(2100))
ONE, OTHER = 0, 1
Step = tuple[int, str]  # which connection executes this statement


def refused(do: Callable[[], object]) -> str:
    with pytest.raises((duckdb.Error, sqlite3.Error, psycopg.Error)) as raised:
        do()
    return str(raised.value)


def execute(connections: Sequence[Any], steps: Sequence[Step]) -> str:
    """Execute statements by several connections; returns the error for the last one."""
    *before, (number, last) = steps
    for index, sql in before:
        connections[index].execute(sql)
    return refused(lambda: connections[number].execute(last))


class Provoker:
    """The databases, each started when a text is provoked on it."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self.folder: Path = request.getfixturevalue("tmp_path")

    def sqlite(self, *steps: Step, address: str = "") -> str:
        address = address or f"file:{self.folder}/x.sqlite"
        with (
            sqlite3.connect(address, uri=True, timeout=0) as one,
            sqlite3.connect(address, uri=True, timeout=0) as other,
        ):
            return execute((one, other), steps)

    def duckdb(self, *steps: Step, extensions: Sequence[str] = ()) -> str:
        with open_engine(extensions) as one, one.cursor() as other:
            return execute((one, other), steps)

    def held_file(self) -> str:
        path = self.folder / "x.duckdb"
        with held({"type": "duckdb", "path": str(path)}):
            return refused(lambda: duckdb.connect(path))

    def attach(self, more: str = "", storage: str = "data", kind: str = "sqlite:") -> Step:
        return ONE, f"ATTACH 'ducklake:{kind}{self.folder}/x' AS l (DATA_PATH '{self.folder}/{storage}'{more})"

    def ducklake(self, *steps: Step) -> str:
        return self.duckdb(*steps, extensions=["ducklake", "sqlite_scanner"])

    def attached_again(self, more: str = "", storage: str = "data", change: str = "SELECT 1") -> str:
        with open_engine(["ducklake", "sqlite_scanner"]) as engine:
            engine.execute(self.attach()[1])
        with sqlite3.connect(self.folder / "x") as catalog:
            catalog.execute(change)
        return self.ducklake(self.attach(more, storage))

    # PostgreSQL.

    @property
    def server(self) -> PostgresServer:
        server = self._request.getfixturevalue("postgres")
        assert isinstance(server, PostgresServer)
        return server

    def connect(self, **options: Any) -> "psycopg.Connection[Any]":
        user: dict[str, Any] = {"user": self.server.user, "password": self.server.password}
        address: dict[str, Any] = {"host": self.server.host, "port": self.server.port, "dbname": "postgres"}
        return psycopg.connect(**(user | address | {"autocommit": True} | options))

    @contextmanager
    def two(self) -> Iterator[tuple["psycopg.Connection[Any]", "psycopg.Connection[Any]"]]:
        """Two transactions that have read a table of two rows."""
        database = self.server.new_database()
        with self.connect(dbname=database) as one, self.connect(dbname=database) as other:
            one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            one.execute("INSERT INTO t VALUES (1), (2)")
            for connection in (one, other):
                connection.execute("SET lock_timeout = '60s'")
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT * FROM t")
            yield one, other

    def postgres(self, *steps: Step) -> str:
        with self.two() as connections:
            return execute(connections, steps)

    def deadlock(self) -> str:
        said: list[str] = []

        def update(connection: "psycopg.Connection[Any]", number: int) -> None:
            try:
                connection.execute("UPDATE t SET a = a + 10 WHERE a = %s", (number,))
            except psycopg.Error as error:
                said.append(str(error))
                connection.execute("ROLLBACK")

        with self.two() as (one, other):
            update(one, 1)
            update(other, 2)
            thread = threading.Thread(target=update, args=(one, 2))
            thread.start()
            update(other, 1)
            thread.join()
        return "\n".join(said)

    def latin(self) -> str:
        with self.connect() as one:
            one.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
        with self.connect(dbname="latin", client_encoding="UTF8") as one:
            return refused(lambda: one.execute("SELECT '東京'"))

    def not_connected(self, **options: Any) -> str:
        return refused(lambda: self.connect(**options))

    def silent(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return self.not_connected(port=listener.getsockname()[1], connect_timeout=2)

    def limited(self) -> str:
        database = self.server.new_database()
        with self.connect() as one:
            one.execute(f"ALTER DATABASE {database} CONNECTION LIMIT 0".encode())
        return self.not_connected(dbname=database)

    def ended(self) -> str:
        """What the server says of a connection that it ended, and the client of one that it knows as lost."""
        with self.connect() as one, self.connect() as other:
            one.execute("SELECT pg_terminate_backend(%s)", (other.info.backend_pid,))
            said = [refused(lambda: other.execute("SELECT 1")) for _ in range(2)]
            return "\n".join([*said, refused(other.commit)])

    @property
    def own(self) -> StoppablePostgres:
        """A server of this test alone."""
        stoppable = self._request.getfixturevalue("stoppable_postgres")
        assert isinstance(stoppable, StoppablePostgres)
        return stoppable

    def by_superuser(self) -> "psycopg.Connection[Any]":
        folder, port = str(self.own._installation.data), self.own.server.port
        return psycopg.connect(host=folder, port=port, user="postgres", autocommit=True)

    def killed(self) -> str:
        with self.by_superuser() as other:
            os.kill(other.info.backend_pid, signal.SIGKILL)
            return refused(lambda: other.execute("SELECT 1"))

    def full(self, connect: Callable[[], "psycopg.Connection[Any]"]) -> str:
        with self.by_superuser() as admin:
            admin.execute("ALTER SYSTEM SET max_connections = 4")
            admin.execute("ALTER SYSTEM SET superuser_reserved_connections = 2")
        self.own.stop()
        self.own.start()
        with ExitStack() as stack:
            return refused(lambda: [stack.enter_context(connect()) for _ in range(9)])

    def shutting_down(self) -> str:
        with self.by_superuser() as admin:
            ((text,),) = admin.execute("SELECT pg_read_file('postmaster.pid')").fetchall()
            os.kill(int(str(text).split("\n", 1)[0]), signal.SIGTERM)
            message = ""
            while "shutting down" not in message:  # until it has seen the signal
                try:
                    self.own.server.connect().close()
                except psycopg.Error as error:
                    message = str(error)
            return message


TABLE, KEY = "CREATE TABLE t (a INTEGER)", "CREATE TABLE t (a INTEGER PRIMARY KEY)"
TWICE = "INSERT INTO t VALUES (1), (1)"
CHANGED = (ONE, "UPDATE t SET a = 3 WHERE a = 1")
PROVOKED: dict[str, dict[str, Callable[[Provoker], str]]] = {
    "SQLite": {
        "database is locked": lambda by: by.sqlite((ONE, "BEGIN IMMEDIATE"), (OTHER, "BEGIN IMMEDIATE")),
        "database table is locked": lambda by: by.sqlite(
            (ONE, TABLE),
            (ONE, "INSERT INTO t VALUES (1)"),
            (OTHER, "SELECT * FROM t"),
            address="file:x?mode=memory&cache=shared",
        ),
        "unique constraint": lambda by: by.sqlite((ONE, KEY), (ONE, TWICE)),
        "no such (?:table|column)": lambda by: by.sqlite((ONE, "SELECT * FROM t")),
        "unable to open database file": lambda by: refused(lambda: sqlite3.connect(by.folder / "none" / "x")),
        "database or disk is full": lambda by: by.sqlite(
            (ONE, "PRAGMA max_page_count = 2"), (ONE, TABLE), (ONE, "CREATE TABLE u (a)")
        ),
        "attempt to write a readonly database": lambda by: by.sqlite((ONE, "PRAGMA query_only = 1"), (ONE, KEY)),
        r"too many columns on \w+": lambda by: by.sqlite((ONE, f"CREATE TABLE t ({COLUMNS})")),
    },
    "DuckDB": {
        "could not set lock on file": Provoker.held_file,
        "conflict on": lambda by: by.duckdb(
            (ONE, "CREATE TABLE t AS SELECT 1 AS a"), (OTHER, "BEGIN"), (OTHER, "UPDATE t SET a = 2"), CHANGED
        ),
        "write-write conflict": lambda by: by.duckdb((OTHER, "BEGIN"), (OTHER, TABLE), (ONE, TABLE)),
        "duplicate key": lambda by: by.duckdb((ONE, KEY), (ONE, TWICE)),
        "Table with name .* does not exist": lambda by: by.duckdb((ONE, "FROM t")),
        "Referenced column .* not found": lambda by: by.duckdb((ONE, TABLE), (ONE, "SELECT b FROM t")),
        "File system .* has been disabled by configuration": lambda by: by.duckdb(
            (ONE, "SET disabled_filesystems = 'LocalFileSystem'"), (ONE, "FROM 'a.csv'")
        ),
        r" error for HTTP [A-Z]+ to '": lambda by: by.duckdb(
            (ONE, "SET GLOBAL http_retries = 0"),
            (ONE, "FROM read_parquet('http://127.0.0.1:9/x.parquet')"),
            extensions=["httpfs"],
        ),
        "Unable to connect to Postgres": lambda by: by.duckdb(
            (ONE, "ATTACH 'postgres:host=127.0.0.1 port=9' AS p"), extensions=["postgres_scanner"]
        ),
        "Secret Validation Failure": lambda by: by.duckdb(
            (ONE, "CREATE SECRET s (TYPE s3, PROVIDER credential_chain, CHAIN 'env')"), extensions=["httpfs", "aws"]
        ),
    },
    "DuckLake": {
        "transaction conflict": lambda by: by.ducklake(
            by.attach(kind=""),
            (ONE, "CREATE TABLE l.t (a INTEGER)"),
            (OTHER, "BEGIN"),
            (OTHER, "INSERT INTO l.t VALUES (1)"),
            (ONE, "DROP TABLE l.t"),
            (OTHER, "COMMIT"),
        ),
        "does not exist": lambda by: by.ducklake(by.attach(", CREATE_IF_NOT_EXISTS false")),
        "Failed to set encryption": lambda by: by.attached_again(", ENCRYPTED true"),
        r"DATA_PATH parameter .* does not match existing data path in the catalog [^\n]*": lambda by: by.attached_again(
            storage="other"
        ),
        r"DuckLake catalog version mismatch: catalog version is [^,]+, but the extension requires version [\w.-]*\w": (
            lambda by: by.attached_again(change="UPDATE ducklake_metadata SET value = '0.1' WHERE key = 'version'")
        ),
        "Column name .* is reserved by DuckLake for internal use": lambda by: by.ducklake(
            by.attach(), (ONE, "CREATE TABLE l.t (row_id INTEGER)")
        ),
    },
    "PostgreSQL": {
        "lock timeout": lambda by: by.postgres(
            CHANGED, (OTHER, "SET LOCAL lock_timeout = '50ms'"), (OTHER, "UPDATE t SET a = 4 WHERE a = 1")
        ),
        "duplicate key": lambda by: by.postgres((ONE, "INSERT INTO t VALUES (1)")),
        "could not serialize": lambda by: by.postgres(
            CHANGED, (ONE, "COMMIT"), (OTHER, "UPDATE t SET a = 4 WHERE a = 1")
        ),
        "deadlock detected": Provoker.deadlock,
        "(?:relation|column) .* does not exist": lambda by: by.postgres((ONE, "SELECT b FROM t")),
        r"tables can have at most \d+ columns": lambda by: by.postgres((ONE, f"CREATE TABLE wide ({COLUMNS})")),
        r"permission denied for (?:table|schema|view|relation) \S*\w": lambda by: by.postgres(
            (ONE, "SELECT * FROM pg_authid")
        ),
        "canceling statement due to statement timeout": lambda by: by.postgres(
            (ONE, "SET LOCAL statement_timeout = '50ms'"), (ONE, "SELECT pg_sleep(60)")
        ),
        r"cannot execute [A-Z ]+ (?:in a read-only transaction|during recovery)": lambda by: by.postgres(
            (ONE, "SET TRANSACTION READ ONLY"), (ONE, TABLE)
        ),
        r'character with byte sequence .* has no equivalent in encoding "\w+"': Provoker.latin,
        "Connection refused": lambda by: by.not_connected(port=9),
        "Is the server running": lambda by: by.not_connected(port=9),
        "timeout expired": Provoker.silent,
        "server closed the connection": Provoker.killed,
        "connection is lost": Provoker.ended,
        "terminating connection": Provoker.ended,
        "the database system is shutting down": Provoker.shutting_down,
        "too many clients already": lambda by: by.full(by.by_superuser),
        "too many connections for": Provoker.limited,
        "remaining connection slots are reserved": lambda by: by.full(by.own.server.connect),
        "server does not support SSL": lambda by: by.not_connected(sslmode="require"),
        "authentication failed": lambda by: by.not_connected(password="wrong"),
        "no password supplied": lambda by: by.not_connected(password=None),
        r"no pg_hba\.conf entry": lambda by: by.not_connected(replication="true"),
        r"(?:role|database) \"[^\"]*\" does not exist": lambda by: by.not_connected(dbname="none"),
    },
}
# Each of these starts a server of its own.
OF_AN_OWN_SERVER = {
    *("server closed the connection", "the database system is shutting down"),
    *("too many clients already", "remaining connection slots are reserved"),
}
CASES = [
    pytest.param(
        vendor,
        text,
        id=f"{vendor}-{text.pattern}",
        marks=[pytest.mark.more] if text.pattern in OF_AN_OWN_SERVER else [],
    )
    for vendor, table in VENDORS.items()
    for text in table
    if text.is_provoked
]


@pytest.mark.parametrize(("vendor", "text"), CASES)
def test_the_vendor_raises_the_text(request: pytest.FixtureRequest, vendor: str, text: VendorText[Fault]) -> None:
    message = PROVOKED[vendor][text.pattern](Provoker(request))

    assert re.search(text.pattern, message, re.IGNORECASE if text.means in {Fault.LOCKED, Fault.CONFLICT} else 0)
    assert matches(message, text.means)
