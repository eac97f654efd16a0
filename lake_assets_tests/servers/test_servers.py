"""What the tests rely on: servers end with them or are left out with a reason, and the proxy counts and fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.servers.absent import absent, started
from dev.servers.process import ServerStartError, running
from dev.servers.proxy import Fault, Rule, S3Proxy
from lake_assets_tests.until import until


@contextmanager
def broken() -> Iterator[None]:
    if os.environ:
        raise ServerStartError("weed ended with 1; it said:\nno ports left")
    yield


def test_what_is_absent_skips_with_the_reason_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for in_ci in (False, True):
        monkeypatch.setenv("CI", str(in_ci).lower())
        kind = pytest.fail.Exception if in_ci else pytest.skip.Exception
        with pytest.raises(BaseException, match="no jq: apt-get install jq") as raised:
            absent("no jq: apt-get install jq")
        assert isinstance(raised.value, kind)
        reason = r"no S3: weed ended with 1(?s:.*)no ports left"
        with pytest.raises(BaseException, match=reason) as raised, started("S3", broken()):
            pass
        assert isinstance(raised.value, kind)


@pytest.mark.kill
def test_a_server_ends_and_its_folder_goes_though_the_tests_are_killed(tmp_path: Path) -> None:
    folder, pid_file = tmp_path / "server", tmp_path / "pid"
    folder.mkdir()
    server = f"import os, time; os.symlink(str(os.getpid()), {str(pid_file)!r}); time.sleep(600)"
    tests = f"""
import sys, time
from pathlib import Path
from dev.servers.process import running
up = Path({str(pid_file)!r}).is_symlink
with running([sys.executable, "-c", {server!r}], folder=Path({str(folder)!r}), ready=up):
    print("up", flush=True)
    time.sleep(600)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", tests], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        pid = int(pid_file.readlink().name)
        process.send_signal(signal.SIGKILL)
    until(lambda: not folder.exists(), "the server's folder goes")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    start = running([sys.executable, "-c", "raise SystemExit('no room')"], folder=folder, ready=lambda: False)
    with pytest.raises(ServerStartError, match="ended with 1; it said:\nno room"), start:
        pass
    assert not folder.exists()


@pytest.fixture
def bucket(s3_proxy: S3Proxy) -> str:
    """A bucket with the object `k`."""
    bucket = s3_proxy.s3.new_bucket()
    s3_proxy.s3.put(bucket, "k", b"0123456789")
    s3_proxy.forget()
    return bucket


def test_the_proxy_counts_each_request_with_its_range_and_query(s3_proxy: S3Proxy, bucket: str) -> None:
    from botocore.exceptions import ClientError  # noqa: PLC0415 - takes long

    client = s3_proxy.s3.client()
    client.get_object(Bucket=bucket, Key="k", Range="bytes=2-5")
    client.list_objects_v2(Bucket=bucket, Prefix="k", MaxKeys=7)
    with pytest.raises(ClientError):
        client.head_object(Bucket=bucket, Key="absent")

    seen = [(request.method, request.key, request.range, request.status) for request in s3_proxy.requests()]
    assert seen == [("GET", "k", "bytes=2-5", 206), ("GET", "", None, 200), ("HEAD", "absent", None, 404)]
    assert s3_proxy.requests("GET")[1].query["max-keys"] == "7"
    assert {request.bucket for request in s3_proxy.requests()} == {bucket}


@pytest.mark.parametrize(
    ("fault", "status", "written"), [("hang_up", None, False), ("lose_answer", None, True), ("status", 503, False)]
)
def test_the_proxy_fails_the_next_matching_requests_and_no_other(
    s3_proxy: S3Proxy, bucket: str, fault: Fault, status: int | None, written: bool
) -> None:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - takes long

    rule = s3_proxy.inject(Rule(fault, when=lambda r: r.method == "PUT" and r.key == "new/a", status=status or 500))
    s3_proxy.s3.put(bucket, "other", b"1")
    with pytest.raises((BotoCoreError, ClientError)):
        s3_proxy.s3.put(bucket, "new/a", b"1")

    assert [request.status for request in s3_proxy.requests("PUT")] == [200, status]
    assert rule.times == 0
    listed = s3_proxy.s3.client().list_objects_v2(Bucket=bucket, Prefix="new/").get("Contents", [])
    assert ([item["Key"] for item in listed] == ["new/a"]) is written
    s3_proxy.s3.put(bucket, "new/a", b"1")


def test_the_proxy_breaks_off_a_body_and_refuses_connections_while_it_is_down(s3_proxy: S3Proxy, bucket: str) -> None:
    from botocore.exceptions import EndpointConnectionError, ResponseStreamingError  # noqa: PLC0415 - takes long

    big = os.urandom(1 << 20) * 24
    s3_proxy.s3.put(bucket, "big", big)
    client = s3_proxy.s3.client()
    s3_proxy.inject(Rule("reset_body", when=lambda r: r.method == "GET"))
    with pytest.raises(ResponseStreamingError):
        client.get_object(Bucket=bucket, Key="big")["Body"].read()
    with s3_proxy.down(), pytest.raises(EndpointConnectionError):
        client.get_object(Bucket=bucket, Key="big")
    assert client.get_object(Bucket=bucket, Key="big")["Body"].read() == big
