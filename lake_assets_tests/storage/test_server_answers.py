"""Every text, code and status that tells one error of a storage or queue from another is provoked on its client."""

import datetime as dt
import errno
import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import obstore
import pyarrow as pa
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from obstore.exceptions import BaseError
from pyarrow import fs
from pydantic import TypeAdapter

from dev.servers.azurite import AzureServer
from dev.servers.listener import Listener
from dev.servers.moto import KEYS, REGION, Moto, moto
from dev.servers.odd_s3 import odd_s3
from dev.servers.proxy import Rule, S3Proxy
from dev.servers.tls import authority_in
from lake_assets.base.duckdb_engine import HttpLimits, open_engine
from lake_assets.base.errors import StorageError, StorageUnreachableError
from lake_assets.base.texts import VendorText
from lake_assets.config.sections import SqsSensor
from lake_assets.config.storages import AnyStorage, AzureStorage, LakeStorage, LocalStorage, S3Storage
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.storage.s3 import S3Bucket
from lake_assets.storage.server_answers import DELETION, NUMBERS, VENDORS, Meaning, client_text, meaning_of
from lake_assets.storage.storage_errors import folder_refusal, write_errors
from lake_assets.storage.storage_kinds import backend_of
from lake_assets.storage.store import Store
from lake_assets_tests.tiers import more
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["moto"]

NO_RETRY = {"requests": {"retries": 0}}


def failing(work: Callable[[], object]) -> str:
    with pytest.raises((OSError, BaseError, BotoCoreError, ClientError, duckdb.Error)) as raised:
        work()
    return str(raised.value)


def arrow(storage: AnyStorage) -> str:
    """The text of Arrow's client when it writes an object."""

    def write() -> None:
        with Store(storage).stream("a") as file:
            file.write(b"x")

    return failing(write)


def obstores(storage: AnyStorage) -> str:
    """The text of obstore's client when it lists the objects."""
    return failing(lambda: obstore.list(backend_of(storage).as_obstore()).collect())


def both(storage: AnyStorage) -> str:
    return f"{arrow(storage)}\n{obstores(storage)}"


def meaning_of_queue(url: str, **keys: str) -> Meaning | None:
    """What SQS's client says when it receives messages."""
    queue = Queue(SqsSensor.model_validate({"type": "sqs", "queue_url": url, "wait": 0, **KEYS, **keys}))
    with pytest.raises(ClientError) as raised:
        queue._client.receive_message(QueueUrl=url)
    return meaning_of(raised.value)


# Servers that only answer, in the form of the vendor's manual: the body of a code, and the text of the client.


def xml(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"


def s3_at(url: str) -> str:
    bucket: Any = {"bucket": "lake", "region": "auto", "endpoint": url, "key_id": "id", "secret": "key"}
    client: Any = backend_of(S3Storage.model_validate(bucket | NO_RETRY)).as_arrow()
    return failing(lambda: client.get_file_info(fs.FileSelector("lake")))


def s3_answers(status: int, body: str) -> str:
    """The text of obstore's client; Arrow's has no code of an object that it reads."""
    with closing(Listener(status, body.encode(), "application/xml")) as listener:
        place: Any = {"bucket": "lake", "region": "auto", "endpoint": listener.url, "key_id": "id", "secret": "key"}
        return obstores(S3Storage.model_validate(place))


def google_at(url: str) -> str:
    place = url.removeprefix("http://")
    client = fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=place)
    return failing(lambda: client.open_input_file("bucket/a").read())


ANSWERED: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "S3": (xml, s3_at),
    "Google": (lambda message: json.dumps({"error": {"message": message or "no"}}), google_at),
}


def answered(vendor: str, status: int, *codes: str) -> str:
    body, text = ANSWERED[vendor]
    texts = []
    for code in codes or ("",):
        kind = "application/xml" if body is xml else "application/json"
        with closing(Listener(status, body(code).encode(), kind)) as listener:
            texts.append(text(listener.url))
    return "\n".join(texts)


# Real servers, and folders.


def s3_storage(request: pytest.FixtureRequest, **changes: Any) -> S3Storage:
    proxy: S3Proxy = request.getfixturevalue("s3_proxy")
    return S3Storage.model_validate(bucket_on(proxy.s3) | changes)


def untrusted(request: pytest.FixtureRequest, client: Callable[[S3Storage], str]) -> str:
    with odd_s3(authority_in(request.getfixturevalue("tmp_path")).context) as server:
        return client(S3Storage.model_validate(server.source | NO_RETRY))


def ignores_ranges(_: pytest.FixtureRequest) -> str:
    with odd_s3() as server:
        server.answers = lambda *_: (200, b"12345")
        client = backend_of(S3Storage.model_validate(server.source)).as_obstore()
        return failing(lambda: obstore.get_range(client, "a", start=0, end=2))


def botos(storage: S3Storage) -> str:
    return failing(lambda: S3Bucket(storage).as_boto().list_objects_v2(Bucket=storage.bucket))


def duckdbs(storage: S3Storage) -> str:
    """The text of DuckDB when it reads an object."""
    with open_engine(("httpfs",), HttpLimits(0)) as engine:
        options = ", ".join(f"{name} {value}" for name, value in backend_of(storage).as_duckdb_secret().items())
        engine.execute(f"CREATE SECRET ({options})")
        return failing(lambda: engine.execute(f"FROM read_text('{storage.root}/a')"))


def without_credentials(request: pytest.FixtureRequest) -> str:
    environment: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    return botos(S3Storage(bucket="lake"))


def nobody_answers(request: pytest.FixtureRequest) -> str:
    storage = S3Storage.model_validate({"bucket": "lake", "endpoint": "http://127.0.0.1:9", **KEYS, **NO_RETRY})
    azure = arrow(azure_storage(request, r":\d+/", ":9/"))
    return "\n".join((arrow(storage), azure, answered("Google", 403), duckdbs(storage)))


def s3_breaks_off(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue("s3_proxy").inject(Rule("truncate", times=1_000))
    return obstores(s3_storage(request))


def azure_storage(request: pytest.FixtureRequest, pattern: str = "$", changed: str = "") -> AzureStorage:
    """A container, with another connection string if a pattern of it is replaced."""
    server: AzureServer = request.getfixturevalue("azure")
    string = re.sub(pattern, changed, server.connection_string)
    return AzureStorage.model_validate({"container": server.new_container(), "connection_string": string} | NO_RETRY)


def azure_has_no_container(request: pytest.FixtureRequest) -> str:
    return both(azure_storage(request).model_copy(update={"container": "no-such-container"}))


def folder_loops(request: pytest.FixtureRequest) -> str:
    folder: Path = request.getfixturevalue("tmp_path")
    (folder / "again").symlink_to(folder)
    return obstores(LocalStorage(path=str(folder)))


CODES_OF_SQS = {
    Meaning.ABSENT: ["QueueDoesNotExist"],
    Meaning.WRONG_KEY: [
        *("InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
        *("ExpiredToken", "InvalidSecurity"),
    ],
    Meaning.REFUSED: ["AccessDenied", "AccessDeniedException"],
}


@pytest.mark.parametrize(("code", "means"), [(code, means) for means, codes in CODES_OF_SQS.items() for code in codes])
def test_a_code_of_a_queue_means_what_it_means_of_a_bucket(code: str, means: Meaning) -> None:
    body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "no"}).encode()
    with closing(Listener(403, body)) as listener:
        assert meaning_of_queue(f"{listener.url}/1/q", endpoint=listener.url) is means


@pytest.mark.more
def test_a_queue_that_is_not_there_or_refuses_in_xml_says_so(moto: Moto) -> None:
    assert meaning_of_queue(f"https://sqs.{REGION}.amazonaws.com/123456789012/none") is Meaning.ABSENT
    queue = moto.new_queue()
    assert moto.by_policies(lambda: meaning_of_queue(queue)) is Meaning.REFUSED


# How each text is provoked: on a real server or folder, or by an answer with a status and codes.
PROVOKED: dict[str, dict[str, Callable[[pytest.FixtureRequest], str] | tuple[Any, ...]]] = {
    "clients": {
        r"InvalidCertificate\(\s*\w+": lambda request: untrusted(request, obstores),
        "non-partial response": ignores_ranges,
        "SSL peer certificate": lambda request: untrusted(request, arrow) + untrusted(request, duckdbs),
        "CERTIFICATE_VERIFY_FAILED": lambda request: untrusted(request, botos),
        "redirect without LOCATION": lambda _: s3_answers(301, ""),
        "Error getting list response body": s3_breaks_off,
        "AuthenticationException": lambda _: arrow(AzureStorage(account="retail", container="lake")),
        "Unable to locate credentials": without_credentials,
        "[Tt]he specified (?:bucket|container) does not": lambda request: (
            answered("Google", 404, "The specified bucket does not exist.") + azure_has_no_container(request)
        ),
        r"AWS Error \[code": lambda _: answered("S3", 403, "InvalidObjectState"),
        "AWS Error|Azure Error|google::cloud::Status| error for HTTP [A-Z]+ to '": nobody_answers,
    },
    "folder": {
        "(?s:File system loop found: (.+) points to an ancestor (.+))": folder_loops,
    },
}
CASES = [
    pytest.param(
        *(vendor, text),
        id=f"{vendor}-{text.pattern}",
        marks=[
            *([pytest.mark.servers] if vendor == "clients" else []),
        ],
    )
    for vendor, table in VENDORS.items()
    for number, text in enumerate(table)
]


@pytest.mark.parametrize(("vendor", "text"), CASES)
def test_the_vendor_raises_the_text(request: pytest.FixtureRequest, vendor: str, text: VendorText[Meaning]) -> None:
    provoked = PROVOKED[vendor][text.pattern]
    message = answered(vendor, *provoked) if isinstance(provoked, tuple) else provoked(request)

    alternatives = [text.pattern] if "(" in text.pattern else text.pattern.split("|")
    assert [name for name in alternatives if not re.search(name, message, re.IGNORECASE)] == [], message
    assert client_text(message, text.means)


def test_every_text_is_provoked() -> None:
    assert all(text.is_provoked for table in VENDORS.values() for text in table)
    assert {vendor: sorted(text.pattern for text in table) for vendor, table in VENDORS.items()} == {
        vendor: sorted(provokers) for vendor, provokers in PROVOKED.items()
    }


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (401, Meaning.WRONG_KEY),
        (403, Meaning.REFUSED),
        (404, Meaning.NOT_FOUND),
        (400, Meaning.WRONG_REQUEST),
        (503, Meaning.TRANSIENT),
    ],
)
def test_an_answer_of_google_has_the_meaning_of_its_status(status: int, means: Meaning) -> None:
    with closing(Listener(status, json.dumps({"error": {"message": "no"}}).encode())) as listener:
        place, limit = listener.url.removeprefix("http://"), dt.timedelta(seconds=1)
        client = fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=place, retry_time_limit=limit)
        with pytest.raises((OSError, pa.ArrowInvalid)) as raised:
            client.open_input_file("bucket/a").read()
    assert meaning_of(raised.value) is means, raised.value


@pytest.mark.servers
@pytest.mark.parametrize(
    "status", [412, *more(status for status in DELETION if status not in {200, 412})]
)  # 200 has no text
def test_a_deletion_means_what_its_status_says(s3_proxy: S3Proxy, status: int) -> None:
    storage: Any = S3Storage.model_validate(bucket_on(s3_proxy.s3))
    with Store(storage).create("a") as file:
        file.write(b"x")
    s3_proxy.inject(Rule("status", lambda request: request.method == "DELETE", status=status))

    assert backend_of(storage).delete_if_match("a", "etag") is DELETION[status]
    assert Store(storage).find("a") is not None


def test_a_number_of_the_system_comes_with_its_path(tmp_path: Path) -> None:
    for number in NUMBERS:
        error = OSError(number, os.strerror(number), str(tmp_path))
        refusal = folder_refusal(error, None)
        assert (refusal is not None) == (NUMBERS[number] is Meaning.LINK_LOOP or number in {1, 13})


S3 = {"type": "s3", "bucket": "lake", "key_id": "k", "secret": "a-secret", "endpoint": "http://127.0.0.1:9"}
FOLDER = {"type": "local", "path": "/lake"}
AZURE = {
    "type": "azure",
    "container": "lake",
    "connection_string": "DefaultEndpointsProtocol=http;AccountName=retail;AccountKey=QUJD;"
    "BlobEndpoint=http://127.0.0.1:9/retail",
}
AT = "s3://lake at http://127.0.0.1:9"


def aws(error: str, message: str = "injected") -> OSError:
    """An error as Arrow's client words it."""
    text = f"When uploading object with key 'x' in bucket 'lake': AWS Error {error} during PutObject operation"
    return OSError(f"{text}: {message}")


def of(config: dict[str, Any]) -> AnyStorage:
    storage: AnyStorage = TypeAdapter(LakeStorage).validate_python(config)
    return storage


def raised_for(storage: AnyStorage, error: OSError) -> StorageError:
    with pytest.raises(StorageError) as raised, write_errors(storage, f"{storage.root}/x"):
        raise error
    return raised.value


@pytest.mark.parametrize(
    ("config", "error", "may_pass", "text"),
    [
        (
            S3,
            aws("NETWORK_CONNECTION", "curlCode: 7, Could not connect to server; Details: Failed after 0 ms"),
            True,
            f"{AT} cannot be reached or fails: s3://lake/x was not written: curlCode: 7, Could not connect to",
        ),
        (
            S3,
            aws("SLOW_DOWN"),
            True,
            "cannot be reached or fails: s3://lake/x was not written: SLOW_DOWN: injected:",
        ),
        (S3, aws("UNKNOWN (HTTP status 429)"), True, f"{AT} cannot be reached or fails: s3://lake/x was not written: "),
        (
            AZURE,
            OSError("GetProperties failed for 'http://127.0.0.1:9/retail/lake/x'. Azure Error: [] Fail to get a new"),
            True,
            "at http://127.0.0.1:9/retail cannot be reached or fails",
        ),
        (FOLDER, OSError(errno.EIO, "Input/output error"), True, "the folder /lake cannot be reached or fails"),
        (
            FOLDER,
            OSError(errno.ENOSPC, "No space left on device"),
            False,
            "folder /lake has no space left: /lake/x",
        ),
        (FOLDER, PermissionError(errno.EACCES, "Permission denied"), False, "rights to it (chmod, chown)"),
        (FOLDER, NotADirectoryError(errno.ENOTDIR, "Not a directory"), False, "not written by the folder /lake"),
        (S3, aws("ACCESS_DENIED"), False, f"{AT} refuses access: s3://lake/x"),
        (S3, aws("NO_SUCH_BUCKET"), False, "the bucket 'lake' does not exist at http://127.0.0.1:9"),
        (S3, aws("UNKNOWN (HTTP status 400)"), False, f"s3://lake/x was not written by {AT}: injected: correct the "),
    ],
)
def test_what_may_pass_is_an_error_of_its_own(
    config: dict[str, Any], error: OSError, text: str, *, may_pass: bool
) -> None:
    message = raised_for(of(config), error)

    assert isinstance(message, StorageUnreachableError) == may_pass
    assert text in str(message)


def test_no_secret_is_in_the_error() -> None:
    storage = of(S3 | {"secret": "dont-tell"})
    message = raised_for(storage, aws("NETWORK_CONNECTION", "dont-tell"))
    assert "dont-tell" not in str(message)
    assert "***" in str(message)
