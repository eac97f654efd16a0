"""A server that plays no service, and tells what a client asked of it."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


class Listener:
    """An HTTP server that refuses everything, and remembers what it was asked.

    Args:
        status: of every answer.
        body: of every answer.
        kind: the body's type.
        headers: more of every answer.
    """

    def __init__(self, status: int = 403, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        asked: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def _refuse(self) -> None:
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.rfile.read(int(self.headers["content-length"] or 0))
                self.send_response(status)
                # Azure's client ends the process if an answer without a body has the type of one.
                kinds = {"content-type": kind} if body and self.command != "HEAD" else {}
                for name, text in (kinds | headers | {"content-length": str(len(body))}).items():
                    self.send_header(name, text)
                self.end_headers()
                with suppress(ConnectionError):  # a client that uploads parts leaves after the first answer
                    if self.command != "HEAD":
                        self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _refuse  # noqa: N815 - the names that the server calls

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
