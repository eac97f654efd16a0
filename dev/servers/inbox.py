"""A web server that keeps what it is sent, as a service does that takes webhooks."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Letter:
    """One request that the server got."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Inbox:
    """The server.

    Attributes:
        url: of its root, without a trailing slash.
        letters: the POST requests, in their order, refused ones too.
        statuses: of the next answers; 200 when there are no more.
        answer: the body of every answer.
    """

    url: str
    letters: list[Letter] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    answer: bytes = b'{"ok": true}'


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """A server that accepts every POST request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.letters.append(Letter(self.path, headers, body))
            self.send_response(found.statuses.pop(0) if found.statuses else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(found.answer)))
            self.end_headers()
            self.wfile.write(found.answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Inbox(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()
