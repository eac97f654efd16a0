"""An answer of S3 has one meaning at each verb, whichever client gets it."""

import re
from collections.abc import Callable, Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.odd_s3 import OddS3, etag, odd_s3
from lake_assets.config.lake import Lake
from lake_assets.config.storages import S3Storage
from lake_assets.duckdb_engine import open_engine, without_cache
from lake_assets.errors import (
    AbsentStorageError,
    LakeAssetsError,
    ObjectRefusedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.lake.attach import extensions, http_limits, secret_statements
from lake_assets.lake.failures import translated
from lake_assets.parquet.read import opened
from lake_assets.storage import s3
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.storage_errors import storage_errors
from lake_assets.storage.store import Store
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales

__all__ = ["sessions"]

KEY = "region=NW/date=2026-02-11/{}.parquet"
REGION = "The region 'us-east-1' is wrong; expecting 'eu-central-1'"


def answer(code: str, words: str = "in words") -> bytes:
    return f"<Error><Code>{code}</Code><Message>{words}</Message></Error>".encode()


def body(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="none")
    return bytes(sink.getvalue().to_pybytes())


@pytest.fixture
def odd(local_world: World) -> Iterator[OddS3]:
    """The bucket of the world's landing zone, with two objects."""
    with odd_s3() as server:
        local_world.source = server.source
        server.objects = {KEY.format("a"): body(sales(1)), KEY.format("b"): body(sales(2))}
        yield server


@pytest.mark.parametrize("rows", [1, *more([1_500_000])], ids=["small", "large"])
def test_an_object_in_an_archive_is_one_bad_object(odd: OddS3, local_world: World, rows: int) -> None:
    odd.objects[KEY.format("a")] = body(sales(*range(rows)))
    refused = 403, answer("InvalidObjectState")
    odd.answers = lambda method, key: refused if method == "GET" and key == KEY.format("a") else None

    with pytest.raises(SourceError, match=r"a\.parquet is in an archive of .*: restore it there and"):
        local_world.ingest(NW)
    local_world.options = {"on_bad_object": "quarantine"}
    local_world.ingest(NW)
    assert local_world.totals() == [2]
    odd.answers = lambda *_: None
    local_world.ingest(NW, force=True)
    assert len(local_world.totals()) == rows + 1


Verb = Literal["LIST", "HEAD", "GET", "PUT", "MULTIPART", "DELETE"]
# A HEAD tells nothing; who is answered so asks by GET, and gets the same answer. obstore deletes by POST.
METHODS: dict[Verb, tuple[str, ...]] = {
    "LIST": ("GET",),
    "HEAD": ("HEAD", "GET"),
    "GET": ("GET",),
    "PUT": ("PUT",),
    "MULTIPART": ("POST",),
    "DELETE": ("DELETE", "POST"),
}
BIG = 11 * 2**20  # bytes that each client uploads in parts
BODY = b"a,b\n1,2\n" * 100
MOST = 2  # requests for a permanent answer: Arrow gets one that it does not pass on, and obstore asks again
REPEATED = {  # by the rules of a client, which no setting changes
    *(("full", "obstore"), ("not there", "obstore"), ("not there", "Arrow")),  # any 5xx
    ("clock", "Arrow"),  # it corrects its time, but not for the next request
}


class Clients:
    """Each client of the product, on a bucket with an object `a`; what its verbs raise are errors of ours."""

    def __init__(self, server: OddS3) -> None:
        quick = {"retries": 2, "first_wait": 0.01, "longest_wait": 0.02}
        self.server, storage = server, S3Storage.model_validate(server.source | {"requests": quick})
        self._storage, self._store, self._arrow = storage, Store(storage), ArrowStore(storage)
        place = {"type": "s3", **storage.model_dump(exclude={"secret", "requests"}), "secret": "odd-secret"}
        catalog = {"type": "duckdb", "path": "unused"}
        self._lake = Lake.model_validate({"catalog": catalog, "storage": place | {"requests": quick}})
        self._engine = open_engine(extensions(self._lake), http_limits(self._lake))
        self._engine.execute(";".join(secret_statements(self._lake)))
        self._engine.execute("SET s3_uploader_max_filesize = '50GB'")  # so that its parts have 5 MiB
        without_cache(self._engine)

    def duckdb(self, sql: str) -> None:
        with translated(self._lake):
            self._engine.execute(sql).fetchall()

    def written(self, size: int) -> None:
        uri = f"{self._storage.root}/new"
        with storage_errors(self._storage, uri, "write"), self._arrow.create("new") as file:
            file.write(b"x" * size)

    def read(self) -> None:
        with opened(self._arrow, "a") as file:
            file.read()

    def paged(self) -> None:
        with self._store._errors("list"):
            s3.page(self._storage, "", "")

    @property
    def verbs(self) -> dict[tuple[Verb, str], Callable[[], object]]:
        store, tag = self._store, etag(BODY).strip('"')
        return {
            ("LIST", "obstore"): store.list,
            ("LIST", "boto3"): self.paged,
            ("LIST", "DuckDB"): lambda: self.duckdb("FROM glob('s3://landing/*')"),
            ("HEAD", "obstore"): lambda: store.find("a"),
            ("HEAD", "Arrow"): self.read,
            ("GET", "obstore"): lambda: store.get("a", tag),
            ("GET", "Arrow"): self.read,
            ("GET", "DuckDB"): lambda: self.duckdb("FROM read_text('s3://landing/a')"),
            ("PUT", "obstore"): lambda: store.put_own("new", b"x", multipart_above=BIG),
            ("PUT", "Arrow"): lambda: self.written(9),
            ("PUT", "boto3"): lambda: store.tag_unchanged("a", tag, len(BODY), "name", "value"),
            ("PUT", "DuckDB"): lambda: self.duckdb("COPY (SELECT 1) TO 's3://landing/new.csv'"),
            ("MULTIPART", "obstore"): lambda: store.put_own("new", b"x" * BIG, multipart_above=5 * 2**20),
            ("MULTIPART", "Arrow"): lambda: self.written(BIG),
            ("MULTIPART", "DuckDB"): lambda: self.duckdb(
                f"COPY (SELECT repeat('x', {2**20}) FROM range({BIG // 2**20})) TO 's3://landing/new.csv'"
            ),
            ("DELETE", "obstore"): lambda: store.delete(("a",)),
            ("DELETE", "boto3"): lambda: store.delete_unchanged("a", tag, len(BODY)),
        }

    def raised(self, verb: Verb, client: str, status: int, body: bytes) -> tuple[LakeAssetsError | None, int]:
        """The error for an answer to the requests of a verb, and how many requests of it the client made."""
        self.server.objects, refused = {"a": BODY}, (status, body)
        self.server.answers = lambda method, key: (
            refused if method in METHODS[verb] and (verb == "DELETE" or bool(key) == (verb != "LIST")) else None
        )
        self.server.requests.clear()
        error = None
        try:
            self.verbs[verb, client]()
        except LakeAssetsError as raised:
            error = raised
        return error, len([method for method, *_ in self.server.requests if method in METHODS[verb]])


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with odd_s3() as server:
        yield Clients(server)


READS: tuple[Verb, ...] = ("HEAD", "GET")
EACH: tuple[Verb, ...] = tuple(METHODS)
BUCKET: tuple[Verb, ...] = ("LIST", "PUT", "MULTIPART")
CLOCK, KEY_FIX, SHOWN = "set the clock", "refuses access.*: check key_id and secret", "correct the cause"
WHOLE, ONE, AWAY = WholeStorageError, StorageError, StorageUnreachableError
# A status, a code, the words; what it is an error of, what it says, and the verbs that get such an answer.
ANSWERS: dict[str, tuple[int, bytes, type[LakeAssetsError], str, tuple[Verb, ...]]] = {
    "archive": (403, answer("InvalidObjectState"), SourceError, "a is in an archive of .*: restore it", READS),
    "clock": (403, answer("RequestTimeTooSkewed"), WHOLE, CLOCK, EACH),
    "region": (400, answer("AuthorizationHeaderMalformed", REGION), WHOLE, "another region: eu-central-1: set ", EACH),
    "moved": (301, answer("PermanentRedirect"), WHOLE, "is in another region: set `region`", EACH),
    "no key": (403, answer("InvalidAccessKeyId"), WHOLE, KEY_FIX, EACH),
    "signature": (403, answer("SignatureDoesNotMatch"), WHOLE, KEY_FIX, EACH),
    "expired": (400, answer("ExpiredToken"), WHOLE, KEY_FIX, EACH),
    "right to list": (403, answer("AccessDenied"), ONE, "refuses access: .*it needs s3:ListBucket", ("LIST",)),
    "right to read": (403, answer("AccessDenied"), ObjectRefusedError, "a was not read: grant s3:GetObject", READS),
    "right to write": (403, answer("AccessDenied"), ONE, "was not .*: grant s3:", ("PUT", "MULTIPART", "DELETE")),
    "bucket": (
        404,
        answer("NoSuchBucket"),
        AbsentStorageError,
        "'landing' does not exist",
        ("LIST", "PUT", "MULTIPART"),
    ),
    "full": (507, answer("StorageFull"), WHOLE, "has no space left", ("PUT", "MULTIPART")),
    "name": (400, answer("KeyTooLongError"), ONE, "takes no name as long", ("PUT", "MULTIPART")),
    "checksum": (400, answer("MissingContentMD5"), ONE, f"MissingContentMD5: in words: {SHOWN}", EACH),
    "unknown": (405, answer("Teapot"), ONE, f"Teapot: in words: {SHOWN}", EACH),
    "not there": (501, answer("NotImplemented"), ONE, f"NotImplemented: in words: {SHOWN}", EACH),
    "without a code": (400, b"", ONE, SHOWN, EACH),
    "slow": (503, answer("SlowDown"), AWAY, "cannot be reached", EACH),
    "fails": (500, answer("InternalError"), AWAY, "cannot be reached", EACH),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_has_one_meaning_at_each_verb_of_each_client(clients: Clients, case: str) -> None:
    status, content, kind, says, verbs = ANSWERS[case]
    wrong = []
    for verb, client in clients.verbs:
        if verb in verbs:
            error, requests = clients.raised(verb, client, status, content)
            is_right = isinstance(error, kind) and isinstance(error, AWAY) == (kind is AWAY)
            # DuckDB asks again for any object that it does not get.
            repeats = kind is AWAY or (case, client) in REPEATED or (verb, client) == ("GET", "DuckDB")
            if not (is_right and re.search(says, str(error)) and (repeats or requests <= MOST)):
                wrong.append(f"{verb} by {client}, {requests} requests: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
