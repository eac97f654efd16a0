"""What the buffer holds, through crashes, full disks and clocks."""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.config.streams import Stream
from lake_assets.errors import LakeAssetsError, LandingError, SchemaError
from lake_assets.landing.buffer import Buffer, output_name
from lake_assets.landing.drain import drain
from lake_assets.landing.writer import LandingWriter
from lake_assets_tests.landing.streams import GOOD, files, land_text, landed_ids, rows, stream_of

DAY = 86_400.0
KEY = "region=NW/date=2026-02-11/batch_1000000000_0000_n.parquet"


@pytest.fixture
def buffer(tmp_path: Path) -> Buffer:
    return Buffer(tmp_path / "buffer", 7 * DAY)


def age(buffer: Buffer, days: float, *keys: str) -> None:
    """Let batches have so many days; all names of a batch are of one file."""
    for key in keys:
        os.utime(buffer.root / "kept" / key, (time.time() - days * DAY,) * 2)


def test_pending_batches_are_in_the_order_of_their_names_across_partitions(buffer: Buffer) -> None:
    keys = [f"region={region}/batch_{second}_0000_n.parquet" for second, region in ((3, "A"), (1, "B"), (2, "C"))]
    for key in keys:
        buffer.put(key, b"x", ["one"])

    assert [batch.key for batch in buffer.pending("one")] == [keys[1], keys[2], keys[0]]


def test_retention_deletes_what_has_arrived_and_never_what_is_pending(buffer: Buffer) -> None:
    buffer.put("a/arrived", b"x", ["one", "two"])
    buffer.put("a/pending", b"x", ["one", "two"])
    for batch in [*buffer.pending("one"), *buffer.pending("two")]:
        if batch.key == "a/arrived" or batch.output == "one":
            buffer.arrived(batch)

    age(buffer, 6.9, "a/arrived", "a/pending")
    assert buffer.expire() == 0
    age(buffer, 7.1, "a/arrived", "a/pending")
    assert buffer.expire() == 1

    assert [path.name for path in (buffer.root / "kept" / "a").iterdir()] == ["pending"]
    (batch,) = buffer.pending("two")
    assert buffer.is_expired(batch)
    buffer.arrived(batch)
    assert buffer.expire() == 1


def test_a_clock_that_goes_backwards_keeps_batches_longer_and_no_shorter(buffer: Buffer) -> None:
    buffer.put(KEY, b"x", [])
    age(buffer, -365, KEY)

    assert buffer.expire() == 0
    assert buffer.last_second() == 1_000_000_000


@pytest.mark.parametrize(
    ("step", "number", "message"),
    [
        ("_write_through", errno.ENOSPC, "has no space left: free some"),
        ("_sync_folder", errno.EROFS, "cannot be written: Read-only file system"),
    ],
)
def test_a_full_or_unwritable_disk_leaves_nothing_of_the_batch(
    buffer: Buffer, monkeypatch: pytest.MonkeyPatch, step: str, number: int, message: str
) -> None:
    buffer.put("a/before", b"x", ["one"])

    def fails(path: Path, *_: object) -> None:
        if step == "_write_through":
            path.write_bytes(b"ha")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"lake_assets.landing.buffer.{step}", fails)
    with pytest.raises(LandingError, match=message):
        buffer.put("a/after", b"half", ["one"])

    assert [batch.key for batch in buffer.pending("one")] == ["a/before"]
    assert [path.name for path in (buffer.root / "kept" / "a").iterdir()] == ["before"]
    assert list((buffer.root / "writing").iterdir()) == []


LATE = '{"region":"NW","date":"1999-01-01","other":5}'


def inferring(folder: Path) -> Stream:
    """A stream with a buffer, whose columns are inferred."""
    return stream_of(folder / "out", columns=None, buffer={"path": str(folder / "buffer")})


@pytest.mark.parametrize("wrong", ['{"reg":"NW"}', '{"region":"NW","date":"2026-02-11"}', LATE, "no JSON"])
def test_a_first_landing_that_fails_fixes_no_columns(tmp_path: Path, wrong: str) -> None:
    """Neither one whose columns do not fit the stream, nor one whose records do not."""
    stream = inferring(tmp_path)
    (tmp_path / "wrong.jsonl").write_text(wrong + "\n")
    (tmp_path / "right.jsonl").write_text(GOOD + "\n")

    with suppress(LakeAssetsError):
        land_text(stream, tmp_path / "wrong.jsonl")
    assert not list(tmp_path.rglob("schema.arrow"))
    landed = land_text(stream, tmp_path / "right.jsonl").landed()

    assert (landed.records, landed.rejected) == (1, 0)
    assert landed_ids(tmp_path / "out") == [1]
    assert list(tmp_path.rglob("schema.arrow"))


def test_of_two_writers_that_begin_at_once_the_second_takes_the_columns_of_the_first(tmp_path: Path) -> None:
    stream = inferring(tmp_path)
    table = rows(0, 2)
    with LandingWriter("sales", stream) as one, LandingWriter("sales", stream) as other:
        narrow = table.set_column(3, "total", table["total"].cast(pa.int64()))
        one.schema(lambda: table.schema)
        other.schema(lambda: narrow.schema)
        one.write(table)
        other.write(narrow)
        assert other.schema(lambda: pytest.fail("inferred again")) == table.schema
        with pytest.raises(SchemaError, match=r"the column 'new'.*schema\.arrow, which an earlier landing has fixed"):
            other.write(table.append_column("new", pa.array([1, 2])))

    result = [pq.read_table(file, partitioning=None) for file in files(tmp_path / "out")]
    assert [part["total"].to_pylist() for part in result] == [[0.0, 1.0]] * 2
    assert len({str(part.schema) for part in result}) == 1


def test_a_drain_names_a_buffer_that_is_none_and_batches_for_an_output_that_is_no_more(tmp_path: Path) -> None:
    Buffer(tmp_path / "buffer" / "sales", DAY).put(KEY, b"x", [output_name("s3://gone")])
    (tmp_path / "file").write_text("")

    drained = drain("sales", stream_of(tmp_path / "now", buffer={"path": str(tmp_path / "buffer")}))

    assert (drained.pending, drained.uploaded) == (1, 0)
    assert "1 batches are pending for s3-gone" in drained.errors[0]
    with pytest.raises(LandingError, match="the stream sales has no buffer: give streams"):
        drain("sales", stream_of(tmp_path))
    with pytest.raises(LandingError, match=r"the buffer .*file/sales cannot be written: Not a directory"):
        LandingWriter("sales", stream_of(tmp_path / "out", buffer={"path": str(tmp_path / "file")}))


def test_expired_batches_that_never_arrived_are_kept_reported_and_uploaded_at_last(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("no folder")
    stream = stream_of(tmp_path / "blocked" / "out", buffer={"path": str(tmp_path / "buffer")})
    buffer = Buffer(tmp_path / "buffer" / "sales", 7 * DAY)
    stream_name = output_name(str(tmp_path / "blocked" / "out"))
    source = tmp_path / "elsewhere"
    with LandingWriter("sales", stream_of(source)) as writer:
        writer.write(rows(0, 5))
    buffer.put(KEY, files(source)[0].read_bytes(), [stream_name])
    age(buffer, 8, KEY)
    with pytest.raises(LandingError, match="cannot be made"):
        drain("sales", stream)

    (tmp_path / "blocked").unlink()
    assert buffer.expire() == 0
    assert buffer.is_expired(buffer.pending(stream_name)[0])
    drained = drain("sales", stream)

    assert (drained.uploaded, drained.pending, drained.deleted) == (1, 0, 1)
    assert landed_ids(tmp_path / "blocked") == list(range(5))
