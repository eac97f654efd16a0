"""Every text by which errors of a catalog's database are distinguished is provoked on the real database."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import duckdb
import psycopg
import pytest

from dev.servers.postgres import PostgresServer, StoppablePostgres
from lake_assets.duckdb_engine import open_engine
from lake_assets.lake.vendor_errors import VENDORS, Meaning, matches
from lake_assets.vendor_texts import Text
from lake_assets_tests.lake.test_locked_servers import HOLDER

NOT_PROVOKED = {
    "SQLite": {"disk I/O error"},  # `faults/test_disks.py` fills disks
    "DuckDB": {r'Failed to execute query "ROLLBACK":\s*$', "No space left on device"},
    "PostgreSQL": {
        *("timed out", "No route to host", "Network is unreachable", "Temporary failure in name resolution"),
        *("Connection reset by peer", "Broken pipe", "could not (?:receive data from|send data to) server"),
        *("connection has been closed unexpectedly", "SYSCALL error: EOF", "no connection to the server"),
        "the database system is (?:starting up|not yet accepting|in recovery mode)",
        "No space left on device",
    },
    "MotherDuck": {"no database/share named"},
}
COLUMNS = ", ".join(f"c{number} INTEGER" for number in range(2100))


def refused(do: Callable[[], object]) -> str:
    with pytest.raises((duckdb.Error, sqlite3.Error, psycopg.Error)) as raised:
        do()
    return str(raised.value)


class Sqlite:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.path = request.getfixturevalue("tmp_path") / "x.sqlite"

    def locked(self) -> str:
        with sqlite3.connect(self.path, timeout=0) as one, sqlite3.connect(self.path, timeout=0) as other:
            one.execute("BEGIN IMMEDIATE")
            return refused(lambda: other.execute("BEGIN IMMEDIATE"))

    def table_locked(self) -> str:
        address = "file:x?mode=memory&cache=shared"
        with sqlite3.connect(address, uri=True) as one, sqlite3.connect(address, uri=True) as other:
            one.execute("CREATE TABLE t (a)")
            one.execute("INSERT INTO t VALUES (1)")
            return refused(lambda: other.execute("SELECT * FROM t"))

    def unique(self) -> str:
        with sqlite3.connect(self.path) as one:
            one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            return refused(lambda: one.execute("INSERT INTO t VALUES (1), (1)"))

    def full(self) -> str:
        with sqlite3.connect(self.path) as one:
            one.execute("PRAGMA max_page_count = 2")
            return refused(lambda: [one.execute(f"CREATE TABLE t{number} (a)") for number in range(9)])

    def absent(self) -> str:
        return refused(lambda: sqlite3.connect(self.path.parent / "none" / "x"))

    def columns(self) -> str:
        with sqlite3.connect(self.path) as one:
            return refused(lambda: one.execute(f"CREATE TABLE t ({COLUMNS})"))


class Duckdb:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.path = request.getfixturevalue("tmp_path") / "x.duckdb"

    def files_kept(self) -> str:
        with duckdb.connect() as connection:
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
            return refused(lambda: connection.execute("FROM 'a.csv'"))

    def locked(self) -> str:
        command = [sys.executable, "-c", HOLDER, str(self.path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"held\n"
            message = refused(lambda: duckdb.connect(self.path))
            other.communicate()
        return message

    def changed_row(self) -> str:
        with duckdb.connect() as one, one.cursor() as other:
            one.execute("CREATE TABLE t AS SELECT 1 AS a")
            other.execute("BEGIN")
            other.execute("UPDATE t SET a = 2")
            return refused(lambda: one.execute("UPDATE t SET a = 3"))

    def made_table(self) -> str:
        with duckdb.connect() as one, one.cursor() as other:
            other.execute("BEGIN")
            other.execute("CREATE TABLE t (a INTEGER)")
            return refused(lambda: one.execute("CREATE TABLE t (a INTEGER)"))

    def key(self) -> str:
        with duckdb.connect() as one:
            one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            return refused(lambda: one.execute("INSERT INTO t VALUES (1), (1)"))

    def not_connected(self) -> str:
        with open_engine(["postgres_scanner"]) as engine:
            return refused(lambda: engine.execute("ATTACH 'postgres:host=127.0.0.1 port=9' AS p"))

    def no_credentials(self) -> str:
        with open_engine(["httpfs", "aws"]) as engine:
            return refused(lambda: engine.execute("CREATE SECRET s (TYPE s3, PROVIDER credential_chain, CHAIN 'env')"))

    def no_answer(self) -> str:
        with open_engine(["httpfs"]) as engine:
            engine.execute("SET GLOBAL http_retries = 0")
            return refused(lambda: engine.execute("FROM read_parquet('http://127.0.0.1:9/x.parquet')"))


class Ducklake:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.folder = request.getfixturevalue("tmp_path")
        self.engine = open_engine(["ducklake", "sqlite_scanner"])

    def attach(self, more: str = "", storage: str = "data", kind: str = "sqlite:") -> None:
        options = f"DATA_PATH '{self.folder}/{storage}'{more}"
        self.engine.execute(f"ATTACH 'ducklake:{kind}{self.folder}/x' AS l ({options})")

    def again(self, more: str = "", storage: str = "data", change: str = "SELECT 1") -> str:
        self.attach()
        self.engine.execute("DETACH l")
        with sqlite3.connect(self.folder / "x") as catalog:
            catalog.execute(change)
        return refused(lambda: self.attach(more, storage))

    def conflict(self) -> str:
        self.attach(kind="")
        self.engine.execute("CREATE TABLE l.t (a INTEGER)")
        with self.engine.cursor() as other:
            other.execute("BEGIN")
            other.execute("INSERT INTO l.t VALUES (1)")
            self.engine.execute("DROP TABLE l.t")
            return refused(lambda: other.execute("COMMIT"))

    def absent(self) -> str:
        return refused(lambda: self.attach(", CREATE_IF_NOT_EXISTS false"))

    def encryption(self) -> str:
        return self.again(", ENCRYPTED true")

    def moved(self) -> str:
        return self.again(storage="other")

    def version(self) -> str:
        return self.again(change="UPDATE ducklake_metadata SET value = '0.1' WHERE key = 'version'")

    def reserved(self) -> str:
        self.attach()
        return refused(lambda: self.engine.execute("CREATE TABLE l.t (row_id INTEGER)"))


class Postgres:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    @property
    def server(self) -> PostgresServer:
        server = self.request.getfixturevalue("postgres")
        assert isinstance(server, PostgresServer)
        return server

    def connect(self, **options: Any) -> "psycopg.Connection[Any]":
        user: dict[str, Any] = {"user": self.server.user, "password": self.server.password}
        address: dict[str, Any] = {"host": self.server.host, "port": self.server.port, "dbname": "postgres"}
        return psycopg.connect(**(user | address | {"autocommit": True} | options))

    def two(self, then: Callable[["psycopg.Connection[Any]", "psycopg.Connection[Any]"], str]) -> str:
        database = self.server.new_database()
        with self.connect(dbname=database) as one, self.connect(dbname=database) as other:
            one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            one.execute("INSERT INTO t VALUES (1), (2)")
            for connection in (one, other):
                connection.execute("SET lock_timeout = '60s'")
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT * FROM t")
            return then(one, other)

    def lock_timeout(self) -> str:
        def then(one: "psycopg.Connection[Any]", other: "psycopg.Connection[Any]") -> str:
            one.execute("UPDATE t SET a = 3 WHERE a = 1")
            other.execute("SET LOCAL lock_timeout = '50ms'")
            return refused(lambda: other.execute("UPDATE t SET a = 4 WHERE a = 1"))

        return self.two(then)

    def key(self) -> str:
        return self.two(lambda one, _: refused(lambda: one.execute("INSERT INTO t VALUES (1)")))

    def serialize(self) -> str:
        def then(one: "psycopg.Connection[Any]", other: "psycopg.Connection[Any]") -> str:
            one.execute("UPDATE t SET a = 3 WHERE a = 1")
            one.execute("COMMIT")
            return refused(lambda: other.execute("UPDATE t SET a = 4 WHERE a = 1"))

        return self.two(then)

    def deadlock(self) -> str:
        def then(one: "psycopg.Connection[Any]", other: "psycopg.Connection[Any]") -> str:
            said: list[str] = []

            def update(connection: "psycopg.Connection[Any]", number: int) -> None:
                try:
                    connection.execute("UPDATE t SET a = a + 10 WHERE a = %s", (number,))
                except psycopg.Error as error:
                    said.append(str(error))
                    connection.execute("ROLLBACK")

            update(one, 1)
            update(other, 2)
            thread = threading.Thread(target=update, args=(one, 2))
            thread.start()
            update(other, 1)
            thread.join()
            return "\n".join(said)

        return self.two(then)

    def columns(self) -> str:
        return self.two(lambda one, _: refused(lambda: one.execute(f"CREATE TABLE wide ({COLUMNS})".encode())))

    def no_right(self) -> str:
        return self.two(lambda one, _: refused(lambda: one.execute("SELECT * FROM pg_authid")))

    def nobody_listens(self) -> str:
        return refused(lambda: self.connect(port=9))

    def silent(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return refused(lambda: self.connect(port=listener.getsockname()[1], connect_timeout=2))

    def ended(self) -> str:
        with self.connect() as one, self.connect() as other:
            one.execute("SELECT pg_terminate_backend(%s)", (other.info.backend_pid,))
            return refused(lambda: other.execute("SELECT 1"))

    def killed(self) -> str:
        _, connect = self.stoppable()
        with connect(superuser=True) as other:
            os.kill(other.info.backend_pid, signal.SIGKILL)
            return refused(lambda: other.execute("SELECT 1"))

    def lost(self) -> str:
        with self.connect() as one, self.connect() as other:
            one.execute("SELECT pg_terminate_backend(%s)", (other.info.backend_pid,))
            first = refused(lambda: other.execute("SELECT 1"))
            return "\n".join([first, refused(lambda: other.execute("SELECT 1")), refused(other.commit)])

    def limited(self) -> str:
        database = self.server.new_database()
        with self.connect() as one:
            one.execute(f"ALTER DATABASE {database} CONNECTION LIMIT 0".encode())
        return refused(lambda: self.connect(dbname=database))

    def stoppable(self) -> tuple[StoppablePostgres, Callable[..., "psycopg.Connection[Any]"]]:
        stoppable = self.request.getfixturevalue("stoppable_postgres")
        assert isinstance(stoppable, StoppablePostgres)
        server = stoppable.server
        folder = str(stoppable._installation.data)

        def connect(*, superuser: bool) -> "psycopg.Connection[Any]":
            if superuser:
                return psycopg.connect(host=folder, port=server.port, user="postgres", autocommit=True)
            return server.connect()

        return stoppable, connect

    def full(self, *, superuser: bool) -> str:
        stoppable, connect = self.stoppable()
        with connect(superuser=True) as admin:
            admin.execute("ALTER SYSTEM SET max_connections = 4")
            admin.execute("ALTER SYSTEM SET superuser_reserved_connections = 2")
        stoppable.stop()
        stoppable.start()
        with ExitStack() as stack:
            return refused(lambda: [stack.enter_context(connect(superuser=superuser)) for _ in range(9)])

    def reserved(self) -> str:
        return self.full(superuser=False)

    def too_many(self) -> str:
        return self.full(superuser=True)

    def shutting_down(self) -> str:
        _, connect = self.stoppable()
        with connect(superuser=True) as admin:
            ((text,),) = admin.execute("SELECT pg_read_file('postmaster.pid')").fetchall()
            os.kill(int(str(text).split("\n", 1)[0]), signal.SIGTERM)
            message = ""
            while "shutting down" not in message:  # until it has seen the signal
                try:
                    connect(superuser=False).close()
                except psycopg.Error as error:
                    message = str(error)
            return message

    def wrong_password(self) -> str:
        return refused(lambda: self.connect(password="wrong"))

    def no_password(self) -> str:
        return refused(lambda: self.connect(password=None))

    def not_admitted(self) -> str:
        return refused(lambda: self.connect(replication="true"))

    def no_database(self) -> str:
        return refused(lambda: self.connect(dbname="none"))


PROVOKED: dict[str, dict[str, Callable[[Any], str]]] = {
    "SQLite": {
        "database is locked": Sqlite.locked,
        "database table is locked": Sqlite.table_locked,
        "unique constraint": Sqlite.unique,
        "unable to open database file": Sqlite.absent,
        "database or disk is full": Sqlite.full,
        r"too many columns on \w+": Sqlite.columns,
    },
    "DuckDB": {
        "could not set lock on file": Duckdb.locked,
        "conflict on": Duckdb.changed_row,
        "write-write conflict": Duckdb.made_table,
        "duplicate key": Duckdb.key,
        "File system .* has been disabled by configuration": Duckdb.files_kept,
        r" error for HTTP [A-Z]+ to '": Duckdb.no_answer,
        "Unable to connect to Postgres": Duckdb.not_connected,
        "Secret Validation Failure": Duckdb.no_credentials,
    },
    "DuckLake": {
        "transaction conflict": Ducklake.conflict,
        "does not exist": Ducklake.absent,
        "Failed to set encryption": Ducklake.encryption,
        r"DATA_PATH parameter .* does not match existing data path in the catalog [^\n]*": Ducklake.moved,
        r"DuckLake catalog version mismatch: catalog version is [^,]+, but the extension requires version [\w.-]*\w": (
            Ducklake.version
        ),
        "Column name .* is reserved by DuckLake for internal use": Ducklake.reserved,
    },
    "PostgreSQL": {
        "lock timeout": Postgres.lock_timeout,
        "duplicate key": Postgres.key,
        "could not serialize": Postgres.serialize,
        "deadlock detected": Postgres.deadlock,
        r"tables can have at most \d+ columns": Postgres.columns,
        r"permission denied for (?:table|schema|view|relation) \S*\w": Postgres.no_right,
        "Connection refused": Postgres.nobody_listens,
        "Is the server running": Postgres.nobody_listens,
        "timeout expired": Postgres.silent,
        "server closed the connection": Postgres.killed,
        "connection is lost": Postgres.lost,
        "terminating connection": Postgres.ended,
        "the database system is shutting down": Postgres.shutting_down,
        "too many clients already": Postgres.too_many,
        "too many connections for": Postgres.limited,
        "remaining connection slots are reserved": Postgres.reserved,
        "authentication failed": Postgres.wrong_password,
        "no password supplied": Postgres.no_password,
        r"no pg_hba\.conf entry": Postgres.not_admitted,
        r"(?:role|database) \"[^\"]*\" does not exist": Postgres.no_database,
    },
}
PLAYERS: dict[str, Callable[[pytest.FixtureRequest], Any]] = {
    "SQLite": Sqlite,
    "DuckDB": Duckdb,
    "DuckLake": Ducklake,
    "PostgreSQL": Postgres,
}
CASES = [(vendor, text) for vendor, table in VENDORS.items() for text in table if text.is_provoked]


@pytest.mark.parametrize(("vendor", "text"), CASES, ids=[f"{vendor}-{text.pattern}" for vendor, text in CASES])
def test_the_vendor_raises_the_text(request: pytest.FixtureRequest, vendor: str, text: Text[Meaning]) -> None:
    message = PROVOKED[vendor][text.pattern](PLAYERS[vendor](request))

    assert re.search(text.pattern, message, re.IGNORECASE if text.means in {Meaning.LOCKED, Meaning.CONFLICT} else 0)
    assert matches(message, text.means)


def test_the_tables_mark_texts_that_no_test_provokes() -> None:
    tables = {vendor: {text.pattern for text in table if not text.is_provoked} for vendor, table in VENDORS.items()}
    assert {vendor: patterns for vendor, patterns in tables.items() if patterns} == NOT_PROVOKED
    provoked = {vendor: [text.pattern for text in table if text.is_provoked] for vendor, table in VENDORS.items()}
    assert {vendor: sorted(patterns) for vendor, patterns in provoked.items() if patterns} == {
        vendor: sorted(provokers) for vendor, provokers in PROVOKED.items()
    }
