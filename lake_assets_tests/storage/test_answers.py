"""An answer of a store has one meaning at each verb, whichever client gets it."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.listener import Listener
from dev.servers.odd_s3 import OddS3, odd_s3
from lake_assets.base.errors import (
    AbsentStorageError,
    LakeAssetsError,
    ObjectRefusedError,
    SourceChangedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.config.storages import GcsStorage, S3Storage
from lake_assets.storage.store import Store
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.storage.each_client import BODY, METHODS, Clients, Verb, of_obstore
from lake_assets_tests.tiers import more, soak
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


def test_an_object_that_is_refused_is_not_asked_for_again_to_be_registered(odd: OddS3, local_world: World) -> None:
    local_world.options = {"mode": "index"}
    others = {KEY.format(number): body(sales(number)) for number in range(3, 10)}
    odd.objects |= others
    odd.answers = lambda method, key: (403, answer("InvalidObjectState")) if method == "GET" and "a." in key else None

    with pytest.raises(SourceError, match=r"a\.parquet is in an archive of"):
        local_world.ingest(NW)

    asked = [key for method, key, _ in odd.requests if method == "GET" and "a." in key]
    assert len(asked) <= 8  # twice: with seven others, with ever fewer of them, and alone


@pytest.mark.parametrize("mode", ["index", *more(["replace"])])
def test_an_object_that_is_listed_and_gone_is_no_damaged_one(odd: OddS3, local_world: World, mode: str) -> None:
    local_world.options = {"mode": mode}
    odd.answers = lambda _, key: (404, b"") if key == KEY.format("a") else None

    with pytest.raises(SourceChangedError, match=r"a\.parquet vanished"):
        local_world.ingest(NW)


def test_a_conflict_of_writers_of_a_key_that_nobody_has_is_tried_again(odd: OddS3) -> None:
    odd.answers = lambda *_: (409, answer("ConditionalRequestConflict")) if len(odd.requests) == 1 else None
    requests = {"retries": 1, "first_wait": 0.01}

    assert Store(S3Storage.model_validate(odd.source | {"requests": requests})).put_new("new", b"x")
    assert odd.objects["new"] == b"x"


MOST = 2  # requests for a permanent answer: Arrow gets one that it does not pass on, and obstore asks again
RETRIES = 2  # of the config
REPEATED = {  # by the rules of Arrow, which no setting changes: for any 5xx, and to correct its time, in vain
    ("not there", "GET"): 8,
    ("clock", "GET"): 8,
    ("clock", "PUT"): 8,
    ("clock", "MULTIPART"): 8,
}


class Odd:
    """The clients on a server with odd answers."""

    def __init__(self, server: OddS3) -> None:
        self.server, self.clients = server, Clients(server.source)

    def raised(self, verb: Verb, client: str, status: int, body: bytes) -> tuple[LakeAssetsError | None, int]:
        """The error for an answer to the requests of a verb, and how many requests of it the client made."""
        self.server.objects, refused = {"a": BODY}, (status, body)
        self.server.answers = lambda method, key: (
            refused if method in METHODS[verb] and (verb == "DELETE" or bool(key) == (verb != "LIST")) else None
        )
        self.server.requests.clear()
        error = None
        try:
            self.clients.verbs[verb, client]()
        except LakeAssetsError as raised:
            error = raised
        asked = [key for method, key, _ in self.server.requests if method in METHODS[verb]]
        return error, len([key for key in asked if key or verb in ("LIST", "DELETE")])  # and not for the region


@pytest.fixture(scope="module")
def asked() -> Iterator[Odd]:
    with odd_s3() as server:
        server.region = "eu-central-1"
        yield Odd(server)


READS: tuple[Verb, ...] = ("HEAD", "GET")
EACH: tuple[Verb, ...] = tuple(METHODS)
BUCKET: tuple[Verb, ...] = ("LIST", "PUT", "MULTIPART")
DENIED = r"\((AccessDenied|ACCESS_DENIED): in words\)"
CLOCK, KEY_FIX, SHOWN = "set the clock", "refuses access.*correct key_id and secret", "correct the cause"
WHOLE, ONE, AWAY = WholeStorageError, StorageError, StorageUnreachableError
# A status, a code, the words; what it is an error of, what it says, and the verbs that get such an answer.
ANSWERS: dict[str, tuple[int, bytes, type[LakeAssetsError], str, tuple[Verb, ...]]] = {
    "archive": (403, answer("InvalidObjectState"), SourceError, "a is in an archive of .*: restore it", READS),
    "clock": (403, answer("RequestTimeTooSkewed"), WHOLE, CLOCK, EACH),
    "region": (400, answer("AuthorizationHeaderMalformed", REGION), WHOLE, r"eu-central-1 \(Auth.*\): set ", EACH),
    "moved": (
        301,
        answer("PermanentRedirect"),
        WHOLE,
        r"is in another region: eu-central-1( \(PermanentRedirect: in words\))?: set `region`",
        EACH,
    ),
    "no key": (403, answer("InvalidAccessKeyId"), WHOLE, KEY_FIX, EACH),
    "signature": (403, answer("SignatureDoesNotMatch"), WHOLE, KEY_FIX, EACH),
    "expired": (400, answer("ExpiredToken"), WHOLE, KEY_FIX, EACH),
    "right to list": (403, answer("AccessDenied"), ONE, f"refuses access {DENIED}: grant s3:ListBucket on", ("LIST",)),
    "right to read": (
        403,
        answer("AccessDenied"),
        ObjectRefusedError,
        f"a was not read {DENIED}: grant s3:GetObject",
        READS,
    ),
    "right to write": (
        403,
        answer("AccessDenied"),
        ONE,
        f"was not .* {DENIED}: grant s3:",
        ("PUT", "MULTIPART", "DELETE"),
    ),
    "bucket": (
        404,
        answer("NoSuchBucket"),
        AbsentStorageError,
        "'landing' does not exist",
        ("LIST", "PUT", "MULTIPART"),
    ),
    "full": (507, answer("StorageFull"), WHOLE, "has no space left", ("PUT", "MULTIPART")),
    "name": (400, answer("KeyTooLongError"), ONE, "takes no name as long", ("PUT", "MULTIPART")),
    "checksum": (400, answer("MissingContentMD5"), ONE, "MissingContentMD5: in words: set `checksums: when_req", EACH),
    "unknown": (405, answer("Teapot"), ONE, f"Teapot: in words: {SHOWN}", EACH),
    "not there": (501, answer("NotImplemented"), ONE, f"NotImplemented: in words: {SHOWN}", EACH),
    "without a code": (400, b"", ONE, SHOWN, EACH),
    "late": (400, answer("RequestTimeout"), AWAY, "cannot be reached", EACH),
    "slow": (503, answer("SlowDown"), AWAY, "cannot be reached", EACH),
    "fails": (500, answer("InternalError"), AWAY, "cannot be reached", EACH),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_has_one_meaning_at_each_verb_of_each_client(asked: Odd, case: str) -> None:
    status, content, kind, says, verbs = ANSWERS[case]
    wrong = []
    for verb, client in asked.clients.verbs:
        if verb in verbs:
            error, requests = asked.raised(verb, client, status, content)
            is_right = isinstance(error, kind) and isinstance(error, AWAY) == (kind is AWAY)
            most = REPEATED.get((case, verb), MOST) if client == "Arrow" else MOST
            if (verb, client) == ("GET", "DuckDB"):  # it asks again for any object that it does not get
                most = RETRIES + 2
            if not (is_right and re.search(says, str(error)) and (kind is AWAY or requests <= most)):
                wrong.append(f"{verb} by {client}, {requests} requests: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_the_region_of_a_bucket_is_asked_for_once_and_needs_no_key() -> None:
    with odd_s3() as server:
        server.answers = lambda *_: (301, b"")
        store = Store(S3Storage.model_validate(server.source))

        with pytest.raises(WholeStorageError, match="is in another region: set `region` of the storage"):
            store.list()
        server.region = "eu-central-1"
        with pytest.raises(WholeStorageError, match="is in another region: eu-central-1: set `region`"):
            store.list()

        asked = [headers for method, _, headers in server.requests if method == "HEAD"]
        assert ["authorization" in headers for headers in asked] == [False, False]


# A status, a code; what it is an error of, what it says, and the verbs that get such an answer.
OF_AZURE: dict[str, tuple[int, str, type[LakeAssetsError], str, tuple[Verb, ...]]] = {
    "archive": (409, "BlobArchived", SourceError, "a is in an archive of .*: restore it", READS),
    "key": (403, "AuthenticationFailed", WHOLE, "refuses access.*correct account_key", EACH),
    "right to list": (
        403,
        "AuthorizationPermissionMismatch",
        ONE,
        "grant the role Storage Blob Data Reader",
        ("LIST",),
    ),
    "right to read": (
        403,
        "AuthorizationFailure",
        ObjectRefusedError,
        "a was not read.*: grant the role",
        READS,
    ),
    "name": (400, "OutOfRangeInput", ONE, "takes no name as long", ("PUT", "MULTIPART")),
    "full": (507, "InsufficientStorage", WHOLE, "has no space left", ("PUT", "MULTIPART")),
    "unknown": (418, "Teapot", ONE, f"Teapot.*: {SHOWN}", EACH),
    "busy": (503, "ServerBusy", AWAY, "cannot be reached", EACH),
}


@pytest.mark.parametrize(
    "case",
    ["key", "unknown", *more(case for case in OF_AZURE if case not in {"key", "unknown", "busy"}), *soak(["busy"])],
)
def test_an_answer_of_azure_has_one_meaning_at_each_verb_of_each_client(case: str) -> None:
    status, code, kind, says, verbs = OF_AZURE[case]
    with closing(Listener(status, answer(code), "application/xml", **{"x-ms-error-code": code})) as listener:
        account = f"AccountName=retail;BlobEndpoint={listener.url}/retail;AccountKey=QUJD"
        clients = Clients({"type": "azure", "container": "lake", "connection_string": account})
        assert wrong(clients.of_azure, verbs, kind, says) == []


def test_the_container_that_does_not_exist_is_named_by_each_client() -> None:
    headers = {"x-ms-error-code": "ContainerNotFound"}
    with closing(Listener(404, answer("ContainerNotFound"), "application/xml", **headers)) as listener:
        account = f"AccountName=retail;BlobEndpoint={listener.url}/retail;AccountKey=QUJD"
        clients = Clients({"type": "azure", "container": "lake", "connection_string": account}).of_azure
        cells = {cell: clients[cell] for cell in clients if cell[1] == "obstore" or cell == ("LIST", "DuckDB")}
        assert wrong(cells, ("LIST", "GET", "PUT", "MULTIPART", "DELETE"), AbsentStorageError, "'lake' does not") == []


def wrong(
    cells: dict[tuple[Verb, str], Callable[[], object]],
    verbs: tuple[Verb, ...],
    kind: type[LakeAssetsError],
    says: str,
) -> list[str]:
    """What is wrong with the errors of cells."""
    found = []
    for (verb, client), work in cells.items():
        if verb not in verbs:
            continue
        try:
            work()
        except LakeAssetsError as error:
            is_right = isinstance(error, kind) and isinstance(error, AWAY) == (kind is AWAY)
            if is_right and re.search(says, str(error)):
                continue
            found.append(f"{verb} by {client}: {type(error).__name__}: {error}")
        else:
            found.append(f"{verb} by {client}: nothing")
    return found


OF_GOOGLE: dict[str, tuple[int, type[LakeAssetsError], str, tuple[Verb, ...]]] = {
    "key": (401, WHOLE, "refuses access.*correct service_account", EACH),
    "right to list": (403, ONE, "grant storage.objects.list", ("LIST",)),
    "right to read": (403, ObjectRefusedError, "a was not read: grant storage.objects.get", READS),
    "unknown": (418, ONE, SHOWN, EACH),
    "busy": (503, AWAY, "cannot be reached", EACH),
    "limit": (429, AWAY, "cannot be reached", EACH),
}


@pytest.mark.parametrize("case", OF_GOOGLE)
def test_an_answer_of_google_has_one_meaning_at_each_verb(case: str, tmp_path: Path) -> None:
    """Of obstore; the others take no server of one's own, and only Arrow's status is compared."""
    status, kind, says, verbs = OF_GOOGLE[case]
    with closing(Listener(status, b'{"error": {"message": "in words"}}')) as listener:
        keys = {"gcs_base_url": listener.url, "disable_oauth": True, "client_email": "", "private_key": ""}
        file = tmp_path / "key.json"
        file.write_text(json.dumps(keys | {"private_key_id": ""}))
        requests = {"retries": 1, "first_wait": 0.01, "longest_wait": 0.02}
        place = {"bucket": "lake", "service_account": str(file), "requests": requests}
        store = Store(GcsStorage.model_validate(place))
        assert wrong(of_obstore(store), verbs, kind, says) == []
