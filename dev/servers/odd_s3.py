"""A server of S3's protocol that keeps any key, and whose answers may be those that no server here gives.

It knows what readers and writers ask: listings (version 2), HEAD, GET with a range and `If-Match`, PUT, deletions and
uploads in parts. It checks no signature.
"""

import datetime as dt
import hashlib
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

_TIME = "2026-02-11T10:00:00.000Z"
_HTTP_TIME = "Wed, 11 Feb 2026 10:00:00 GMT"
BUCKET = "landing"

Answer = tuple[int, bytes]
"""A status, and a body."""


class OddS3(ThreadingHTTPServer):
    """The server, on a free port of 127.0.0.1.

    Attributes:
        objects: of its one bucket, by key.
        region: of the bucket, which the answer to its HEAD names, as Amazon's does; empty: none.
        page: how many keys a listing has at most.
        doubles: a page begins with the key that ended the last one, as some stores' pages do.
        answers: is asked first, with the method and the key (empty for a listing); None: the usual answer.
        other: the URL of another server, to which each request is sent on.
        requests: the methods, keys and headers so far; names of headers are in lower case.
        endpoint: its URL.
    """

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http{'s' if context else ''}://127.0.0.1:{self.server_port}"
        self._context = context
        self.objects: dict[str, bytes] = {}
        self.page, self.doubles, self.other, self.region = 1000, False, "", ""
        self.answers: Callable[[str, str], Answer | None] = lambda *_: None
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._parts: dict[str, dict[int, bytes]] = {}

    @property
    def source(self) -> dict[str, str]:
        """The bucket, as a source of a config."""
        place = {"type": "s3", "bucket": BUCKET, "endpoint": self.endpoint}
        return place | {"region": "us-east-1", "key_id": "odd", "secret": "odd-secret"}

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a client; one that does not trust the certificate leaves."""
        with suppress(ssl.SSLError, ConnectionError):
            if self._context is not None:
                request = self._context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)

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

    def change(self, method: str, key: str, query: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        """Do what a writer asks; returns a status, a body, and an ETag."""
        parts = self._parts.setdefault(key, {})
        if "partNumber" in query:
            parts[int(query["partNumber"])] = body
        elif method == "PUT":
            self.objects[key] = body
        elif "uploads" in query:
            names = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>1</UploadId>"
            return HTTPStatus.OK, f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>".encode(), ""
        elif "uploadId" in query and method == "POST":
            body = self.objects[key] = b"".join(parts[number] for number in sorted(parts))
            names = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><ETag>{escape(etag(body))}</ETag>"
            answer = f"<CompleteMultipartUploadResult>{names}</CompleteMultipartUploadResult>"
            return HTTPStatus.OK, answer.encode(), etag(body)
        elif "delete" in query:
            keys = [unescape(name) for name in re.findall("<Key>(.*?)</Key>", body.decode())]
            for name in keys:
                self.objects.pop(name, None)
            gone = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in keys)
            return HTTPStatus.OK, f"<DeleteResult>{gone}</DeleteResult>".encode(), ""
        elif method == "DELETE":
            self.objects.pop(key, None)
            return HTTPStatus.NO_CONTENT, b"", ""
        return HTTPStatus.OK, b"", etag(body)


def etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def role_keys(number: int = 0, seconds: float = 3600) -> bytes:
    """What STS answers to AssumeRole: the keys `role…`, which are valid for so long."""
    end = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    keys = f"<AccessKeyId>role{number}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
    keys = f"<Credentials>{keys}<Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>"
    return f"<AssumeRoleResponse><AssumeRoleResult>{keys}</AssumeRoleResult></AssumeRoleResponse>".encode()


class _Handler(BaseHTTPRequestHandler):
    server: OddS3
    protocol_version = "HTTP/1.1"
    _key = ""  # of the request

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        key = self._key = unquote(url.path.removeprefix(f"/{BUCKET}").removeprefix("/"))
        asked = dict(parse_qsl(url.query, keep_blank_values=True))
        sent = self._sent()
        self.server.requests.append((self.command, key, {name.lower(): text for name, text in self.headers.items()}))
        if self.server.other:
            self._send(HTTPStatus.TEMPORARY_REDIRECT, b"elsewhere", Location=f"{self.server.other}{self.path}")
        elif (answer := self.server.answers(self.command, key)) is not None:
            self._send(*answer)
        elif self.command not in ("GET", "HEAD"):
            status, text, tag = self.server.change(self.command, key, asked, sent)
            self._send(status, text, **({"ETag": tag} if tag else {}))
        elif "tagging" in asked:
            self._send(HTTPStatus.OK, b"<Tagging><TagSet></TagSet></Tagging>")
        elif not key:
            self._send(HTTPStatus.OK, self.server.listing(asked))
        elif (body := self.server.objects.get(key)) is None:
            self._send(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
        elif self.headers["If-Match"] not in (None, etag(body)):
            self._send(HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._send_object(body)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the base class's names

    def _sent(self) -> bytes:
        """Read the body of a request, also one in chunks, and take S3's own chunks apart."""
        if self.headers["Transfer-Encoding"] != "chunked":
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        else:
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        if "aws-chunked" not in (self.headers["Content-Encoding"] or ""):
            return body
        plain = b""
        while body:
            first, _, body = body.partition(b"\r\n")
            if not (size := int(first.split(b";")[0], 16)):
                break
            plain, body = plain + body[:size], body[size + 2 :]
        return plain

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
        if self.server.region and self.command == "HEAD" and not self._key:
            headers["x-amz-bucket-region"] = self.server.region
        if self.close_connection:  # a client behind a proxy would send its next request there
            headers["Connection"] = "close"
        for name, text in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def odd_s3(context: ssl.SSLContext | None = None) -> Iterator[OddS3]:
    """A running server; with a context it speaks TLS."""
    server = OddS3(context)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
