"""Data files: a column with a NaN, which Arrow's statistics omit, has none; names have the fingerprint."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.config.storages import LocalStorage
from lake_assets.spark.task import write
from lake_assets.spark.task.job import Job, named_fingerprint, new_name
from lake_assets.spark.task.write import write_files
from lake_assets.storage.formats import parquet_footers
from lake_assets.storage.formats.any_format import LandingZone

NAN = float("nan")


def written(folder: Path, *groups: pa.RecordBatch) -> list[pq.FileMetaData]:
    storage = LocalStorage(path=str(folder))
    job = Job("run", LandingZone(storage), storage, groups[0].schema, "zstd", 2**20, ())
    return [pq.read_metadata(file.uri) for file in write_files(groups, job, "x/")]


def silent(metadata: pq.FileMetaData) -> list[set[str]]:
    """The columns without statistics of each row group."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [
        {c.path_in_schema for c in map(group.column, range(group.num_columns)) if not c.is_stats_set}
        for group in groups
    ]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "GROUP_ROWS", 2)


def batch(*values: float) -> pa.RecordBatch:
    return pa.record_batch({"id": range(len(values)), "v": pa.array(values, pa.float32())})


def test_a_column_with_nan_has_none_in_all_row_groups_of_its_file(tmp_path: Path) -> None:
    (file,) = written(tmp_path, batch(1, NAN), batch(3, 4))
    assert silent(file) == [{"v"}, {"v"}]


def test_a_later_nan_begins_a_new_file(tmp_path: Path) -> None:
    files = written(tmp_path, batch(1, 2), batch(3, 4), batch(NAN, 5), batch(6, 7))
    assert [silent(file) for file in files] == [[set(), set()], [{"v"}, {"v"}]]
    assert [file.num_rows for file in files] == [4, 4]


def test_a_nan_is_found_in_nested_columns(tmp_path: Path) -> None:
    rows = {
        "list": [[1.0, NAN], []],
        "other": [[1.0], [2.0]],
        "deep": [{"a": 1.0, "b": [{"c": NAN, "d": 2.0}]}, None],
        "map": pa.array([[("k", NAN)], None], pa.map_(pa.string(), pa.float64())),
        "half": pa.array([NAN, 1.0], pa.float16()),
    }
    (file,) = written(tmp_path, pa.record_batch(rows))
    assert silent(file) == [{"list.list.element", "deep.b.list.element.c", "map.key_value.value", "half"}]


def test_a_nan_beside_uuids_and_json_in_nested_columns(tmp_path: Path) -> None:
    """Arrow makes no empty array of a list of either."""
    texts = pa.StructArray.from_arrays([pa.array(["{}"], pa.json_())], ["j"])
    rows = {"v": [NAN], "ids": pa.nulls(1, pa.list_(pa.uuid())), "texts": texts}
    (file,) = written(tmp_path, pa.record_batch(rows))
    assert silent(file) == [{"v"}]


def test_a_footer_comes_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(path=str(tmp_path))
    batch = pa.record_batch({"x": [1.5, NAN, None], "t": ["a", None, "b"]})
    job = Job("run", LandingZone(storage), storage, batch.schema, "zstd", 2**20, ())
    (file,) = write_files([batch], job, "x/")
    body = Path(file.uri).read_bytes()
    length = int.from_bytes(body[-8:-4], "little")
    assert file.footer == b"PAR1" + body[-8 - length :]
    monkeypatch.setattr(parquet_footers, "MOST_BYTES", len(file.footer) - 1)
    (large,) = write_files([batch], job, "x/")
    assert large.footer is None


FINGERPRINT = "0123456789abcdef" * 4


@pytest.mark.parametrize("run_id", ["run", "a/b -fp é", f"x-fp{FINGERPRINT}", f"x-fp{FINGERPRINT}.parquet"])
def test_a_name_has_its_fingerprint(run_id: str) -> None:
    name = new_name(f"{run_id}-0123456789abcdef", FINGERPRINT)
    assert name.startswith(run_id)
    assert named_fingerprint(f"region=NW/{name}") == FINGERPRINT


@pytest.mark.parametrize(
    "name",
    [
        f"run-{FINGERPRINT[:32]}.parquet",  # of earlier versions
        f"{FINGERPRINT}-{FINGERPRINT[:32]}.parquet",
        f"run-fp{FINGERPRINT}-{FINGERPRINT[:32]}.parquet",
        f"run-fp{FINGERPRINT[:-1]}.parquet",
        f"run-fp{FINGERPRINT}.parquet.tmp",
        "ducklake-019c3c5c-6a73-7d2b-a9d5-0d6a8d3f1f8c.parquet",
        f"batch-fp{FINGERPRINT.upper()}.parquet",
    ],
)
def test_other_names_have_none(name: str) -> None:
    assert named_fingerprint(name) is None
    assert named_fingerprint(new_name("run-0123456789abcdef", None)) is None


def test_a_name_that_would_be_too_long_has_none_and_none_is_given_twice() -> None:
    name = new_name("r" * 200, FINGERPRINT)
    assert len(name) < 255
    assert named_fingerprint(name) is None
    assert len({new_name("run", FINGERPRINT) for _ in range(100)}) == 100
