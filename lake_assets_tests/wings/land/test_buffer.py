"""What the buffer holds, through kills, full disks, clocks, and drains beside each other: it arrives once."""

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.proxy import Rule, S3Proxy
from lake_assets.base.errors import LakeAssetsError, LandingError, SchemaError
from lake_assets.config.storages import S3Storage
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.store import Store
from lake_assets.wings.land.buffer import Buffer, output_name
from lake_assets.wings.land.drain import drain
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.tiers import more
from lake_assets_tests.wings.land.streams import GOOD, files, land_text, landed_ids, rows, stream_of
from lake_assets_tests.world_fixtures import bucket_on

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

    monkeypatch.setattr(f"lake_assets.wings.land.buffer.{step}", fails)
    with pytest.raises(LandingError, match=message):
        buffer.put("a/after", b"half", ["one"])

    assert [batch.key for batch in buffer.pending("one")] == ["a/before"]
    assert [path.name for path in (buffer.root / "kept" / "a").iterdir()] == ["before"]
    assert list((buffer.root / "writing").iterdir()) == []


LATE = '{"region":"NW","date":"1999-01-01","other":5}'


def inferring(folder: Path) -> StreamConfig:
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


WRITER = """
import sys
from pathlib import Path
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.wings.land.streams import rows, stream_of
folder = Path(sys.argv[1])
writer = LandingWriter("sales", stream_of(folder / "out", buffer={"path": str(folder / "buffer")}))
for first in range(0, 1_000_000, 10):
    writer.write(rows(first, 10))
    writer.flush()
    print(first + 10, flush=True)
"""


@pytest.mark.kill
def test_what_a_killed_writer_had_flushed_arrives_once(tmp_path: Path) -> None:
    after = 7
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(after):
            process.stdout.readline()
        process.kill()
        message = process.stdout.read().split()
    safe = int(message[-1]) if message else after * 10

    stream = stream_of(tmp_path / "out", buffer={"path": str(tmp_path / "buffer")})
    drained = drain("sales", stream)

    assert drained.pending == 0
    result = landed_ids(tmp_path / "out")
    assert len(result) == len(set(result))
    assert result[:safe] == list(range(safe))
    assert len(result) - safe in {0, 10}  # one that was safe just before it could be told


PUT = """
import os, signal, sys
from pathlib import Path
from lake_assets.wings.land.buffer import Buffer
folder, key, last, outputs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
buffer = Buffer(folder / "buffer" / "sales", 7 * 86_400.0)
names = 0

def dies(event, arguments):
    global names
    if event in {"os.link", "os.rename", "os.remove"}:
        names += 1
        if names == last:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(dies)
buffer.put(key, (folder / "batch").read_bytes(), outputs)
"""


@pytest.mark.parametrize("last", [1, *more(range(2, 6))])
def test_a_batch_is_at_all_outputs_or_nowhere_when_its_put_is_killed_between_two_names(
    tmp_path: Path, last: int
) -> None:
    outputs = [tmp_path / "one", tmp_path / "two"]
    stream = stream_of(tmp_path, outputs=list(map(str, outputs)), buffer={"path": str(tmp_path / "buffer")})
    key = "region=NW/date=2026-02-11/batch_1000000000_0000_n.parquet"
    pq.write_table(rows(0, 5).select(["id"]), tmp_path / "batch")
    names = [output_name(str(output)) for output in outputs]
    process = subprocess.run([sys.executable, "-c", PUT, str(tmp_path), key, str(last), *names], check=False)
    assert process.returncode == (-9 if last < 5 else 0)
    buffer = tmp_path / "buffer" / "sales"
    for file in (buffer / "writing").iterdir():
        os.utime(file, (time.time() - 120,) * 2)  # long enough ago

    drained = drain("sales", stream)

    assert (drained.pending, drained.errors) == (0, ())
    is_whole = last > 1  # before its first name nobody knows whether it is
    assert [(output / key).exists() for output in outputs] == [is_whole] * 2
    assert (buffer / "kept" / key).exists() == is_whole
    assert len(list((buffer / "writing").iterdir())) == (not is_whole)
    assert drain("sales", stream).uploaded == 0


def test_what_is_being_put_is_not_taken_for_broken_off(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, 0)
    (tmp_path / "writing" / "new").write_bytes(b"x")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a").hardlink_to(tmp_path / "writing" / "new")

    buffer.adopt(["one"])
    assert buffer.pending("one") == []
    assert Buffer(tmp_path, -1).expire() == 0  # it may lack a pending name

    os.utime(tmp_path / "writing" / "new", (time.time() - 120,) * 2)
    buffer.adopt(["one"])
    assert [batch.key for batch in buffer.pending("one")] == ["a"]


@pytest.mark.usefixtures("impatient")
def test_drains_beside_each_other_upload_each_batch_once(s3_proxy: S3Proxy, tmp_path: Path) -> None:
    bucket = bucket_on(s3_proxy.s3)
    stream = stream_of(bucket, batch={"records": 10}, buffer={"path": str(tmp_path / "buffer")}, retries=20)
    with s3_proxy.down(), LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 500))
    s3_proxy.inject(Rule("lose_answer", when=lambda r: r.method == "PUT" and "_0000_" in r.key, times=2))

    with ThreadPoolExecutor(3) as pool:
        drained = [done.result() for done in [pool.submit(drain, "sales", stream) for _ in range(3)]]

    assert all(item.pending == 0 and not item.errors for item in drained)
    store = Store(S3Storage.model_validate(bucket))
    assert len(store.list(files="*.parquet")) == 50
    created = [r.key for r in s3_proxy.requests("PUT") if r.status == 200 and r.key]
    assert len(created) == len(set(created))


def test_an_empty_folder_that_is_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, 0)
    buffer.put("region=NW/a", b"x", ["one"])
    buffer.arrived(buffer.pending("one")[0])
    other = Buffer(tmp_path, -1)  # all is past its retention

    assert other.expire() == 1
    assert not (tmp_path / "kept" / "region=NW").exists()
    buffer.put("region=NW/b", b"x", ["one"])

    assert [batch.key for batch in buffer.pending("one")] == ["region=NW/b"]


def test_the_batches_and_columns_of_a_renamed_stream_are_its_own(tmp_path: Path) -> None:
    at = {"buffer": {"path": str(tmp_path / "buffer")}}
    earlier = Buffer(tmp_path / "buffer" / "sales", DAY)
    earlier.fix_schema(pa.schema([("total", pa.float64())]))
    renamed = stream_of(tmp_path / "out", **at).model_copy(update={"previously": ("till", "sales")})
    outputs = [output_name(str(tmp_path / "out"))]
    earlier.put(KEY, b"x", outputs)
    assert drain("orders", renamed).uploaded == 1
    assert drain("orders", renamed).uploaded == 0
    assert Buffer(tmp_path / "buffer" / "orders", DAY).schema() == pa.schema([("total", pa.float64())])
