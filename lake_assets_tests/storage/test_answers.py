"""An answer of S3 has one meaning, whichever client gets it."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.odd_s3 import OddS3, odd_s3
from lake_assets.errors import SourceError, StorageError
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales

__all__ = ["sessions"]

KEY = "region=NW/date=2026-02-11/{}.parquet"
REGION = b"<Message>The region 'us-east-1' is wrong; expecting 'eu-central-1'</Message><Region>eu-central-1</Region>"


def answer(code: str, more: bytes = b"") -> bytes:
    return b"<Error><Code>" + code.encode() + b"</Code>" + more + b"</Error>"


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


@pytest.mark.parametrize(
    ("status", "content", "text"),
    [
        (301, answer("PermanentRedirect"), "is in another region: set `region` of the storage to that of its bucket"),
        (400, answer("AuthorizationHeaderMalformed", REGION), "is in another region: eu-central-1: set `region`"),
        (403, answer("RequestTimeTooSkewed"), "refuses requests with the time of this machine, .*: set the clock"),
    ],
    ids=["moved", "region", "clock"],
)
def test_what_is_true_of_the_whole_bucket_is_said_so(
    odd: OddS3, local_world: World, status: int, content: bytes, text: str
) -> None:
    odd.answers = lambda *_: (status, content)
    with pytest.raises(StorageError, match=text):
        local_world.stream.source.all(hides=lambda _: False)
    odd.answers = lambda _, key: (status, content) if key else None  # of an object
    with pytest.raises(StorageError, match=text):
        local_world.ingest(NW)
