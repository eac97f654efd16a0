"""A server of S3's protocol that keeps any key, and whose answers may be those that no server here gives.

It knows what a reader asks: listings (version 2), HEAD, and GET with a range and `If-Match`. It checks no signature.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

_TIME = "2026-02-11T10:00:00.000Z"
_HTTP_TIME = "Wed, 11 Feb 2026 10:00:00 GMT"
BUCKET = "landing"

Answer = tuple[int, bytes]
"""A status, and a body."""


class OddS3(ThreadingHTTPServer):
    """The server, on a free port of 127.0.0.1.

    Attributes:
        objects: of its one bucket, by key.
        page: how many keys a listing has at most.
        doubles: a page begins with the key that ended the last one, as some stores' pages do.
        answers: is asked first, with the method and the key (empty for a listing); None: the usual answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.page, self.doubles = 1000, False
        self.answers: Callable[[str, str], Answer | None] = lambda *_: None

    @property
    def source(self) -> dict[str, str]:
        """The bucket, as a source of a config."""
        place = {"type": "s3", "bucket": BUCKET, "endpoint": f"http://127.0.0.1:{self.server_port}"}
        return place | {"region": "us-east-1", "key_id": "odd", "secret": "odd-secret"}

    def listing(self, query: dict[str, str]) -> bytes:
        """The XML of one page."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        entries: dict[str, str] = {}  # each with its text, by a key, or by a folder
        for key in sorted(self.objects):
            if not key.startswith(prefix):
                continue
            folder, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                name = f"{prefix}{folder}{delimiter}"
                entries[name] = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            else:
                size, tag = len(self.objects[key]), etag(self.objects[key])
                entries[key] = (
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{_TIME}</LastModified><ETag>{escape(tag)}</ETag>"
                    f"<Size>{size}</Size></Contents>"
                )
        names = [name for name in entries if name > after or (name == after and self.doubles)]
        page = names[: self.page]
        is_more = len(names) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if is_more else ""
        body = "".join(entries[name] for name in page)
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><IsTruncated>{str(is_more).lower()}</IsTruncated>{token}{body}"
            "</ListBucketResult>"
        ).encode()


def etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    server: OddS3
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        key = unquote(url.path.removeprefix(f"/{BUCKET}").removeprefix("/"))
        if (answer := self.server.answers(self.command, key)) is not None:
            self._send(*answer)
        elif not key:
            self._send(HTTPStatus.OK, self.server.listing(dict(parse_qsl(url.query))))
        elif (body := self.server.objects.get(key)) is None:
            self._send(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
        elif self.headers["If-Match"] not in (None, etag(body)):
            self._send(HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._send_object(body)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def _send_object(self, body: bytes) -> None:
        facts = {"ETag": etag(body), "Last-Modified": _HTTP_TIME}
        if (wanted := self.headers["Range"]) is None:
            self._send(HTTPStatus.OK, body, **facts)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(len(body) - int(last), 0)
        end = min(int(last) + 1, len(body)) if first and last else len(body)
        facts["Content-Range"] = f"bytes {begin}-{end - 1}/{len(body)}"
        self._send(HTTPStatus.PARTIAL_CONTENT, body[begin:end], **facts)

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, text in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def odd_s3() -> Iterator[OddS3]:
    """A running server."""
    server = OddS3()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
