"""The servers of the tests do what the tests rely on: they are real, they count, they fail on demand."""

import os
import time
from dataclasses import replace

import psycopg
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ResponseStreamingError

from dev.servers.postgres import PostgresServer
from dev.servers.proxy import Fault, Rule, S3Proxy

pytestmark = pytest.mark.servers

BIG = os.urandom(1 << 20) * 24


@pytest.fixture
def bucket(s3_proxy: S3Proxy) -> str:
    bucket = s3_proxy.s3.new_bucket()
    s3_proxy.s3.put(bucket, "k", b"0123456789")
    s3_proxy.forget()
    return bucket


def get(proxy: S3Proxy, bucket: str, key: str = "k") -> bytes:
    body: bytes = proxy.s3.client().get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def test_a_conditional_put_does_not_overwrite(s3_proxy: S3Proxy, bucket: str) -> None:
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3_proxy.s3.client().put_object(Bucket=bucket, Key="k", Body=BIG, IfNoneMatch="*")
    assert [request.status for request in s3_proxy.requests("PUT")] == [412]
    assert get(s3_proxy, bucket) == b"0123456789"


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
    rule = s3_proxy.inject(Rule("status", when=lambda r: r.method == "PUT" and r.key == "a", times=2, status=status))
    s3_proxy.s3.put(bucket, "b", b"1")
    for _ in range(2):
        with pytest.raises(ClientError, match=code):
            s3_proxy.s3.put(bucket, "a", BIG)
    assert rule.times == 0
    s3_proxy.s3.put(bucket, "a", b"1")
    assert [request.status for request in s3_proxy.requests("PUT")] == [200, status, status, 200]


@pytest.mark.parametrize(("fault", "written"), [("hang_up", False), ("lose_answer", True)])
def test_a_lost_put_is_written_or_not(s3_proxy: S3Proxy, bucket: str, fault: Fault, written: bool) -> None:
    s3_proxy.inject(Rule(fault))
    with pytest.raises(ConnectionClosedError):
        s3_proxy.s3.put(bucket, "new/1", b"1")
    [request] = s3_proxy.requests()
    assert (request.status, request.fault) == (None, fault)
    listed = s3_proxy.s3.client().list_objects_v2(Bucket=bucket, Prefix="new/").get("Contents", [])
    assert ([item["Key"] for item in listed] == ["new/1"]) is written


def test_an_answer_breaks_off_in_the_middle_of_its_body(s3_proxy: S3Proxy, bucket: str) -> None:
    s3_proxy.s3.put(bucket, "big", BIG)
    s3_proxy.inject(Rule("reset_body", when=lambda r: r.method == "GET"))
    with pytest.raises(ResponseStreamingError):
        get(s3_proxy, bucket, "big")
    assert get(s3_proxy, bucket, "big") == BIG


def test_a_slow_request_waits(s3_proxy: S3Proxy, bucket: str) -> None:
    s3_proxy.inject(Rule("slow", seconds=0.5))
    start = time.monotonic()
    assert get(s3_proxy, bucket) == b"0123456789"
    assert time.monotonic() - start > 0.5


def test_while_the_proxy_is_down_connections_are_refused(s3_proxy: S3Proxy, bucket: str) -> None:
    with s3_proxy.down(), pytest.raises(EndpointConnectionError):
        get(s3_proxy, bucket)
    assert get(s3_proxy, bucket) == b"0123456789"


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
