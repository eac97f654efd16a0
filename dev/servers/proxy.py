"""A proxy in front of the S3 server that counts what is asked of it and makes it fail on demand.

It passes requests on byte for byte, the `Host` header too: clients sign for the proxy's address, and SeaweedFS
checks the signature against the `Host` that it receives.
"""

import dataclasses
import http.client
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from dev.servers.s3 import S3Server

Fault = Literal["hang_up", "status", "slow", "hang", "reset_body", "truncate", "lose_answer"]

_CODES: dict[int, str] = {HTTPStatus.SERVICE_UNAVAILABLE: "SlowDown", HTTPStatus.FORBIDDEN: "AccessDenied"}
_LEFT = "the client left before the end of its request"
_BLOCK = 256 * 1024  # bytes passed on at a time
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # linger for 0 seconds: the client gets a TCP reset


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as the proxy got it, decoded, and what the client was answered.

    Args:
        key: the object's key; empty for a request to the bucket itself, such as a listing.
        range: the `Range` header.
        status: the HTTP status sent to the client; None when it got none.
        fault: the fault that befell the request.
        copies: whether the server copies another object to this key.
        size: bytes of the request's body; None where it comes in chunks.
    """

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    range: str | None
    status: int | None = None
    fault: Fault | None = None
    copies: bool = False
    size: int | None = 0


@dataclasses.dataclass
class Rule:
    """A fault for the next requests that match.

    Args:
        fault: `hang_up`: the connection is reset and the server never hears of the request.
            `status`: an error is answered, and the server never hears of the request.
            `slow`: the request waits before it is passed on.
            `hang`: the request is never passed on, and nothing is answered until the proxy is closed.
            `reset_body`: the answer breaks off with a connection reset after half of its body.
            `truncate`: half of the request's body is passed on, or half of the answer's if the request has none; then
            both connections are closed, without a reset.
            `lose_answer`: the server does what is asked, and the connection is reset instead of the answer.
        when: which requests; all, if not given.
        times: how many of them; it counts down.
        status: the HTTP status of `status`.
        code: S3's code in that answer; one that fits the status if not given.
        seconds: how long `slow` waits.
    """

    fault: Fault
    when: Callable[[Request], bool] = lambda _: True
    times: int = 1
    status: int = HTTPStatus.SERVICE_UNAVAILABLE
    code: str | None = None
    seconds: float = 1.0


class S3Proxy(ThreadingHTTPServer):
    """The proxy, on a free port of 127.0.0.1, running until `close`.

    Args:
        upstream: the server behind it.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: S3Server) -> None:
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._requests: list[Request] = []
        self._rules: list[Rule] = []
        self.closed = Event()
        self.upstream = urlsplit(upstream.endpoint).netloc
        super().__init__(("127.0.0.1", 0), _Handler)
        self.s3 = dataclasses.replace(upstream, endpoint=f"http://127.0.0.1:{self.server_port}")
        self._serve()

    def requests(self, method: str | None = None) -> list[Request]:
        """The requests so far, in the order in which they were answered; a request is listed before its client
        can see the answer.
        """
        with self._lock:
            return [request for request in self._requests if method in {None, request.method}]

    def forget(self) -> None:
        """Empty the list of requests."""
        with self._lock:
            self._requests.clear()

    def inject(self, rule: Rule) -> Rule:
        """Let the next requests under this rule fail. Of several rules the oldest comes first.

        Returns:
            The rule; its `times` is 0 when all of it has happened.
        """
        with self._lock:
            self._rules.append(rule)
        return rule

    @contextmanager
    def down(self) -> Iterator[None]:
        """Within the `with`, nothing listens on the port (connections are refused), and open ones are cut."""
        address = self.server_address
        self.close()
        try:
            yield
        finally:
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.server_address = address
            self.server_bind()
            self.server_activate()
            self.closed.clear()
            self._serve()

    def heal(self) -> None:
        """Forget the rules: no further request fails."""
        with self._lock:
            self._rules.clear()

    def note(self, request: Request) -> None:
        """Add a request to the list."""
        with self._lock:
            self._requests.append(request)

    def rule_for(self, request: Request) -> Rule | None:
        """The rule that the request falls under; it is counted down."""
        with self._lock:
            rule = next((rule for rule in self._rules if rule.times > 0 and rule.when(request)), None)
            if rule is not None:
                rule.times -= 1
            return rule

    def _serve(self) -> None:
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        """Stop listening and cut all connections."""
        self.closed.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                # Wakes the thread that waits for the client's next request; that thread closes it.
                with suppress(OSError):  # the client was faster
                    connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        # Without the polite shutdown of the base class, which would come before a reset.
        with self._lock:
            self._open.discard(request)
            self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away at any time; only other errors are worth a traceback."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One client's connection; `serve` is called for each request on it."""

    server: S3Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def serve(self) -> None:
        request = self._decoded()
        rule = self.server.rule_for(request)
        if rule is not None:
            request = dataclasses.replace(request, fault=rule.fault)
        match rule:
            case Rule(fault="hang_up"):
                self.server.note(request)
                self._reset()
            case Rule(fault="status"):
                for _ in self._body():
                    pass  # what stays unread would be taken for the next request
                self.server.note(dataclasses.replace(request, status=rule.status))
                self._answer_error(rule.status, rule.code)
            case Rule(fault="hang"):
                self.server.note(request)
                self.server.closed.wait()
                self._reset()
            case _:
                if rule is not None and rule.fault == "slow":
                    time.sleep(rule.seconds)
                with closing(http.client.HTTPConnection(self.server.upstream, timeout=60)) as upstream:
                    self._pass_on(upstream, request)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve  # noqa: N815 - the base class wants these names

    def _decoded(self) -> Request:
        url = urlsplit(self.path)
        bucket, _, key = url.path.removeprefix("/").partition("/")
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        return Request(
            self.command,
            unquote(bucket),
            unquote(key),
            query,
            self.headers["Range"],
            copies="x-amz-copy-source" in self.headers,
            size=None if "Transfer-Encoding" in self.headers else int(self.headers["Content-Length"] or 0),
        )

    def _body(self) -> Iterator[bytes]:
        """The request's body as it came, in blocks."""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            yield from self._chunks()
            return
        left = int(self.headers["Content-Length"] or 0)
        while left:
            block = self._read(min(left, _BLOCK))
            left -= len(block)
            yield block

    def _chunks(self) -> Iterator[bytes]:
        """A body in chunks (pyarrow sends them), with their framing: RFC 9112, section 7.1."""
        while size := int((head := self._line()).split(b";")[0], 16):
            yield head + self._read(size + len(b"\r\n"))
        yield head
        while (trailer := self.rfile.readline()) not in {b"\r\n", b""}:
            yield trailer
        yield trailer

    def _line(self) -> bytes:
        if not (line := self.rfile.readline()):
            raise ConnectionAbortedError(_LEFT)
        return line

    def _read(self, size: int) -> bytes:
        block = self.rfile.read(size)
        if len(block) < size:
            raise ConnectionAbortedError(_LEFT)
        return block

    def _pass_on(self, upstream: http.client.HTTPConnection, request: Request) -> None:
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders()
        if request.fault == "truncate" and request.size != 0:
            body = next(self._body())
            upstream.send(body[: len(body) // 2])
            self.server.note(request)
            self.close_connection = True
            return
        listens = True
        for block in self._body():
            # A server that refuses a request may hang up before its body has ended; its answer is there all the same.
            try:
                if listens:
                    upstream.send(block)
            except ConnectionError:
                listens = False
        answer = upstream.getresponse()
        if request.fault == "lose_answer":
            answer.read()
            self.server.note(request)
            self._reset()
            return
        self.server.note(dataclasses.replace(request, status=answer.status))
        self._relay(answer, broken=request.fault in {"reset_body", "truncate"}, resets=request.fault == "reset_body")

    def _relay(self, answer: http.client.HTTPResponse, *, broken: bool, resets: bool) -> None:
        length = answer.length  # of the body that follows: 0 for HEAD; None where the server sends chunks
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        sent = 0
        end = (length or 0) // 2 if broken else length
        while block := answer.read1(_BLOCK if end is None else min(_BLOCK, end - sent)):
            self.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n" if length is None else block)
            sent += len(block)
        if broken and not resets:
            self.close_connection = True
        elif broken or (length is not None and sent < length):
            self._reset()
        elif length is None:
            self.wfile.write(b"0\r\n\r\n")

    def _answer_error(self, status: int, code: str | None) -> None:
        """The error as S3 words it; the clients decide by the code in it whether to try again."""
        named = "InternalError" if status == HTTPStatus.INTERNAL_SERVER_ERROR else HTTPStatus(status).phrase
        code = code or _CODES.get(status, named.title().replace(" ", ""))
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing: the list of requests says it."""


@pytest.fixture
def s3_proxy(s3: S3Server) -> Iterator[S3Proxy]:
    """A new proxy in front of the S3 server; `s3_proxy.s3` is the server as seen through it."""
    proxy = S3Proxy(s3)
    yield proxy
    proxy.close()
