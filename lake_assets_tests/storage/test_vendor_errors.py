"""Every text, code and status that tells one error of a storage or queue from another is provoked on its client."""

import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import obstore
import pytest
from botocore.exceptions import ClientError
from obstore.exceptions import BaseError
from pyarrow import fs

from dev.servers.azurite import AzureServer
from dev.servers.listener import Listener
from dev.servers.moto import KEYS, REGION, Moto, moto
from dev.servers.proxy import Rule, S3Proxy
from lake_assets.config.sections import SqsSensor
from lake_assets.config.storages import AnyStorage, AzureStorage, LocalStorage, S3Storage, WebStorage
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.storage import local
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.clients import as_obstore
from lake_assets.storage.s3 import delete_if_match
from lake_assets.storage.store import Store
from lake_assets.storage.vendor_errors import DELETION, NUMBERS, SQS, VENDORS, Meaning, find, meaning_of_queue
from lake_assets.vendor_texts import Text
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["moto"]


def failing(work: Callable[[], object]) -> str:
    with pytest.raises((OSError, BaseError, ClientError)) as raised:
        work()
    return str(raised.value)


def arrow(storage: AnyStorage, key: str = "a") -> str:
    """The text of Arrow's client when it writes an object."""

    def write() -> None:
        with ArrowStore(storage).create(key) as file:
            file.write(b"x")

    return failing(write)


def obstores(storage: AnyStorage) -> str:
    """The text of obstore's client when it lists the objects."""
    return failing(lambda: obstore.list(as_obstore(storage)).collect())


def both(storage: AnyStorage) -> str:
    return f"{arrow(storage)}\n{obstores(storage)}"


class S3:
    """SeaweedFS, and in front of it a proxy that answers with codes that SeaweedFS does not have."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.proxy: S3Proxy = request.getfixturevalue("s3_proxy")
        self.config = bucket_on(self.proxy.s3)

    def storage(self, **changes: Any) -> S3Storage:
        return S3Storage.model_validate(self.config | changes)

    def answered(self, status: int, *codes: str) -> str:
        texts = []
        for code in codes or ("",):
            rule = Rule("status", times=1_000, status=status, code=code or "Unheard")
            self.proxy.inject(rule)
            texts.append(arrow(self.storage()))
            rule.times = 0
        return "\n".join(texts)

    def no_key(self) -> str:
        return both(self.storage(key_id="nobody"))

    def wrong_secret(self) -> str:
        return both(self.storage(secret="wrong"))

    def no_right(self) -> str:
        key, secret = self.proxy.s3.narrow["reader"]
        texts = arrow(self.storage(key_id=key, secret=secret))
        self.proxy.inject(Rule("status", times=1, status=403))
        return f"{texts}\n{obstores(self.storage())}"

    def no_bucket(self) -> str:
        texts = obstores(self.storage(bucket="no-such-bucket"))
        return f"{texts}\n{self.answered(404, 'NoSuchBucket')}"  # SeaweedFS makes a bucket that is written to

    def away(self) -> str:
        return arrow(self.storage(endpoint="http://127.0.0.1:9"))

    def listing_broken_off(self) -> str:
        self.proxy.inject(Rule("truncate", times=1_000))
        return obstores(self.storage())


class Azure:
    """Azurite, and for a code that it does not have a server that answers with it."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    @property
    def server(self) -> AzureServer:
        server = self.request.getfixturevalue("azure")
        assert isinstance(server, AzureServer)
        return server

    def storage(self, **changes: str) -> AzureStorage:
        config = {"container": self.server.new_container(), "connection_string": self.server.connection_string}
        return AzureStorage.model_validate(config | changes)

    def answered(self, status: int, *codes: str) -> str:
        texts = []
        for code in codes:
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
            with closing(Listener(status, body.encode(), "application/xml")) as listener:
                string = f"AccountName=retail;BlobEndpoint={listener.url}/retail;AccountKey=QUJD"
                texts.append(obstores(self.storage(connection_string=string, container="lake")))
        return "\n".join(texts)

    def wrong_key(self) -> str:
        string = re.sub("AccountKey=[^;]*", "AccountKey=QUJD", self.server.connection_string)
        return both(self.storage(connection_string=string))

    def no_right(self) -> str:
        return arrow(self.storage(connection_string=self.server.reading_connection_string))

    def no_container(self) -> str:
        return both(self.storage(container="no-such-container"))

    def no_credentials(self) -> str:
        return arrow(AzureStorage(account="retail", container="lake"))

    def away(self) -> str:
        string = self.server.connection_string.replace(f":{self.server.port}/", ":9/")
        return arrow(self.storage(connection_string=string))


class Google:
    """Google's client, and a server that answers as Google's manual says; there is no such server here."""

    def __init__(self, request: pytest.FixtureRequest) -> None: ...

    def answered(self, status: int, message: str = "no") -> str:
        body = json.dumps({"error": {"code": status, "message": message}})
        with closing(Listener(status, body.encode())) as listener:
            place = listener.url.removeprefix("http://")
            filesystem = fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=place)
            return failing(lambda: filesystem.open_input_file("bucket/a").read())


class Web:
    def __init__(self, request: pytest.FixtureRequest) -> None: ...

    def answered(self, status: int) -> str:
        with closing(Listener(status)) as listener:
            return failing(lambda: ArrowStore(WebStorage(url=listener.url)).open("a"))


class Folder:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.path: Path = request.getfixturevalue("tmp_path")

    def listed(self) -> str:
        return obstores(LocalStorage(path=str(self.path)))

    def loop(self) -> str:
        (self.path / "in").mkdir()
        (self.path / "in" / "again").symlink_to("../in")
        return self.listed()

    def odd_name(self) -> str:
        Path(os.fsdecode(os.fsencode(self.path) + b"/\xff")).touch()
        return self.listed()


class Sqs:
    """moto, and for refusals a server that answers with them."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.moto: Moto = request.getfixturevalue("moto")

    def code(self, url: str | None = None, **keys: str) -> str:
        config = {"type": "sqs", "queue_url": url or self.moto.new_queue(), **KEYS, **keys}
        queue = Queue(SqsSensor.model_validate(config))
        with pytest.raises(ClientError) as raised:
            queue._client.receive_message(QueueUrl=config["queue_url"])
        return str(raised.value.response["Error"]["Code"])

    def no_queue(self) -> str:
        return self.code(f"https://sqs.{REGION}.amazonaws.com/123456789012/none")

    def answered(self, *codes: str) -> str:
        """SQS's own form of an error, from a server that only answers: moto refuses nobody in this form."""
        texts = []
        for code in codes:
            body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "no"})
            with closing(Listener(403, body.encode())) as listener:
                texts.append(self.code(f"{listener.url}/1/q", endpoint=listener.url))
        return "\n".join(texts)


# How each text is provoked: by a player's method, or by an answer with a status and codes.
PROVOKED: dict[str, dict[str, Callable[[Any], str] | tuple[Any, ...]]] = {
    "S3": {
        "StorageFull|InsufficientStorage|QuotaExceeded": (400, "StorageFull", "InsufficientStorage", "QuotaExceeded"),
        "HTTP status 507": (507,),
        "KeyTooLong": (400, "KeyTooLongError"),
        "INVALID_ACCESS_KEY_ID|InvalidAccessKeyId": S3.no_key,
        "SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch": S3.wrong_secret,
        "INVALID_SIGNATURE": (403, "InvalidSignature"),
        "INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT": (403, "InvalidClientTokenId", "UnrecognizedClientException"),
        "MISSING_AUTHENTICATION_TOKEN": (403, "MissingAuthenticationToken"),
        "ExpiredToken|InvalidToken": (400, "ExpiredToken", "InvalidToken"),
        r"(?:HTTP status|status code:?) 401\b": (401,),
        "ACCESS_DENIED|AccessDenied": S3.no_right,
        r"(?:HTTP status|status code:?) 403\b": (403,),
        "NO_SUCH_BUCKET|NoSuchBucket": S3.no_bucket,
        r"HTTP status 4(?!08|29)\d\d": (400,),
        "AWS Error|curl": S3.away,
        "Error getting list response body": S3.listing_broken_off,
    },
    "Azure": {
        # Azurite takes any name, and calls a wrong signature AuthorizationFailure.
        "OutOfRangeInput|InvalidResourceName": (400, "OutOfRangeInput", "InvalidResourceName"),
        "AuthenticationFailed": (403, "AuthenticationFailed"),
        "AuthenticationException": Azure.no_credentials,
        "AuthorizationFailure": Azure.wrong_key,
        "AuthorizationPermissionMismatch": Azure.no_right,
        "ContainerNotFound|[Tt]he specified container does not": Azure.no_container,
        "Azure Error": Azure.away,
    },
    "Google": {
        "UNAUTHENTICATED": (401,),
        "PERMISSION_DENIED": (403,),
        "[Tt]he specified bucket does not": (404, "The specified bucket does not exist."),
        "google::cloud::Status": (403,),
    },
    "web": {r"\b401 Unauthorized": (401,), r"\b403 Forbidden": (403,)},
    "folder": {
        "(?s:File system loop found: (.+) points to an ancestor (.+))": Folder.loop,
        '(?s:Path "(.+)" contained non-unicode characters)': Folder.odd_name,
    },
    "SQS": {
        r"(?:AWS\.SimpleQueueService\.)?NonExistentQueue": Sqs.no_queue,
        "QueueDoesNotExist": ("QueueDoesNotExist",),
        "InvalidClientTokenId|UnrecognizedClientException|InvalidAccessKeyId": (
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "InvalidAccessKeyId",
        ),
        "SignatureDoesNotMatch": ("SignatureDoesNotMatch",),
        "ExpiredToken": ("ExpiredToken",),
        "InvalidSecurity": ("InvalidSecurity",),
        "AccessDenied(?:Exception)?": ("AccessDenied", "AccessDeniedException"),
    },
}
PLAYERS: dict[str, Any] = {"S3": S3, "Azure": Azure, "Google": Google, "web": Web, "folder": Folder, "SQS": Sqs}
TABLES = {**VENDORS, "SQS": SQS}
CASES = [
    pytest.param(
        *(vendor, text),
        id=f"{vendor}-{text.pattern}",
        marks=[
            *([pytest.mark.servers] if vendor in {"S3", "Azure"} else []),
            *([pytest.mark.more] if number and vendor in {"S3", "Azure", "SQS"} else []),  # others take no time
        ],
    )
    for vendor, table in TABLES.items()
    for number, text in enumerate(table)
]


@pytest.mark.parametrize(("vendor", "text"), CASES)
def test_the_vendor_raises_the_text(request: pytest.FixtureRequest, vendor: str, text: Text[Meaning]) -> None:
    player, provoked = PLAYERS[vendor](request), PROVOKED[vendor][text.pattern]
    message = player.answered(*provoked) if isinstance(provoked, tuple) else provoked(player)

    alternatives = [text.pattern] if "(" in text.pattern else text.pattern.split("|")
    assert [name for name in alternatives if not re.search(name, message, re.IGNORECASE)] == [], message
    if vendor == "SQS":
        assert {meaning_of_queue(code) for code in message.split("\n")} == {text.means}
    else:
        assert find(message, text.means)


def test_every_text_is_provoked() -> None:
    assert all(text.is_provoked for table in TABLES.values() for text in table)
    assert {vendor: sorted(text.pattern for text in table) for vendor, table in TABLES.items()} == {
        vendor: sorted(provokers) for vendor, provokers in PROVOKED.items()
    }


@pytest.mark.servers
@pytest.mark.parametrize("status", [status for status in DELETION if status != 200])  # 200 has no text
def test_a_deletion_means_what_its_status_says(s3_proxy: S3Proxy, status: int) -> None:
    storage: Any = S3Storage.model_validate(bucket_on(s3_proxy.s3))
    with ArrowStore(storage).create("a") as file:
        file.write(b"x")
    s3_proxy.inject(Rule("status", lambda request: request.method == "DELETE", status=status))

    assert delete_if_match(storage, "a", "etag") is DELETION[status]
    assert Store(storage).find("a") is not None


def test_a_number_of_the_system_comes_with_its_path(tmp_path: Path) -> None:
    for number in NUMBERS:
        error = OSError(number, os.strerror(number), str(tmp_path))
        refusal = local.refusal(error)
        assert (refusal is not None) == (NUMBERS[number] is Meaning.LINK_LOOP or number in {1, 13})
