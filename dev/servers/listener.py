"""A server that plays no service, and tells what a client asked of it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


class Listener:
    """An HTTP server that refuses everything, and remembers what it was asked.

    Args:
        status: of every answer.
        body: of every answer.
        kind: the body's type.
    """

    def __init__(self, status: int = 403, body: bytes = b"", kind: str = "application/json") -> None:
        asked: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def _refuse(self) -> None:
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(status)
                if body:
                    self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PUT = _refuse  # noqa: N815 - the names that the server calls

            def log_message(self, *_: object) -> None:
                pass

        self.asked = asked
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()
