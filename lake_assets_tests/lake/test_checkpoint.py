"""Checkpoints of a DuckDB-file catalog: after each way to end one, the next session finds every commit."""

import logging
import shutil
from pathlib import Path

import duckdb
import pytest

from lake_assets.base.errors import CatalogError
from lake_assets.config.lake import Lake
from lake_assets.lake.backends import duckdb_file
from lake_assets.lake.ducklake import DuckLake
from lake_assets_tests.lake.test_locked import held
from lake_assets_tests.rights import contents, only_readable
from lake_assets_tests.tiers import more

METADATA_BLOCK = 12288  # offset of the first block, which has the metadata of a small catalog


@pytest.fixture
def lake(tmp_path: Path) -> DuckLake:
    """A lake with one row, on a DuckDB file."""
    catalog, storage = tmp_path / "catalog.duckdb", tmp_path / "lake"
    config = {"catalog": {"type": "duckdb", "path": str(catalog)}, "storage": {"type": "local", "path": str(storage)}}
    lake = DuckLake(Lake.model_validate(config))
    with lake.open(create=True) as session:
        session.rows("CREATE TABLE lake.numbers (number INTEGER)")
        session.rows("INSERT INTO lake.numbers VALUES (1)")
    return lake


def file_of(lake: DuckLake) -> Path:
    return Path(lake.config.catalog.path)  # type: ignore[union-attr]


def files_of(lake: DuckLake) -> set[str]:
    return {path.name for path in file_of(lake).parent.glob("catalog.duckdb*")}


def insert(lake: DuckLake, number: int, abort: str = "NONE") -> None:
    with lake.open() as session:
        session.rows(f"SET debug_checkpoint_abort = '{abort}'")
        session.rows("INSERT INTO lake.numbers VALUES (?)", [number])


def numbers(lake: DuckLake, *, read_only: bool = False) -> list[int]:
    with DuckLake(lake.config).open(read_only=read_only) as session:
        return [number for (number,) in session.rows("SELECT number FROM lake.numbers ORDER BY number")]


def tear(file: Path) -> None:
    """Leave the first block of the file as a process does that dies while it writes the block."""
    with file.open("r+b") as opened:
        opened.seek(METADATA_BLOCK)
        opened.write(bytes(4096))


def test_a_session_that_writes_nothing_makes_no_checkpoint(lake: DuckLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_file, "_copy_open", lambda *_: pytest.fail("the catalog was copied"))

    assert numbers(lake) == [1]
    assert numbers(lake, read_only=True) == [1]


@pytest.mark.parametrize(
    ("abort", "read_only"),
    [("BEFORE_HEADER", False), ("BEFORE_TRUNCATE", True), *more([("AFTER_FREE_LIST_WRITE", False)])],
)
def test_a_checkpoint_that_fails_at_any_point_loses_no_commit(
    lake: DuckLake, caplog: pytest.LogCaptureFixture, abort: str, read_only: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        insert(lake, 2, abort)
    assert "keeps its log, because its checkpoint failed" in caplog.text
    insert(lake, 3)  # by the same object, with another engine

    assert numbers(lake, read_only=read_only) == [1, 2, 3]
    assert files_of(lake) == {"catalog.duckdb", "catalog.duckdb.lock"}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_block_that_a_dying_process_tore_is_restored(lake: DuckLake, read_only: bool) -> None:
    insert(lake, 2, "BEFORE_HEADER")
    tear(file_of(lake))
    with pytest.raises(duckdb.IOException, match="Corrupt database file"):
        duckdb.connect(file_of(lake), read_only=True)

    assert numbers(lake, read_only=read_only) == [1, 2]
    insert(lake, 3)
    assert numbers(lake) == [1, 2, 3]


@pytest.mark.parametrize("abort", ["NONE", *more(["BEFORE_TRUNCATE", "BEFORE_HEADER"])])
def test_a_reader_who_may_not_write_reads_the_log_and_leaves_it(
    lake: DuckLake, monkeypatch: pytest.MonkeyPatch, abort: str
) -> None:
    if abort == "NONE":
        monkeypatch.setattr(duckdb_file, "_checkpoint", lambda *_: None)  # as in a process that dies
    insert(lake, 2, abort)
    folder = file_of(lake).parent
    before = contents(folder)
    assert "catalog.duckdb.wal" in before

    with only_readable(folder):
        assert numbers(lake, read_only=True) == [1, 2]

    assert contents(folder) == before


def test_a_copy_that_outlives_its_checkpoint_is_removed_and_not_used(lake: DuckLake, tmp_path: Path) -> None:
    shutil.copy(file_of(lake), tmp_path / "old")
    insert(lake, 2)
    copy = duckdb_file.copy_of(lake.config.catalog)  # type: ignore[arg-type]
    shutil.copy(tmp_path / "old", copy)

    assert numbers(lake) == [1, 2]
    assert not copy.exists()


def test_a_catalog_that_another_client_holds_or_that_was_moved_away_is_not_replaced(lake: DuckLake) -> None:
    copy = duckdb_file.copy_of(lake.config.catalog)  # type: ignore[arg-type]
    shutil.copy(file_of(lake), copy)
    before = file_of(lake).stat().st_ino

    with held({"type": "duckdb", "path": str(file_of(lake))}):
        duckdb_file.recover(lake.config.catalog)  # type: ignore[arg-type]

    assert file_of(lake).stat().st_ino == before
    assert numbers(lake) == [1]
    assert not copy.exists()

    file_of(lake).rename(copy)
    duckdb_file.recover(lake.config.catalog)  # type: ignore[arg-type]
    assert copy.exists()


def test_without_space_for_a_copy_the_commits_stay_in_the_log(
    lake: DuckLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fill(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(duckdb_file, "fill", fill)
        insert(lake, 2)
    assert "cannot be copied: No space left on device" in caplog.text
    assert files_of(lake) == {"catalog.duckdb", "catalog.duckdb.lock", "catalog.duckdb.wal"}

    assert numbers(lake) == [1, 2]
    assert files_of(lake) == {"catalog.duckdb", "catalog.duckdb.lock"}


def test_a_copy_that_cannot_replace_the_catalog_is_named(lake: DuckLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    insert(lake, 2, "BEFORE_HEADER")
    monkeypatch.setattr(Path, "replace", refuse)

    with pytest.raises(CatalogError, match=r"Permission denied: let this user write it and .*\.duckdb\.checkpoint"):
        numbers(lake)


def test_a_large_commit_makes_no_checkpoint_of_its_own(lake: DuckLake) -> None:
    with lake.open() as session:
        session.rows(f"CREATE TABLE {session.metadata}.texts (text VARCHAR)")
        before = file_of(lake).read_bytes()[duckdb_file.HEADERS]
        texts = "SELECT repeat(md5(range::VARCHAR), 36) FROM range(20_000)"  # 23 MB, and DuckDB's limit is 16 MiB
        session.rows(f"INSERT INTO {session.metadata}.texts {texts}")
        session.rows(f"INSERT INTO {session.metadata}.texts {texts}")

        assert file_of(lake).read_bytes()[duckdb_file.HEADERS] == before

    assert file_of(lake).read_bytes()[duckdb_file.HEADERS] != before
