"""Two real web servers: Python's own, which has neither ranges nor ETags, and SeaweedFS's filer, which has both."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dev.servers.s3 import S3Server


@dataclass
class WebServer:
    """A web server.

    Attributes:
        url: of its root, without a trailing slash.
        put: gives it a file of this name and content.
        requests: the methods and paths that it was asked for, where it is known.
    """

    url: str
    put: Callable[[str, bytes], object]
    requests: list[tuple[str, str]] = field(default_factory=list)


class _Handler(SimpleHTTPRequestHandler):
    server: "_Server"

    def do_HEAD(self) -> None:
        """Answer, or refuse."""
        if self.server.status:
            self.send_error(self.server.status)
        else:
            super().do_HEAD()

    def send_header(self, keyword: str, value: str) -> None:
        """Leave some out."""
        if keyword not in self.server.hidden:
            super().send_header(keyword, value)

    def end_headers(self) -> None:
        """Add some."""
        for name, value in self.server.headers.items():
            super().send_header(name, value)
        super().end_headers()

    def log_request(self, code: object = "-", size: object = "-") -> None:  # noqa: ARG002 - the base's signature
        self.server.requests.append((self.command, self.path))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as above
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    requests: list[tuple[str, str]]
    status: int | None
    headers: Mapping[str, str]
    hidden: Collection[str]


@contextmanager
def plain_web_server(
    folder: Path, *, status: int | None = None, headers: Mapping[str, str] | None = None, hidden: Collection[str] = ()
) -> Iterator[WebServer]:
    """Python's own server over a folder.

    Args:
        folder: what it serves.
        status: with which every HEAD is refused.
        headers: that are sent besides.
        hidden: headers that are not sent.
    """

    def put(name: str, body: bytes) -> None:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)

    with _Server(("127.0.0.1", 0), partial(_Handler, directory=str(folder))) as server:
        server.requests, server.status, server.headers, server.hidden = [], status, headers or {}, hidden
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield WebServer(f"http://127.0.0.1:{server.server_port}", put, server.requests)
        server.shutdown()


@pytest.fixture(params=["plain", pytest.param("ranges", marks=pytest.mark.servers)])
def web(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WebServer]:
    """A web server, of each kind in turn."""
    if request.param == "plain":
        with plain_web_server(tmp_path / "web") as server:
            yield server
        return
    s3: S3Server = request.getfixturevalue("s3")
    bucket = s3.new_bucket()
    yield WebServer(f"{s3.filer}/buckets/{bucket}", lambda name, body: s3.put(bucket, name, body))
