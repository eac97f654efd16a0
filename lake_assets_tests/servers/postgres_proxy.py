"""A proxy before a PostgreSQL server that counts what clients ask of it: DuckDB's extension and psycopg alike."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lake_assets_tests.servers.postgres import PostgresServer

_HEADER = 5  # bytes of a message before its body: its type, and its length with these four bytes
_STARTUP = 4  # the first message of a client has no type
_QUERIES = {b"Q", b"P"}  # a simple query, and the Parse of one with parameters
_ROWS = {b"D", b"d"}  # a row of a result, and a row of a COPY


@dataclass
class PostgresProxy:
    """Counts statements and rows since `forget`."""

    server: PostgresServer  # of the proxy's own address
    statements: list["Statement"] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self) -> None:
        """Begin to count."""
        with self._lock:
            self.statements = []

    @property
    def rows(self) -> int:
        """The rows that the server returned."""
        return sum(statement.rows for statement in self.statements)

    def note(self, link: "_Link", kind: bytes, body: bytes, *, from_client: bool) -> None:
        with self._lock:
            if from_client and kind in _QUERIES:
                texts = body.split(b"\0")
                link.statement = Statement(texts[1 if kind == b"P" else 0].decode(errors="replace"))
                self.statements.append(link.statement)
            elif not from_client and kind in _ROWS:
                link.statement.rows += 1


@dataclass
class Statement:
    """A statement, and how many rows the server returned."""

    text: str
    rows: int = 0


@dataclass
class _Link:
    """A client's connection; its rows are those of its newest statement."""

    statement: Statement = field(default_factory=lambda: Statement(""))


@contextmanager
def postgres_proxy(server: PostgresServer) -> Iterator[PostgresProxy]:
    """A proxy on a free port of 127.0.0.1, whose `server` has the same user and password."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        proxy = PostgresProxy(PostgresServer("127.0.0.1", port, server.user, server.password))
        threading.Thread(target=_accept, args=(listener, server, proxy), daemon=True).start()
        yield proxy


def _accept(listener: socket.socket, server: PostgresServer, proxy: PostgresProxy) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            client, _ = listener.accept()
            upstream = socket.create_connection((server.host, server.port))
            link = _Link()
            for reader, writer, from_client in ((client, upstream, True), (upstream, client, False)):
                arguments = (reader, writer, proxy, link, from_client)
                threading.Thread(target=_pump, args=arguments, daemon=True).start()


def _pump(reader: socket.socket, writer: socket.socket, proxy: PostgresProxy, link: _Link, from_client: bool) -> None:
    """Note each whole message, and pass bytes on."""
    pending, is_started = bytearray(), not from_client
    with suppress(OSError):
        while data := reader.recv(65536):
            pending += data
            # A statement is noted before the server has it: its rows are those of the newest statement.
            is_started = _note(pending, proxy, link, from_client, is_started)
            writer.sendall(data)
    for end in (reader, writer):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _note(pending: bytearray, proxy: PostgresProxy, link: _Link, from_client: bool, is_started: bool) -> bool:
    """Note the whole messages of these bytes, and remove them; returns whether the startup is over."""
    while True:
        if not is_started:
            if len(pending) < _STARTUP or len(pending) < (length := int.from_bytes(pending[:4])):
                return False
            # A request for encryption, which the server refuses, comes before the startup itself.
            is_started = int.from_bytes(pending[4:8]) >> 16 == 3
            del pending[:length]
            continue
        if not from_client and pending[:1] == b"N" and len(pending) == 1:
            pending.clear()  # the refusal of encryption is one byte
        if len(pending) < _HEADER or len(pending) < (length := 1 + int.from_bytes(pending[1:5])):
            return True
        proxy.note(link, bytes(pending[:1]), bytes(pending[_HEADER:length]), from_client=from_client)
        del pending[:length]
