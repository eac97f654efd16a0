"""Texts that stay dictionaries: the data file has the rows and statistics of one that was written from plain texts."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import LocalStorage
from lake_assets.schema import arrow_types
from lake_assets.spark.task.job import DataFile, Job
from lake_assets.spark.task.share_reader import ShareReader
from lake_assets.spark.task.write import write_files
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.store import Store

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("code", pa.binary())])
PARTITION = Partition.of([PartitionColumn("key", "string")], {"key": "a"})
MANY = [f"a text of its own {number}" for number in range(3000)]


@pytest.fixture(autouse=True)
def any_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_types, "LEAST_ROWS", 1)


def land(folder: Path, name: str, texts: Sequence[str | None], **options: Any) -> None:
    codes = [text and text.encode() for text in texts]
    rows = pa.table({"n": range(len(texts)), "text": texts, "code": codes}, SCHEMA)
    pq.write_table(rows, folder / f"{name}.parquet", **options)


def job_on(folder: Path, target: int = 2**30) -> Job:
    return Job(
        "run",
        LandingZone(LocalStorage(path=str(folder))),
        LocalStorage(path=f"{folder}/lake"),
        SCHEMA,
        "zstd",
        target,
        (),
    )


def batches(job: Job, **options: Any) -> Iterator[pa.RecordBatch]:
    shares = [Share(obj) for obj in Store(job.landed.storage).list() if "/" not in obj.key]
    return ShareReader(job, job.schema, **options).read(shares, PARTITION)


def facts(file: DataFile) -> object:
    """Rows, row groups and statistics of a file."""
    metadata = pq.read_metadata(file.uri)
    groups = [metadata.row_group(number).to_dict() for number in range(metadata.num_row_groups)]
    columns = [[(c["path_in_schema"], c["num_values"], c["statistics"]) for c in group["columns"]] for group in groups]
    return pq.ParquetFile(file.uri).read(), pq.ParquetFile(file.uri).schema.to_arrow_schema(), columns


def written(job: Job, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[DataFile, bool]:
    """The job's one data file, and whether a dictionary was written to it."""
    seen: set[bool] = set()
    write_table = pq.ParquetWriter.write_table

    def spied(self: Any, table: pa.Table, *args: Any, **options: Any) -> None:
        seen.update(map(pa.types.is_dictionary, table.schema.types))
        write_table(self, table, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", spied)
        (file,) = write_files(batches(job, **options), job, "main/t/")
    return file, True in seen


def assert_same_file(folder: Path, *, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_on(folder)
    plain, from_plain = written(job, monkeypatch)
    file, from_dictionaries = written(job, monkeypatch, dictionaries=True)
    assert (from_plain, from_dictionaries) == (False, kept)
    assert facts(plain) == facts(file)


@pytest.mark.parametrize(
    "objects",
    [
        [["x", "y", "zz"] * 200],
        [["x", "y", "zz"] * 200, ["zz", "q", ""] * 200],
        [["x", None, "zz"] * 200, ["q", None, None] * 200],
        [["x", "y"] * 200, [None] * 200],
        [["é" * 2000, "ü" * 3000] * 6000],
    ],
    ids=["one object", "other texts", "nulls", "only nulls", "long"],
)
def test_a_file_is_the_same_with_dictionaries(
    tmp_path: Path, objects: list[list[str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, texts in enumerate(objects):
        land(tmp_path, str(number), texts)
    assert_same_file(tmp_path, kept=True, monkeypatch=monkeypatch)


@pytest.mark.parametrize("objects", [[(MANY, True)], [(["x", "y"] * 200, True), (["z", "y"] * 200, False)]])
def test_texts_that_differ_and_those_beside_plain_ones_are_plain(
    tmp_path: Path, objects: list[tuple[list[str], bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (texts, use_dictionary) in enumerate(objects):
        land(tmp_path, str(number), texts, use_dictionary=use_dictionary)
    assert_same_file(tmp_path, kept=False, monkeypatch=monkeypatch)


def test_a_dictionary_that_grew_too_large_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each object has a small one, and all together a large one."""
    monkeypatch.setattr(arrow_types, "_DICTIONARY_BYTES", 100)
    for number in range(10):
        land(tmp_path, str(number), [f"a text of object {number}", "another"] * 200)
    assert_same_file(tmp_path, kept=False, monkeypatch=monkeypatch)


def test_row_groups_of_both_kinds_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.spark.task.write.GROUP_ROWS", 400)
    for number in range(6):
        land(tmp_path, str(number), ["x", "y", f"z{number}", None] * 100, use_dictionary=number % 2 == 0)
    assert_same_file(tmp_path, kept=True, monkeypatch=monkeypatch)
    land(tmp_path, "0", ["first", "plain"] * 200, use_dictionary=False)
    assert_same_file(tmp_path, kept=False, monkeypatch=monkeypatch)


def test_field_ids_of_an_object_do_not_reach_the_data_file(tmp_path: Path) -> None:
    fields = [field.with_metadata({"PARQUET:field_id": str(7 + n)}) for n, field in enumerate(SCHEMA)]
    rows = pa.table({"n": range(100), "text": ["x", "y"] * 50, "code": [b"x", b"y"] * 50}, pa.schema(fields))
    pq.write_table(rows, tmp_path / "a.parquet")
    job = job_on(tmp_path)

    (file,) = write_files(batches(job, dictionaries=True), job, "main/t/")

    assert all(field.metadata is None for field in pq.read_schema(file.uri))


def test_partition_columns_of_the_rows_are_read_plain(tmp_path: Path) -> None:
    rows = pa.table({"n": range(100), "text": ["x", "y"] * 50, "code": [b"x", b"y"] * 50, "key": ["a"] * 100})
    pq.write_table(rows, tmp_path / "a.parquet")
    job = job_on(tmp_path)

    (batch,) = batches(job, dictionaries=True)

    assert [pa.types.is_dictionary(kind) for kind in batch.schema.types] == [False, True, True]


def test_columns_behind_nested_ones_are_found(tmp_path: Path) -> None:
    nested = pa.array([{"a": 1, "b": [text]} for text in MANY[:100]])
    rows = pa.table({"many": MANY[:100], "nested": nested, "text": ["x", "y"] * 50})
    pq.write_table(rows, tmp_path / "a.parquet")
    job = replace(job_on(tmp_path), schema=rows.schema)

    (batch,) = batches(job, dictionaries=True)

    assert [pa.types.is_dictionary(kind) for kind in batch.schema.types] == [False, False, True]
    assert batch.cast(rows.schema).equals(rows.to_batches()[0])


def test_small_batches_without_dictionaries_are_written_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_types, "LEAST_ROWS", 3)
    batches = [pa.record_batch({"n": [number, None], "text": ["a", f"b{number}"]}) for number in range(5)]
    expected = [row for batch in batches for row in batch.to_pylist()]

    table = arrow_types.combined_table(batches)
    assert table.to_pylist() == expected
    assert table.column("n").num_chunks == 1

    monkeypatch.setattr(arrow_types, "_COPIED_BYTES", table.nbytes - 1)
    assert arrow_types.combined_table(batches).to_pylist() == expected
    assert arrow_types.combined_table(batches).column("n").num_chunks == 5


ROWS = 20_000


def encodings_of(folder: Path, rows: pa.Table) -> dict[str, bool]:
    """Whether each column of the data file of some rows has a dictionary, after its rows were compared."""
    job = replace(job_on(folder), schema=rows.schema)
    (file,) = write_files(rows.to_batches(), job, "x/")
    parquet = pq.ParquetFile(file.uri)
    assert parquet.read().equals(rows)
    group = parquet.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert all(c.is_stats_set for c in columns)
    return {c.path_in_schema: c.has_dictionary_page for c in columns}


def test_values_that_come_once_get_no_dictionary(tmp_path: Path) -> None:
    shuffled = random.Random(1).sample(range(ROWS), ROWS)
    rows = pa.table(
        {
            "unique": shuffled,
            "a.b": [f"text {number}" for number in shuffled],
            "twice": [number // 2 for number in shuffled],
            "decimal": pa.array([Decimal(number) for number in shuffled], pa.decimal128(15, 2)),
            "few": [number % 50 for number in shuffled],
            "ten times": [number // 10 for number in shuffled],
            "sorted": [number // 10 for number in range(ROWS)],
            "nested": [{"deep": number} for number in shuffled],
            "half null": [number if number % 2 else None for number in shuffled],
            "null": pa.nulls(ROWS, pa.string()),
            "mostly one": [number if number % 20 == 0 else 0 for number in shuffled],
            "flag": [number % 2 == 0 for number in shuffled],
        }
    )
    assert encodings_of(tmp_path, rows) == {
        "unique": False,
        "a.b": False,
        "twice": False,
        "decimal": False,
        "few": True,
        "ten times": True,
        "sorted": True,
        "nested.deep": True,
        "half null": False,
        "null": True,
        "mostly one": True,
        "flag": False,  # Parquet has none of these
    }


def test_few_rows_are_not_looked_at(tmp_path: Path) -> None:
    assert encodings_of(tmp_path, pa.table({"unique": range(1000)})) == {"unique": True}
