"""A proxy before a PostgreSQL server that counts what clients ask of it, and makes statements fail on demand.

Its clients are DuckDB's extension and psycopg alike.
"""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from dev.servers.postgres import PostgresServer

Fault = Literal["reset", "lose_answer", "slow", "hang", "call"]

CONNECT = "connect"  # in place of a statement: the first message of a connection

_HEADER = 5  # bytes of a message before its body: its type, and its length with these four bytes
_STARTUP = 4  # the first message of a client has no type
_QUERIES = {b"Q", b"P"}  # a simple query, and the Parse of one with parameters
_WAITS = {b"Q", b"S", b"H"}  # after which a client waits for answers: a simple query, a Sync, and a Flush
_ROWS = {b"D", b"d"}  # a row of a result, and a row of a COPY
_COPY_BEGINS = {b"G", b"W"}  # the server expects the rows of a COPY
_FLUSH, _SYNC = b"H", b"S\0\0\0\4"  # after both the server answers what it was asked; after a Sync it is ready
_READY = b"Z"  # the server has done what was asked, and expects the next statement
_REFUSED = b"N"  # the server's answer to a request for encryption, of one byte
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # linger for 0 seconds: the client gets a TCP reset
_VERB = re.compile(r"\s*(\w+)")
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN|COPY)\s+(?!STDIN)([\w.\"]+)")
_IDENTIFIER = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")
# Autovacuum analyzes a table at any moment; of one that is analyzed, DuckDB reads a range of pages.
_PAGES = re.compile(r"WHERE ctid BETWEEN '\(\d+,\d+\)'::tid AND '\(\d+,\d+\)'::tid(?: AND\b|(?=\)))")


def plain(statement: str) -> str:
    """A statement without what differs from run to run: its numbers, the names of files, and ranges of pages."""
    text = _PAGES.sub(lambda found: "WHERE" if found[0].endswith("AND") else "", statement)
    return re.sub(r"\s+", " ", _IDENTIFIER.sub("#", text)).replace(" )", ")").strip()


@dataclass
class Statement:
    """A statement, and how many rows the server returned."""

    text: str
    rows: int = 0

    @property
    def kind(self) -> str:
        """Its verb and the table that it names first, without the numbers in their names; READ for a COPY of rows
        to the client.
        """
        verb, table = _VERB.match(self.text), _TABLE.search(self.text)
        word = "READ" if "TO STDOUT" in self.text else verb[1] if verb else self.text
        name = table[1].replace('"', "").removeprefix("public.") if table else ""
        return re.sub(r"\d+", "#", f"{word} {name}".strip())


@dataclass
class Rule:
    """A fault for the next statements that match.

    Args:
        fault: `reset`: the connection is reset and the server never hears of the statement.
            `lose_answer`: the server does what is asked, and the connection is reset instead of the answer.
            `slow`: the statement is passed on later.
            `hang`: the statement is never passed on, and nothing is answered.
            `call`: something is called before the statement is passed on.
        when: which statements; all, if not given.
        times: how many of them; it counts down.
        seconds: how long `slow` takes.
        call: what `call` calls.
    """

    fault: Fault
    when: Callable[[Statement], bool] = lambda _: True
    times: int = 1
    seconds: float = 0.5
    call: Callable[[], object] = lambda: None


@dataclass
class PostgresProxy:
    """Counts statements and rows since `forget`.

    `waits` has the number of statements before each moment when a client waited for answers.
    """

    server: PostgresServer  # of the proxy's own address
    upstream: PostgresServer
    statements: list[Statement] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _links: set["_Link"] = field(default_factory=set)
    _listener: socket.socket | None = None

    def forget(self) -> None:
        """Begin to count."""
        with self._lock:
            self.statements, self.waits = [], []

    def inject(self, rule: Rule) -> Rule:
        """Let the next statements under this rule fail. Of several rules the oldest comes first."""
        with self._lock:
            self.rules.append(rule)
        return rule

    @property
    def rows(self) -> int:
        """The rows that the server returned."""
        return sum(statement.rows for statement in self.statements)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Within the `with`, nothing listens on the port (connections are refused), and open ones are cut."""
        self.close()
        try:
            yield
        finally:
            self.listen()

    def listen(self) -> None:
        """Accept connections at the proxy's address."""
        self._listener = socket.create_server((self.server.host, self.server.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Stop listening and cut all connections."""
        assert self._listener is not None
        # Wakes the thread that accepts: a listener that it still holds would go on listening.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def note(self, statement: Statement) -> Rule | None:
        """Add a statement to the list; returns the rule that it falls under, which is counted down."""
        with self._lock:
            if statement.text != CONNECT:
                self.statements.append(statement)
            rule = next((rule for rule in self.rules if rule.times > 0 and rule.when(statement)), None)
            if rule is not None:
                rule.times -= 1
            return rule

    def note_wait(self) -> None:
        """Note that a client waits for answers now."""
        with self._lock:
            if self.waits[-1:] != [len(self.statements)]:
                self.waits.append(len(self.statements))

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = listener.accept()
                try:
                    upstream = socket.create_connection((self.upstream.host, self.upstream.port))
                except OSError:  # the server is away
                    client.close()
                    continue
                for end in (client, upstream):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link = _Link(self, client, upstream)
                with self._lock:
                    self._links.add(link)
                for pump in (link.from_client, link.from_server):
                    threading.Thread(target=pump, daemon=True).start()

    def ended(self, link: "_Link") -> None:
        """Forget a connection."""
        with self._lock:
            self._links.discard(link)


class _Link:
    """A client's connection; the rows that come are those of its newest statement."""

    def __init__(self, proxy: PostgresProxy, client: socket.socket, upstream: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._upstream = upstream
        self._statement = Statement("")
        self._is_started = False
        self._loses_answer = False
        self._is_cut = threading.Event()
        self._open_sides, self._end_of_one = 2, threading.Lock()

    def cut(self) -> None:
        """Reset the client's connection, and end the server's."""
        if self._is_cut.is_set():
            return
        self._is_cut.set()
        for end in (self._client, self._upstream):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads, without a word to the other side
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._client.close()
        self._upstream.close()
        self._proxy.ended(self)

    def from_client(self) -> None:
        """Pass the client's messages on."""
        pending = bytearray()
        with suppress(OSError):
            while data := self._client.recv(65536):
                pending += data
                while message := self._client_message(pending):
                    if not self._is_passed(message):
                        return
                    # A client with a pipeline would wait for ever: the connection is cut when the server is ready.
                    self._upstream.sendall(_SYNC if self._loses_answer and message[:1] == _FLUSH else message)
        self._end()

    def from_server(self) -> None:
        """Pass the server's messages on."""
        pending = bytearray()
        with suppress(OSError):
            while data := self._upstream.recv(65536):
                pending += data
                passed = bytearray()
                while message := self._server_message(pending):
                    if self._loses_answer and self._statement.text == CONNECT:
                        self.cut()  # the server would go on by asking for the password
                        return
                    if message[:1] in _ROWS and len(message) > 1:
                        self._statement.rows += 1
                    if not self._loses_answer or message[:1] in _COPY_BEGINS:
                        passed += message
                    elif message[:1] == _READY:
                        self.cut()
                        return
                self._client.sendall(passed)
        self._end()

    def _end(self) -> None:
        if self._is_cut.is_set():
            return
        for end in (self._client, self._upstream):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # ends the other thread too
        self._proxy.ended(self)
        with self._end_of_one:
            self._open_sides -= 1
            if self._open_sides == 0:
                self._client.close()
                self._upstream.close()

    def _client_message(self, pending: bytearray) -> bytes:
        """The first whole message, which is removed; empty if there is none."""
        if self._is_started:
            return _taken(pending, _HEADER, 1)
        message = _taken(pending, _STARTUP, 0)
        # A request for encryption, which the server refuses, comes before the startup itself.
        self._is_started = bool(message) and int.from_bytes(message[4:8]) >> 16 == 3
        return message

    @staticmethod
    def _server_message(pending: bytearray) -> bytes:
        if pending == _REFUSED:
            pending.clear()
            return _REFUSED
        return _taken(pending, _HEADER, 1)

    def _is_passed(self, message: bytes) -> bool:
        """Whether a message is passed on, after its fault."""
        if message[:1] in _WAITS - _QUERIES and self._is_started:
            self._proxy.note_wait()
        if self._statement.text == "" and self._is_started:
            self._statement = Statement(CONNECT)
        elif message[:1] in _QUERIES and self._is_started:
            texts = message[_HEADER:].split(b"\0")
            self._statement = Statement(texts[1 if message[:1] == b"P" else 0].decode(errors="replace"))
        else:
            return True
        rule = self._proxy.note(self._statement)
        match rule:
            case Rule(fault="reset"):
                self.cut()
            case Rule(fault="hang"):
                self._is_cut.wait()
            case Rule(fault="lose_answer"):
                self._loses_answer = True
            case Rule(fault="slow"):
                time.sleep(rule.seconds)
            case Rule(fault="call"):
                rule.call()
        if message[:1] in _WAITS:
            self._proxy.note_wait()
        return not self._is_cut.is_set()


def _taken(pending: bytearray, header: int, before_length: int) -> bytes:
    """The first whole message, which is removed from the bytes; empty if there is none."""
    if len(pending) < header:
        return b""
    length = before_length + int.from_bytes(pending[before_length : before_length + 4])
    if len(pending) < length:
        return b""
    message = bytes(pending[:length])
    del pending[:length]
    return message


@contextmanager
def postgres_proxy(server: PostgresServer) -> Iterator[PostgresProxy]:
    """A proxy on a free port of 127.0.0.1, whose `server` has the same user and password."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    proxy = PostgresProxy(PostgresServer("127.0.0.1", port, server.user, server.password), server)
    proxy.listen()
    try:
        yield proxy
    finally:
        proxy.close()
