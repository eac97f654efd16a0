"""The servers of the tests do what the tests rely on: they are real, they count, they fail on demand."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import boto3
import obstore
import psycopg
import pyarrow.fs
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ResponseStreamingError
from obstore.store import S3Store

from dev.servers.postgres import PostgresServer
from dev.servers.proxy import Fault, Rule, S3Proxy
from dev.servers.s3 import S3Server
from lake_assets.duckdb_engine import literal, open_engine

pytestmark = pytest.mark.servers

ODD_KEY = "t/region=N%2FA x/date=2026-02-11/ü+'100%'.bin"
BIG = os.urandom(1 << 20) * 24


class Client(Protocol):
    """What one library does with one bucket."""

    def put(self, key: str, body: bytes) -> None: ...
    def get(self, key: str) -> bytes: ...
    def list(self, folder: str) -> list[str]: ...


class Boto3:
    def __init__(self, server: S3Server, bucket: str) -> None:
        self.client, self.bucket = server.client(), bucket

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def get(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def list(self, folder: str) -> list[str]:
        result = self.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{folder}/")
        return [item["Key"] for item in result.get("Contents", [])]


class Obstore:
    def __init__(self, server: S3Server, bucket: str) -> None:
        self.store = S3Store(
            bucket,
            endpoint=server.endpoint,
            access_key_id=server.access_key,
            secret_access_key=server.secret_key,
            region=server.region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def put(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body)

    def get(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def list(self, folder: str) -> list[str]:
        return [meta["path"] for meta in obstore.list(self.store, prefix=folder).collect()]


class Pyarrow:
    def __init__(self, server: S3Server, bucket: str) -> None:
        self.bucket = bucket
        self.fs = pyarrow.fs.S3FileSystem(
            access_key=server.access_key,
            secret_key=server.secret_key,
            region=server.region,
            endpoint_override=server.endpoint,
        )

    def put(self, key: str, body: bytes) -> None:
        with self.fs.open_output_stream(f"{self.bucket}/{key}") as stream:
            stream.write(body)

    def get(self, key: str) -> bytes:
        with self.fs.open_input_file(f"{self.bucket}/{key}") as file:
            body: bytes = file.read()
            return body

    def list(self, folder: str) -> list[str]:
        result = self.fs.get_file_info(pyarrow.fs.FileSelector(f"{self.bucket}/{folder}", recursive=True))
        return [info.path.removeprefix(f"{self.bucket}/") for info in result if info.is_file]


CLIENTS: Mapping[str, Callable[[S3Server, str], Client]] = {"boto3": Boto3, "obstore": Obstore, "pyarrow": Pyarrow}


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest, s3_proxy: S3Proxy) -> Client:
    return CLIENTS[request.param](s3_proxy.s3, s3_proxy.s3.new_bucket())


@pytest.fixture
def bucket(s3_proxy: S3Proxy) -> str:
    bucket = s3_proxy.s3.new_bucket()
    s3_proxy.s3.put(bucket, "k", b"0123456789")
    s3_proxy.forget()
    return bucket


def test_every_client_writes_lists_and_reads_an_odd_key_through_the_proxy(client: Client, s3_proxy: S3Proxy) -> None:
    client.put(ODD_KEY, b"body")
    s3_proxy.forget()
    assert client.list("t") == [ODD_KEY]
    [listing] = s3_proxy.requests()
    assert (listing.method, listing.key, listing.query["prefix"]) == ("GET", "", "t/")
    assert client.get(ODD_KEY) == b"body"
    [reading] = s3_proxy.requests("GET")[1:]
    assert (reading.key, reading.status in {200, 206}) == (ODD_KEY, True)


def test_large_bodies_pass_unchanged(client: Client) -> None:
    client.put("big", BIG)
    assert client.get("big") == BIG


def test_duckdb_writes_and_reads_through_the_proxy(s3_proxy: S3Proxy, bucket: str) -> None:
    s3 = s3_proxy.s3
    with open_engine(["httpfs"]) as duckdb:
        duckdb.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID {literal(s3.access_key)}, SECRET {literal(s3.secret_key)}, "
            f"REGION {literal(s3.region)}, ENDPOINT {literal(s3.endpoint.removeprefix('http://'))}, "
            "URL_STYLE 'path', USE_SSL false)"
        )
        uri = literal(f"s3://{bucket}/t/region=N%2FA x/a.parquet")
        duckdb.execute(f"COPY (SELECT 42 AS answer) TO {uri}")
        assert duckdb.execute(f"SELECT answer, region FROM read_parquet({uri})").fetchall() == [(42, "N/A x")]
    assert {request.key for request in s3_proxy.requests()} == {"t/region=N%2FA x/a.parquet"}


def test_a_conditional_put_does_not_overwrite(s3_proxy: S3Proxy, bucket: str) -> None:
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3_proxy.s3.client().put_object(Bucket=bucket, Key="k", Body=BIG, IfNoneMatch="*")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(Obstore(s3_proxy.s3, bucket).store, "k", b"other", mode="create")
    assert [request.status for request in s3_proxy.requests("PUT")] == [412, 412]
    assert Boto3(s3_proxy.s3, bucket).get("k") == b"0123456789"


def test_a_wrong_secret_is_refused(s3_proxy: S3Proxy, bucket: str) -> None:
    intruder = replace(s3_proxy.s3, secret_key="wrong")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        intruder.put(bucket, "k", b"1")


def test_each_request_is_counted_with_its_range_and_query(s3_proxy: S3Proxy, bucket: str) -> None:
    client = s3_proxy.s3.client()
    for start in range(3):
        client.get_object(Bucket=bucket, Key="k", Range=f"bytes={start}-5")
    client.list_objects_v2(Bucket=bucket, Prefix="k", MaxKeys=7)
    with pytest.raises(ClientError):
        client.head_object(Bucket=bucket, Key="absent")
    seen = [(request.method, request.key, request.range, request.status) for request in s3_proxy.requests()]
    assert seen == [
        ("GET", "k", "bytes=0-5", 206),
        ("GET", "k", "bytes=1-5", 206),
        ("GET", "k", "bytes=2-5", 206),
        ("GET", "", None, 200),
        ("HEAD", "absent", None, 404),
    ]
    assert s3_proxy.requests("GET")[3].query["max-keys"] == "7"
    assert {request.bucket for request in s3_proxy.requests()} == {bucket}


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_an_error_answers_the_next_matching_requests_and_no_other(
    s3_proxy: S3Proxy, bucket: str, status: int, code: str
) -> None:
    client = Boto3(s3_proxy.s3, bucket)
    rule = s3_proxy.inject(Rule("status", when=lambda r: r.method == "PUT" and r.key == "a", times=2, status=status))
    client.put("b", b"1")
    for _ in range(2):
        with pytest.raises(ClientError, match=code):
            client.put("a", BIG)
    assert rule.times == 0
    client.put("a", b"1")
    assert [request.status for request in s3_proxy.requests("PUT")] == [200, status, status, 200]


@pytest.mark.parametrize(("fault", "written"), [("hang_up", False), ("lose_answer", True)])
def test_a_lost_put_is_written_or_not(s3_proxy: S3Proxy, bucket: str, fault: Fault, written: bool) -> None:
    client = Boto3(s3_proxy.s3, bucket)
    s3_proxy.inject(Rule(fault))
    with pytest.raises(ConnectionClosedError):
        client.put("new/1", b"1")
    [request] = s3_proxy.requests()
    assert (request.status, request.fault) == (None, fault)
    assert (client.list("new") == ["new/1"]) is written


def test_an_answer_breaks_off_in_the_middle_of_its_body(s3_proxy: S3Proxy, bucket: str) -> None:
    client = Boto3(s3_proxy.s3, bucket)
    client.put("big", BIG)
    s3_proxy.inject(Rule("reset_body", when=lambda r: r.method == "GET"))
    body = client.client.get_object(Bucket=bucket, Key="big")["Body"]
    with pytest.raises(ResponseStreamingError):
        body.read()
    assert client.get("big") == BIG


def test_a_slow_request_waits(s3_proxy: S3Proxy, bucket: str) -> None:
    s3_proxy.inject(Rule("slow", seconds=0.5))
    start = time.monotonic()
    assert Boto3(s3_proxy.s3, bucket).get("k") == b"0123456789"
    assert time.monotonic() - start > 0.5


@pytest.mark.parametrize("fault", ["hang_up", "status", "lose_answer", "reset_body"])
def test_clients_that_retry_get_over_a_fault(client: Client, s3_proxy: S3Proxy, fault: Fault) -> None:
    if isinstance(client, Boto3):
        client.client = _retrying(s3_proxy.s3)
    client.put("big", BIG)
    rule = s3_proxy.inject(Rule(fault, when=lambda r: r.method == "GET"))
    if fault == "reset_body" and isinstance(client, Boto3):
        with pytest.raises(ResponseStreamingError):  # boto3 retries requests, not bodies
            client.get("big")
    else:
        assert client.get("big") == BIG
    assert rule.times == 0


def _retrying(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name=server.region,
        config=Config(retries={"total_max_attempts": 3}),
    )


def test_while_the_proxy_is_down_connections_are_refused(s3_proxy: S3Proxy, bucket: str) -> None:
    client = Boto3(s3_proxy.s3, bucket)
    assert client.get("k") == b"0123456789"
    with s3_proxy.down(), pytest.raises(EndpointConnectionError):
        client.get("k")
    assert client.get("k") == b"0123456789"


def test_postgres_takes_a_password_with_quotes_and_spaces(postgres: PostgresServer) -> None:
    assert set("'\" ") < set(postgres.password)
    first, second = postgres.new_database(), postgres.new_database()
    with postgres.connect(first) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    with postgres.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('t'), current_user").fetchall() == [(None, postgres.user)]


def test_postgres_refuses_a_wrong_password(postgres: PostgresServer) -> None:
    intruder = PostgresServer(postgres.host, postgres.port, postgres.user, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        intruder.connect()
