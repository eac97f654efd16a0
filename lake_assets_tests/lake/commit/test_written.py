"""Files whose footers the tasks returned: the catalog gets the same facts, and none is registered that is gone."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lake_assets.base.errors import StorageError
from lake_assets.config.storages import LocalStorage
from lake_assets.ingest.replace import replace_run
from lake_assets.lake.catalog import file_facts
from lake_assets.lake.catalog.table import LakeColumn, Partitioning, Table
from lake_assets.lake.commit.change import Change, Committed, Written
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task import write
from lake_assets.spark.task.job import DataFile, Job
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets_tests.lake.commit.strategy_pair import SCHEMA, row
from lake_assets_tests.world import NW, World, sales


def written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[DataFile]:
    """Two files of two row groups each, with all kinds of types."""
    monkeypatch.setattr(write, "GROUP_ROWS", 50)
    storage = LocalStorage(path=str(folder))
    batches = pa.Table.from_pylist([row(n) for n in range(200)], SCHEMA).to_batches(50)
    job = Job("run", LandingZone(storage), storage, SCHEMA, "zstd", 1, ())
    return [*write.write_files(batches[:2], job, "x/"), *write.write_files(batches[2:], job, "x/")]


@pytest.mark.parametrize("has_folder", [True, False], ids=["", "no temporary folder"])
def test_the_facts_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_folder: bool) -> None:
    files = written(tmp_path, monkeypatch)
    engine = duckdb.connect()
    uris = [file.uri for file in files]
    read = file_facts.open_footers(engine, uris)
    table = Table(1, "", {n: LakeColumn(n, path, "varchar", None) for n, path in enumerate(read[0].chunks)})
    unread, unpartitioned = [dataclasses.replace(file, footer=None) for file in files], Partitioning(1, ())
    expected = file_facts.read_footers(lambda: engine, unread, table, unpartitioned)
    if has_folder:
        for uri in uris[1:]:
            Path(uri).unlink()
    else:
        monkeypatch.setenv("TMPDIR", "/nowhere")
        monkeypatch.setattr("tempfile.tempdir", "/nowhere")

    assert file_facts.read_footers(lambda: engine, [unread[0], *files[1:]], table, unpartitioned) == expected


def values_of(footer: file_facts.Footer) -> dict[str, list[file_facts.Chunk]]:
    """The column chunks without what a commit does not need."""
    return {path: [c._replace(codec="", encodings=()) for c in chunks] for path, chunks in footer.chunks.items()}


BY_DUCKDB = {"bytes", "id", "nanos", "far", "old"}  # of types or with values that Arrow shows in another way
VALUES = {
    "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "most": pa.array([2**32 - 1], pa.uint32()),
    "double": pa.array([1e16, 123456789012345680.0, 5e-324, -0.0]),
    "single": pa.array([1e16, 0.1, -28204525568.0], pa.float32()),
    "small": pa.array([Decimal("0.0000000001")], pa.decimal128(20, 10)),
    "seconds": pa.array([1_770_771_723], pa.timestamp("s")),
    "zoned": pa.array([dt.datetime(2026, 2, 11, 1, 2, 3, 500_000, dt.UTC)], pa.timestamp("us", "Europe/Berlin")),
    "clock_ms": pa.array([dt.time(1, 2, 3, 500_000)], pa.time32("ms")),
    "first": pa.array([dt.date(1, 1, 1)]),
    "old": pa.array([-800_000], pa.int32()).cast(pa.date32()),
    "far": pa.array([2**62], pa.timestamp("us")),
    "none": pa.array([None, None], pa.string()),
    "nan": pa.array([float("nan"), 1.0]),
    "zero": pa.array(["a\0b", "c"]),
    "a.b": pa.array([1]),
    "a, b": pa.array([1]),
}


@pytest.mark.parametrize("name", [*SCHEMA.names, *VALUES])
def test_a_footer_that_a_task_returned_says_what_duckdb_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(write, "GROUP_ROWS", 50)
    table = pa.Table.from_pylist([row(n) for n in range(100)], SCHEMA).select([name]) if name in SCHEMA.names else None
    table = pa.table({name: VALUES[name]}) if table is None else table
    storage = LocalStorage(path=str(tmp_path))
    job = Job("run", LandingZone(storage), storage, table.schema, "zstd", 2**28, ())
    (file,) = write.write_files(table.to_batches(50), job, "x/")
    (expected,) = file_facts.open_footers(duckdb.connect(), [file.uri])

    found = file_facts._parsed(file, expected.chunks.keys())

    assert (found is None) == (name in BY_DUCKDB)
    assert file_facts._parsed(dataclasses.replace(file, is_copy=True), expected.chunks.keys()) is None
    if found is not None:
        assert values_of(found) == values_of(expected)
        assert dataclasses.replace(found, chunks={}, shape=0) == dataclasses.replace(expected, chunks={}, shape=0)


@pytest.mark.parametrize(
    ("text", "change"),
    [("is gone", Path.unlink), ("has 3 bytes, and was", lambda file: file.write_bytes(b"new"))],
    ids=["gone", "another"],
)
def test_a_file_that_is_gone_is_not_registered(
    local_world: World, monkeypatch: pytest.MonkeyPatch, text: str, change: Callable[[Path], object]
) -> None:
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))

    def commit_late(session: LakeSession, changes: Sequence[Change]) -> list[Committed]:
        """As maintenance with a short `orphans_older_than` has removed the files of a slow run."""
        (new,) = (one.new for one in changes)
        assert isinstance(new, Written)
        change(Path(new.files[0].uri))
        return commit(session, changes)

    monkeypatch.setattr(replace_run, "commit", commit_late)

    with pytest.raises(StorageError, match=text):
        local_world.ingest(NW)

    assert local_world.totals() == [1]
    assert local_world.ledger()[0].status == "failed"
