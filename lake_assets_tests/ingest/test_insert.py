"""Encrypted lakes, written by INSERT: the same guarantees as other lakes, and no plaintext in any storage."""

import base64
import os
import pickle
import secrets
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogError, SourceError
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.lake.backends import commit_lock
from lake_assets.lake.commit.change import Staged
from lake_assets.spark.task import job as job_module
from lake_assets.spark.task.job import Job, StagingKey
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets_tests.ingest.encrypted import NULL, ODD, assert_secret, rows_of, staged, stored, telling
from lake_assets_tests.tiers import more
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import sessions

__all__ = ["sessions"]

# Each catalog and each storage; what is told apart by catalog does not depend on the storage.
COMBINATIONS = [("sqlite", "local"), *more([(("duckdb", "s3"),), (("postgres", "local"),)])]

everywhere = pytest.mark.parametrize("world", COMBINATIONS, indirect=True)


@everywhere
def test_the_rows_are_the_sources_and_no_file_can_be_read_without_its_key(encrypted: World) -> None:
    first, second = telling(1000), telling(500, seed=2)
    encrypted.land(NW, first)
    encrypted.land(SW, second)

    row = encrypted.ingest(NW).row
    encrypted.ingest(SW)

    expected = [
        (*values, region, "2026-02-11")
        for region, table in (("NW", first), ("SW", second))
        for values in zip(*table.to_pydict().values(), strict=True)
    ]
    assert rows_of(encrypted) == expected
    assert_secret(encrypted, first, second)
    assert staged(encrypted) == []
    files = {key: len(body) for key, body in stored(encrypted)}
    assert (row.row_count, row.rows_before, row.files_written) == (1000, 0, 1)
    assert row.bytes_written in files.values()
    assert len(files) == 2
    named = encrypted.query(
        "SELECT r.run_id, s.snapshot_id FROM lake.snapshots() s "
        "JOIN lake.ingest_runs r ON s.commit_message LIKE '%' || r.run_id AND r.status = 'committed'"
    )
    assert dict(named) == {r.run_id: r.snapshot_id for r in encrypted.ledger()}


@pytest.mark.more
@everywhere
def test_a_range_with_null_odd_values_and_a_bad_one(encrypted: World) -> None:
    good = (NW, NULL, ODD)
    for text in good:
        encrypted.land(text, sales(1, 2))
    encrypted.land(SW, b"no parquet")
    partitions = [encrypted.partition(text) for text in (*good, SW)]

    outcomes = {outcome.partition: outcome for outcome in ingest_all(encrypted.stream, partitions, encrypted.sessions)}

    assert [outcomes[p].error is None for p in partitions] == [True, True, True, False]
    for text in good:
        assert encrypted.totals(text) == [1, 2]
    assert encrypted.query("SELECT DISTINCT region FROM lake.sales ORDER BY 1 NULLS LAST") == [
        ("NW",),
        ("O'Hare / x",),
        (None,),
    ]
    assert staged(encrypted) == []
    assert outcomes[partitions[-1]].error is not None
    assert [r.status for r in encrypted.ledger(SW)] == ["failed"]


def test_a_failing_commit_leaves_the_old_partition_and_nothing_staged(local_encrypted: World) -> None:
    table = telling(500)
    local_encrypted.land(NW, sales(1, 2))
    local_encrypted.options = {"schema_policy": "evolve"}
    local_encrypted.ingest(NW)
    local_encrypted.execute(  # now no commit can note what it read
        "ALTER TABLE lake.ingest_files DROP COLUMN size", "ALTER TABLE lake.ingest_files ADD COLUMN size DATE"
    )
    local_encrypted.land(NW, table)

    with pytest.raises(CatalogError, match="BIGINT -> DATE"):
        local_encrypted.ingest(NW)

    assert local_encrypted.totals() == [1, 2]
    assert staged(local_encrypted) == []
    assert_secret(local_encrypted, table)


@pytest.mark.more
@pytest.mark.kill
def test_a_kill_leaves_the_old_partition_and_no_plaintext(local_encrypted: World, tmp_path: Path) -> None:
    table = telling(20_000)
    local_encrypted.land(NW, sales(1, 2).append_column("text", pa.array(["", ""])))
    local_encrypted.options = {"compression": "none"}
    local_encrypted.ingest(NW)
    local_encrypted.land(NW, table)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    config = local_encrypted.config_file(tmp_path)
    script = Path(sys.executable).with_name("lake-assets")
    command = [str(script), "--config", str(config), "ingest", "sales", "--partition", NW]

    storage = Path(local_encrypted.storage["path"])
    with commit_lock(local_encrypted.config.lakes["test"]):  # the kill comes before the commit, however late it comes
        environment = os.environ | {"TMPDIR": str(scratch)}
        child = subprocess.Popen(command, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True, env=environment)
        until(lambda: is_staged(storage) or child.poll() is not None, "the run stages rows")
        child.kill()
        child.wait()

    assert child.returncode == -signal.SIGKILL
    assert local_encrypted.totals() == [1, 2]
    left = [path for path in (*storage.rglob("*"), *scratch.rglob("*")) if path.is_file()]
    assert any("_staging" in path.parts for path in left)
    texts = [text.encode() for text in table["text"].to_pylist()[:50]]
    assert [path for path in left if any(text in content(path) for text in texts)] == []
    local_encrypted.ingest(NW)
    assert len(local_encrypted.totals()) == 20_000
    assert local_encrypted.tidy().orphans == ()
    assert any("_staging" in orphan.key for orphan in local_encrypted.tidy(4).orphans)
    assert staged(local_encrypted) == []
    assert len(local_encrypted.totals()) == 20_000


def content(path: Path) -> bytes:
    """The bytes of a file that a process of the killed one may remove when it ends."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def is_staged(storage: Path) -> bool:
    """Whether a staged file has rows; it may vanish at any time."""
    with suppress(FileNotFoundError):
        return any(path.stat().st_size > 100_000 for path in storage.glob("_staging/*/*"))
    return False


def test_the_runs_key_is_neither_logged_nor_stored(
    local_encrypted: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    key = b"sixteen planted!"
    monkeypatch.setattr(secrets, "token_bytes", lambda count: key[:count])
    local_encrypted.commit(NW, 1)
    local_encrypted.land(SW, b"no parquet")
    with pytest.raises(SourceError) as raised:
        local_encrypted.ingest(SW)

    forms = (key, key.hex().encode(), base64.b64encode(key))
    messages = [repr(local_encrypted.ledger()), repr(raised.value), *capfd.readouterr()]
    messages += ["".join(traceback.format_exception(raised.value)), repr(Staged(key, [], [])), repr(StagingKey(key))]
    kept = [body for _, body in stored(local_encrypted)]
    kept += [path.read_bytes() for path in Path(local_encrypted.catalog["path"]).parent.glob("catalog*")]
    assert not any(form in text for form in forms for text in (*map(str.encode, messages), *kept))


def test_a_worker_that_knows_no_key_cannot_load_the_job(
    local_encrypted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with an older version would write unencrypted files."""
    storage = local_encrypted.config.lakes["test"].own_storage
    job = Job("run", LandingZone(storage), storage, pa.schema([]), "zstd", 1, (), key=StagingKey(b"x" * 16))
    pickled = pickle.dumps(job)
    assert pickle.loads(pickled) == job

    monkeypatch.delattr(job_module, "StagingKey")

    with pytest.raises(AttributeError, match="StagingKey"):
        pickle.loads(pickled)


@pytest.mark.more
def test_a_transform_is_staged_too(local_encrypted: World) -> None:
    table = telling(300)
    local_encrypted.options = {"transform": {"sql": "SELECT id, total * 2 AS total, text, region, date FROM source"}}
    local_encrypted.land(NW, table)

    local_encrypted.ingest(NW)

    assert local_encrypted.totals() == [2.0 * n for n in range(300)]
    assert_secret(local_encrypted, table)
    assert staged(local_encrypted) == []


@pytest.mark.more
def test_files_have_the_size_and_compression_of_the_stream(local_encrypted: World) -> None:
    rows = 200_000
    local_encrypted.land(NW, sales(*range(rows)), row_group_size=10_000)
    sizes = {}
    for compression in ("none", "gzip"):
        local_encrypted.options = {"target_file_size": "1MiB", "compression": compression}

        row = local_encrypted.ingest(NW, force=True).row

        sizes[compression] = files = [Path(uri).stat().st_size for uri in local_encrypted.live_files()]
        assert (row.files_written, row.bytes_written) == (len(files), sum(files))
        assert max(files) < 2.5 * 2**20
        assert local_encrypted.query("SELECT count(*) FROM lake.sales") == [(rows,)]
    assert len(sizes["none"]) > 2
    assert sum(sizes["none"]) > 1.5 * sum(sizes["gzip"])
