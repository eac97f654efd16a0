"""A task's shares are read in order, with the same rows and errors in any number of threads."""

import threading
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake_assets.base.errors import LakeAssetsError, SchemaDriftError
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.modes import SchemaPolicy
from lake_assets.config.storages import LocalStorage
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.fitter import Fitter
from lake_assets.spark.task.job import Job, task_threads
from lake_assets.spark.task.share_reader import ShareReader
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.formats.parquet_together import LEAST
from lake_assets.storage.store import Store

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
PARTITION = Partition.of([PartitionColumn("key", "string")], {"key": "a"})
KINDS = ("same", "narrow", "no text", "new column", "other type", "damaged rows", "no parquet", "other partition")


def land(folder: Path, number: int, kind: str) -> None:
    file = folder / f"{number:03d}.parquet"
    numbers, texts = pa.array([number, number + 1], pa.int64()), pa.array([kind, None])
    columns = {
        "narrow": {"n": numbers.cast(pa.int16()), "text": texts},
        "no text": {"n": numbers},
        "new column": {"n": numbers, "text": texts, f"new_{number % 2}": numbers},
        "other type": {"n": texts, "text": texts},
        "other partition": {"n": numbers, "text": texts, "key": ["a", f"b{number}"]},
    }.get(kind, {"n": numbers, "text": texts})
    pq.write_table(pa.table(columns), file)
    if kind == "no parquet":
        file.write_bytes(b"no parquet")
    if kind == "damaged rows":
        chunk = pq.read_metadata(file).row_group(0).column(0)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        body = bytearray(file.read_bytes())
        body[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        file.write_bytes(body)


def reader_of(folder: Path, threads: int, *, policy: SchemaPolicy = "strict") -> tuple[ShareReader, list[Share]]:
    storage = LocalStorage(path=str(folder))
    job = Job("run", LandingZone(storage, rules=Rules(policy)), storage, SCHEMA, "none", 1, ())
    shares = [Share(obj) for obj in Store(storage).list()]
    return ShareReader(job, SCHEMA, threads=threads), shares


def outcome(folder: Path, threads: int, *, policy: SchemaPolicy) -> object:
    """The rows, and the error that ended them."""
    reader, shares = reader_of(folder, threads, policy=policy)
    rows: list[object] = []
    try:
        for batch in reader.read(shares, PARTITION):
            rows += batch.to_pylist()
    except LakeAssetsError as error:
        drift = error.schemas if isinstance(error, SchemaDriftError) else None
        return rows, type(error), str(error), drift
    return rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from((*["same"] * 8, *KINDS)), max_size=30), st.sampled_from(["strict", "evolve"]))
def test_rows_and_the_first_error_are_those_of_one_thread(
    tmp_path_factory: pytest.TempPathFactory, kinds: Sequence[str], policy: SchemaPolicy
) -> None:
    folder = tmp_path_factory.mktemp("landed")
    for number, kind in enumerate(kinds):
        land(folder, number, kind)

    with mock.patch("lake_assets.spark.task.share_reader.is_worth_it", return_value=False):  # none are read together
        alone = outcome(folder, 1, policy=policy)
    assert outcome(folder, 4, policy=policy) == outcome(folder, 1, policy=policy) == alone


@pytest.mark.parametrize(("threads", "limit", "elsewhere"), [(1, 10, False), (2, 10, True), (2, 1, False)])
def test_only_objects_of_one_batch_are_decoded_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, limit: int, elsewhere: bool
) -> None:
    """Others are decoded batch by batch, so that memory is bounded."""
    monkeypatch.setattr("lake_assets.storage.formats.parquet_files.BATCH_ROWS", limit)
    where = set()
    fit = Fitter.fit

    def seen(self: Fitter, batch: pa.RecordBatch) -> pa.RecordBatch:
        where.add(threading.current_thread() is not threading.main_thread())
        return fit(self, batch)

    monkeypatch.setattr(Fitter, "fit", seen)
    for number in range(LEAST - 1):  # more are read together
        land(tmp_path, number, "same")
    reader, shares = reader_of(tmp_path, threads)

    assert [n for batch in reader.read(shares, PARTITION) for n in batch.column("n").to_pylist()] == [
        n for number in range(LEAST - 1) for n in (number, number + 1)
    ]
    assert where == {elsewhere}


def test_a_reader_that_is_given_up_leaves_no_thread(tmp_path: Path) -> None:
    for number in range(30):
        land(tmp_path, number, "same")
    reader, shares = reader_of(tmp_path, 4)
    before = threading.active_count()
    rows = reader.read(shares, PARTITION)
    next(iter(rows))
    assert threading.active_count() > before
    rows.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_threads_are_the_cores_that_a_job_leaves_idle() -> None:
    assert [task_threads(*case) for case in ((1, 2), (2, 2), (5, 2), (1, 64), (3, 8))] == [2, 1, 1, 4, 2]
