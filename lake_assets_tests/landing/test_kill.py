"""A writer that is killed, and drains beside each other: what was safe stays safe, and arrives once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lake_assets.config.storages import S3Storage
from lake_assets.landing.buffer import Buffer
from lake_assets.landing.drain import drain
from lake_assets.landing.writer import LandingWriter
from lake_assets.storage.store import Store
from lake_assets_tests.landing.streams import landed_ids, rows, stream_of
from lake_assets_tests.servers.proxy import Rule, S3Proxy
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


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 7, 40])
def test_what_a_killed_writer_had_flushed_arrives_once(tmp_path: Path, after: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(after):
        process.stdout.readline()
    process.kill()
    told = process.stdout.read().split()
    safe = int(told[-1]) if told else after * 10

    stream = stream_of(tmp_path / "out", buffer={"path": str(tmp_path / "buffer")})
    drained = drain("sales", stream)

    assert drained.pending == 0
    found = landed_ids(tmp_path / "out")
    assert len(found) == len(set(found))
    assert found[:safe] == list(range(safe))
    assert len(found) - safe in {0, 10}  # one that was safe just before it could be told


@pytest.mark.slow
def test_drains_beside_each_other_upload_each_batch_once(s3_proxy: S3Proxy, tmp_path: Path) -> None:
    bucket = bucket_on(s3_proxy.s3)
    stream = stream_of(bucket, batch={"records": 10}, buffer={"path": str(tmp_path / "buffer")}, retries=20)
    with s3_proxy.down(), LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 500))
    s3_proxy.inject(Rule("lose_answer", when=lambda r: r.method == "PUT" and "_0000_" in r.key, times=2))

    with ThreadPoolExecutor(3) as pool:
        drained = [done.result() for done in [pool.submit(drain, "sales", stream) for _ in range(3)]]

    assert all(one.pending == 0 and not one.errors for one in drained)
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
