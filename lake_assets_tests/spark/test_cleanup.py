"""The files of a failed task or job are removed at once, and no others."""

import resource
import secrets
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dev.servers.proxy import Rule, S3Proxy
from lake_assets.base.errors import CatalogError, SourceChangedError, StorageError, TransformError
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import Outcome
from lake_assets.spark.spark_jobs import discard_job
from lake_assets.spark.task.job import DataFile, Job, PartitionJob, StagingKey
from lake_assets.spark.task.write import stage_files, write_files
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("a", pa.string())])
MIB = 2**20


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.spark.task.write.GROUP_ROWS", 1000)


def batches(count: int, rows: int = 1000, *, fails: bool = False) -> Iterator[pa.RecordBatch]:
    """Batches of a row group each, with 100 bytes a row that nothing compresses."""
    for _ in range(count):
        yield pa.RecordBatch.from_pydict({"a": [secrets.token_hex(50) for _ in range(rows)]}, schema=SCHEMA)
    if fails:
        raise RuntimeError("the source failed")


def job_on(storage: AnyStorage, target: int = MIB, key: bytes | None = None) -> Job:
    return Job(
        "run", LandingZone(storage), storage, SCHEMA, "none", target, (), key=None if key is None else StagingKey(key)
    )


@pytest.fixture
def local(tmp_path: Path) -> LocalStorage:
    return LocalStorage(path=str(tmp_path))


def files(storage: AnyStorage) -> set[str]:
    return {obj.uri for obj in Store(storage).list()}


WAYS = [pytest.param(None, id="written"), pytest.param(b"0123456789abcdef", id="staged")]


def write(job: Job, rows: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
    return iter((write_files if job.key is None else stage_files)(rows, job, "main/t/"))


@pytest.mark.parametrize("key", WAYS)
def test_a_writer_that_fails_or_is_given_up_removes_what_it_has_written_and_no_other_attempts(
    local: LocalStorage, key: bytes | None
) -> None:
    job = job_on(local, 100_000, key)
    others = {file.uri for file in write(job, batches(3))}
    assert files(local) == others
    for fails in (True, False):
        writer = write(job, batches(3, fails=fails))
        assert next(writer).uri in files(local)
        if fails:
            with pytest.raises(RuntimeError, match="the source failed"):
                list(writer)
        else:
            assert isinstance(writer, Generator)
            writer.close()
        assert files(local) == others


@pytest.mark.parametrize("key", WAYS)
def test_a_storage_that_does_not_take_a_file_is_named_with_it(
    local: LocalStorage, tmp_path: Path, key: bytes | None
) -> None:
    (tmp_path / "main").write_bytes(b"")  # no folder

    message = rf"^{tmp_path}/main/t/.+\.parquet was not written by the folder {tmp_path}: "
    with pytest.raises(StorageError, match=message):
        list(write(job_on(local, key=key), batches(1)))


def test_a_temporary_folder_that_is_full_is_named(local: LocalStorage) -> None:
    """A limit of the file size has the same effect on Arrow as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    try:
        with pytest.raises(StorageError, match="cannot be encrypted in the temporary folder /"):
            list(stage_files(batches(1), job_on(local, key=b"0123456789abcdef"), "main/t/"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files(local) == set()


@pytest.mark.more
def test_an_upload_in_parts_that_fails_leaves_nothing_in_the_bucket(s3_proxy: S3Proxy) -> None:
    storage = S3Storage.model_validate(bucket_on(s3_proxy.s3))
    client = s3_proxy.s3.client()
    client.create_multipart_upload(Bucket=storage.bucket, Key="some/prefix/main/t/anothers.parquet")
    s3_proxy.inject(Rule("status", lambda r: r.query.get("partNumber") == "2", times=1000, status=500))

    with pytest.raises(StorageError):
        list(write_files(batches(300), job_on(storage, 100 * MIB), "main/t/"))

    assert [r for r in s3_proxy.requests("POST") if "uploads" in r.query], "the file is too small for parts"
    assert files(storage) == set()
    uploads = client.list_multipart_uploads(Bucket=storage.bucket).get("Uploads", [])
    assert [upload["Key"] for upload in uploads] == ["some/prefix/main/t/anothers.parquet"]


@pytest.mark.more
def test_a_small_object_that_fails_is_not_written_later(s3_proxy: S3Proxy) -> None:
    storage = S3Storage.model_validate(bucket_on(s3_proxy.s3))
    rule = s3_proxy.inject(Rule("status", lambda r: r.method == "PUT" and bool(r.key), times=1000, status=500))

    with pytest.raises(StorageError) as raised:
        list(write_files(batches(1), job_on(storage), "main/t/"))
    rule.times = 0
    raised.value.__traceback__ = None
    del raised

    assert files(storage) == set()


def ingest_both(world: World) -> list[Outcome]:
    partitions = [world.partition(NW), world.partition(SW)]
    by_partition = {outcome.partition: outcome for outcome in ingest_all(world.stream, partitions, world.sessions)}
    return [by_partition[partition] for partition in partitions]


@pytest.mark.more
def test_the_files_of_a_job_that_failed_as_a_whole_are_removed(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of one object fail in Spark's own code, after other tasks have written theirs."""
    left = []

    def discard(spark: "SparkSession", job: Job) -> None:
        left.append(len(local_world.data_files()))
        discard_job(spark, job)

    monkeypatch.setattr("lake_assets.spark.spark_jobs.discard_job", discard)
    local_world.options = {
        "target_file_size": "1MiB",
        "transform": {"sql": "SELECT id, 1 / (total + 1) AS total, region, date FROM source"},
    }
    for name in ("a", "b", "c"):
        rows = sales(*range(100_000))
        local_world.land(NW, rows, f"{name}.parquet", compression="none", use_dictionary=False)
    local_world.land(NW, sales(*range(100_000), -1), "d.parquet", compression="none", use_dictionary=False)

    with pytest.raises(TransformError, match="Division by zero"):
        local_world.ingest(NW)

    assert local_world.data_files() == set()
    assert left[0] > 0


@pytest.mark.more
def test_the_files_of_all_tasks_of_a_job_are_removed_and_no_others(local: LocalStorage, local_world: World) -> None:
    partition = PartitionJob(local_world.partition(NW), (), "main/t/")
    job = replace(job_on(local), partitions=(partition,))
    others = {file.uri for file in write_files(batches(1), job_on(local), "main/t/")}
    list(write_files(batches(2), job, "main/t/"))

    discard_job(local_world.sessions(), job)

    assert files(local) == others


@pytest.mark.more
def test_the_files_of_a_partition_with_a_failing_object_are_removed(local_world: World) -> None:
    local_world.options = {"target_file_size": "1MiB", "compression": "none"}
    for name in ("a", "b", "c"):
        local_world.land(NW, sales(*range(100_000)), f"{name}.parquet", compression="none", use_dictionary=False)
    damaged = local_world.land(NW, b"PAR1" + secrets.token_bytes(1_600_000) + b"PAR1", "d.parquet")
    local_world.land(SW, sales(2))

    failed, done = ingest_both(local_world)

    assert damaged in str(failed.error)
    assert done.error is None
    assert len(local_world.data_files()) == 1


@pytest.mark.more
def test_the_files_of_a_partition_that_changed_under_the_job_are_removed(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    tries = []

    def moved(*_: object) -> None:
        tries.append(len(local_world.data_files()))
        raise SourceChangedError("it changed.")

    monkeypatch.setattr("lake_assets.ingest.partition_run.PartitionRun.refuse_moved_source", moved)

    with pytest.raises(SourceChangedError):
        local_world.ingest(NW)

    assert tries == [1, 1, 1]
    assert local_world.data_files() == set()


def test_files_whose_commit_failed_stay_for_maintenance(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a commit may have been lost, and the files may belong to the table."""

    def lost(*_: object) -> None:
        raise CatalogError("no answer.")

    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.commit", lost)
    local_world.land(NW, sales(1))

    with pytest.raises(CatalogError, match="no answer"):
        local_world.ingest(NW)

    assert len(local_world.data_files()) == 1
