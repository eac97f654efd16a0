"""Landing on a real S3 server behind a proxy that fails: everything arrives, once, and the lake counts it."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from dev.servers.proxy import Fault, Request, Rule, S3Proxy
from lake_assets.base.errors import StorageError
from lake_assets.config.storages import S3Storage
from lake_assets.storage.store import Store
from lake_assets.wings.land.drain import drain
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.tiers import more
from lake_assets_tests.until import until
from lake_assets_tests.wings.land.streams import COLUMNS, files, rows, stream_of
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["sessions"]

FAULTS: list[Fault] = ["hang_up", "reset_body", "status", "slow", "lose_answer"]


def is_upload(request: Request) -> bool:
    return request.method in {"PUT", "POST"}


def keys(bucket: dict[str, Any]) -> list[str]:
    return [obj.key for obj in Store(S3Storage.model_validate(bucket)).list(files="*.parquet")]


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_away_for_a_while_loses_and_doubles_nothing(
    local_world: World, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    local_world.source = bucket_on(s3_proxy.s3)
    buffer = {"path": str(tmp_path / "buffer")}
    stream = stream_of(local_world.source, batch={"records": 10}, buffer=buffer, retries=0)
    with LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 100))
        writer.flush()
    assert len(keys(local_world.source)) == 10

    batches = 30
    with s3_proxy.down():
        with LandingWriter("sales", stream) as writer:
            for batch in range(batches):
                writer.write(rows(100 + 10 * batch, 10, "SW" if batch % 2 else "NW"))
                writer.flush()
        assert (writer.landed().pending, writer.landed().lost) == (batches, 0)
        drained = drain("sales", stream)
        assert (drained.uploaded, drained.pending) == (0, batches)
        assert "cannot be reached" in drained.errors[0]

    s3_proxy.forget()
    assert drain("sales", stream).uploaded == batches
    assert drain("sales", stream).uploaded == 0

    order = [request.key.rpartition("/")[2] for request in s3_proxy.requests("PUT")]
    ahead = [sorted(order).index(name) - place for place, name in enumerate(order)]
    assert max(ahead) < 8, "oldest first, but for the four at a time"
    for partition in (NW, SW):
        local_world.ingest(partition)
    expected = 100 + 10 * batches
    assert local_world.query("SELECT count(*), count(DISTINCT id) FROM lake.sales") == [(expected, expected)]


@pytest.mark.usefixtures("impatient")
def test_a_flush_ends_while_a_server_answers_nothing(s3_proxy: S3Proxy, tmp_path: Path) -> None:
    bucket = bucket_on(s3_proxy.s3)
    s3_proxy.inject(Rule("hang", when=is_upload, times=1000))
    stream = stream_of(bucket, batch={"records": 10}, buffer={"path": str(tmp_path / "buffer")})
    with LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 50))
        writer.flush()
        until(lambda: bool(s3_proxy.requests("PUT")), "an upload begins")

        assert (writer.landed().pending, keys(bucket)) == (5, [])

        s3_proxy.heal()
        with s3_proxy.down():
            pass  # the uploads that hang have failed
    assert len(keys(bucket)) == 5


@pytest.mark.parametrize("fault", ["lose_answer", *more([fault for fault in FAULTS if fault != "lose_answer"])])
def test_each_fault_is_ridden_out(s3_proxy: S3Proxy, fault: Fault) -> None:
    bucket = bucket_on(s3_proxy.s3)
    # A PUT's answer has no body, so nothing of it can break off.
    rule = s3_proxy.inject(Rule(fault, when=is_upload, times=1 if fault in {"slow", "reset_body"} else 2, seconds=0.2))

    with LandingWriter("sales", stream_of(bucket)) as writer:
        writer.write(rows(0, 5))

    assert rule.times == 0
    assert len(keys(bucket)) == 1


def test_uploads_are_conditional_and_at_most_so_many_at_a_time(s3_proxy: S3Proxy) -> None:
    bucket = bucket_on(s3_proxy.s3)
    s3_proxy.inject(Rule("slow", when=is_upload, times=1000, seconds=0.2))
    stream = stream_of(bucket, batch={"records": 1}, max_in_flight=2)
    start = time.monotonic()

    with LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 10))

    assert time.monotonic() - start >= 10 / 2 * 0.2
    assert {r.method for r in s3_proxy.requests() if r.bucket == bucket["bucket"]} == {"PUT"}


@pytest.mark.parametrize("fault", ["lose_answer", *more(["hang_up", "status"])])
def test_a_large_file_goes_up_in_parts_and_once(s3_proxy: S3Proxy, fault: Fault) -> None:
    bucket = bucket_on(s3_proxy.s3)
    columns = COLUMNS | {"text": "string"}
    stream = stream_of(bucket, columns=columns, batch={"records": 10_000, "bytes": "1GiB"})
    noise = random.Random(1)
    table = rows(0, 5000)
    table = table.append_column("text", [[noise.randbytes(1500).hex() for _ in range(5000)]])
    rule = s3_proxy.inject(Rule(fault, when=lambda r: is_upload(r) and "partNumber" not in r.query))

    with LandingWriter("sales", stream) as writer:
        writer.write(table)

    assert rule.times == 0
    parts = {r.query["partNumber"] for r in s3_proxy.requests("PUT") if "partNumber" in r.query}
    assert parts == {"1", "2"}
    (obj,) = Store(S3Storage.model_validate(bucket)).list()
    assert obj.size == writer.landed().bytes > 5 * 2**20


@pytest.mark.more
@pytest.mark.usefixtures("impatient")
def test_an_output_that_is_away_does_not_hold_up_the_other(s3_proxy: S3Proxy, tmp_path: Path) -> None:
    bucket = bucket_on(s3_proxy.s3)
    stream = stream_of(
        tmp_path / "source",
        outputs=[bucket, str(tmp_path / "copy")],
        buffer={"path": str(tmp_path / "buffer")},
        batch={"records": 10},
    )
    with s3_proxy.down(), LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 100))
        writer.flush()
        until(lambda: len(files(tmp_path / "copy")) == 10, "all batches are at the other output")
    assert writer.landed().pending == 10

    assert drain("sales", stream).pending == 0
    assert len(keys(bucket)) == 10


def test_a_refusal_is_not_tried_again(s3_proxy: S3Proxy) -> None:
    stream = stream_of(bucket_on(s3_proxy.s3) | {"secret": "wrong"}, retries=100)

    with pytest.raises(StorageError, match="refuses access"), LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 1))

    assert [request.status for request in s3_proxy.requests() if request.key] == [403]
