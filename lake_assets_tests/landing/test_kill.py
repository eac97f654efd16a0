"""A writer that is killed, and drains beside each other: what was safe stays safe, and arrives once."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dev.servers.proxy import Rule, S3Proxy
from lake_assets.config.storages import S3Storage
from lake_assets.landing.buffer import Buffer, output_name
from lake_assets.landing.drain import drain
from lake_assets.landing.writer import LandingWriter
from lake_assets.storage.store import Store
from lake_assets_tests.landing.streams import landed_ids, rows, stream_of
from lake_assets_tests.world_fixtures import bucket_on

WRITER = """
import sys
from pathlib import Path
from lake_assets.landing.writer import LandingWriter
from lake_assets_tests.landing.streams import rows, stream_of
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
from lake_assets.landing.buffer import Buffer
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


@pytest.mark.parametrize("last", range(1, 6))
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
