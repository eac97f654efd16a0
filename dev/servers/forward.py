"""A proxy as companies have them: it tells who came through it, and alone knows the names of some servers.

It passes on requests that name a whole URL, and tunnels for TLS (CONNECT). A TLS terminator is the same without a
request.
"""

import io
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

_BLOCK = 65536  # bytes passed on at a time


class _Server(ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that leaves is no error."""


class ForwardProxy(_Server):
    """The proxy, on a free port of 127.0.0.1.

    Args:
        hidden: the port of 127.0.0.1 that every name below `store.invalid` is, with any port.

    Attributes:
        asked: the methods and the hosts of the requests so far.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.hidden = hidden
        self.asked: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Terminator(_Server):
    """A server that speaks TLS, and plainly with the one behind it."""

    def __init__(self, context: ssl.SSLContext, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Terminate)
        self.context, self.behind, self.port = context, behind, int(self.server_address[1])


class _Forward(StreamRequestHandler):
    server: ForwardProxy

    def handle(self) -> None:
        """Pass on one connection, whose requests are all to one server."""
        with suppress(ConnectionError):
            while first := self.rfile.readline():
                if not self._pass_on(first):
                    return

    def _pass_on(self, first: bytes) -> bool:
        method, url, version = first.decode().split(" ")
        is_tunnel = method == "CONNECT"
        place = urlsplit(f"//{url}" if is_tunnel else url)
        host, port = place.hostname or "", place.port or 80
        self.server.asked.append((method, host))
        lines = [first] if is_tunnel else [f"{method} {url.split(place.netloc, 1)[1]} {version}".encode()]
        while (line := self.rfile.readline()).strip():
            if not line.lower().startswith((b"proxy-", b"connection:")):
                lines.append(line)
        address = ("127.0.0.1", self.server.hidden) if host.endswith("store.invalid") else (host, port)
        with socket.create_connection(address) as server:
            if is_tunnel:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(b"".join([*lines, b"Connection: close\r\n\r\n"]))
            _pipe(self.rfile, self.connection, server)
        return False


class _Terminate(StreamRequestHandler):
    server: Terminator

    def setup(self) -> None:
        """Speak TLS."""
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        """Pass on one connection."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.behind)) as server:
            _pipe(self.rfile, self.connection, server)


def _pipe(sent: io.BufferedIOBase, client: socket.socket, server: socket.socket) -> None:
    """Pass on bytes both ways until one of them ends."""

    def answer() -> None:
        with suppress(OSError):
            while block := server.recv(_BLOCK):
                client.sendall(block)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    back = threading.Thread(target=answer, daemon=True)
    back.start()
    with suppress(OSError):
        while block := sent.read1(_BLOCK):
            server.sendall(block)
        server.shutdown(socket.SHUT_WR)
    back.join()


@contextmanager
def serving(server: ThreadingTCPServer) -> Iterator[None]:
    """Serve in the background."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
