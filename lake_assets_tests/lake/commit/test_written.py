"""Files whose footers the tasks returned: the catalog gets the same facts, and none is registered that is gone."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lake_assets.config.storages import LocalStorage
from lake_assets.errors import StorageError
from lake_assets.ingest.replace import replace_run
from lake_assets.lake.catalog import file_facts
from lake_assets.lake.catalog.table import Column, Partitioning, Table
from lake_assets.lake.commit.change import Change, Committed, Written
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.session import LakeSession
from lake_assets.parquet import write
from lake_assets.parquet.job import DataFile, Job
from lake_assets_tests.lake.commit.strategy_pair import SCHEMA, row
from lake_assets_tests.world import NW, World, sales


def written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[DataFile]:
    """Two files of two row groups each, with all kinds of types."""
    monkeypatch.setattr(write, "GROUP_ROWS", 50)
    storage = LocalStorage(path=str(folder))
    batches = pa.Table.from_pylist([row(n) for n in range(200)], SCHEMA).to_batches(50)
    job = Job("run", storage, storage, SCHEMA, "zstd", 1, ())
    return [*write.write_files(batches[:2], job, "x/"), *write.write_files(batches[2:], job, "x/")]


@pytest.mark.parametrize("has_folder", [True, False], ids=["", "no temporary folder"])
def test_the_facts_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_folder: bool) -> None:
    files = written(tmp_path, monkeypatch)
    engine = duckdb.connect()
    uris = [file.uri for file in files]
    read = file_facts.open_footers(engine, uris)
    table = Table(1, "", {n: Column(n, path, "varchar", None) for n, path in enumerate(read[0].chunks)})
    unread, unpartitioned = [dataclasses.replace(file, footer=None) for file in files], Partitioning(1, ())
    expected = file_facts.read_footers(engine, unread, table, unpartitioned)
    if has_folder:
        for uri in uris[1:]:
            Path(uri).unlink()
    else:
        monkeypatch.setenv("TMPDIR", "/nowhere")
        monkeypatch.setattr("tempfile.tempdir", "/nowhere")

    assert file_facts.read_footers(engine, [unread[0], *files[1:]], table, unpartitioned) == expected


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
