"""`catalog backup` and `restore`: a lost or damaged catalog is made again, and what it lacks is said."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from lake_assets.base.errors import CatalogLockedError
from lake_assets.cli import main
from lake_assets.config.lake import PostgresCatalog
from lake_assets.config.storages import LocalStorage
from lake_assets.lake.backends.postgres import connect_postgres
from lake_assets.lake.catalog.backup import BACKUPS, backups, make_backup, restore_backup
from lake_assets.lake.ducklake import DuckLake
from lake_assets_tests.world import NW, SW, World, sales

ON_S3 = pytest.param(("duckdb", "s3"), marks=pytest.mark.more)
CATALOGS = pytest.mark.parametrize(
    "world", [("sqlite", "local"), pytest.param(("postgres", "local"), marks=pytest.mark.more), ON_S3], indirect=True
)
ON_FILES = pytest.mark.parametrize("world", [("sqlite", "local")], indirect=True)


@pytest.fixture
def command(world: World, tmp_path: Path) -> Callable[..., Result]:
    file = world.config_file(tmp_path)

    def run(*arguments: str, code: int = 0) -> Result:
        world._opened = None
        result = CliRunner().invoke(main, ["--config", str(file), "catalog", *arguments])
        assert result.exit_code == code, result.output
        return result

    return run


def lose(world: World) -> None:
    """Lose the catalog: the tables of PostgreSQL, a part of a SQLite file, the file of DuckDB."""
    world._opened = None
    catalog = world.config.lakes["test"].catalog
    if isinstance(catalog, PostgresCatalog):
        with connect_postgres(catalog) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
    elif world.catalog["type"] == "sqlite":
        file = Path(world.catalog["path"])
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        for suffix in ("-wal", "-shm"):
            Path(f"{file}{suffix}").unlink(missing_ok=True)
    else:
        Path(world.catalog["path"]).unlink()


def everything(world: World) -> tuple[Any, ...]:
    """What a plain client of DuckDB finds: the rows of all snapshots, their ids, the snapshots, the ledger."""
    with world.reader() as client:
        snapshots = client.execute("SELECT snapshot_id, snapshot_time, author FROM lake.snapshots()").fetchall()
        rows = [
            client.execute(f"SELECT rowid, * FROM lake.sales AT (VERSION => {number}) ORDER BY ALL").fetchall()
            for number, *_ in snapshots[-3:]
        ]
        ledger = client.execute("SELECT * FROM lake.ingest_runs ORDER BY ALL").fetchall()
        return snapshots, rows, ledger, client.execute("SELECT * FROM lake.ingest_files ORDER BY ALL").fetchall()


@CATALOGS
def test_a_lost_catalog_is_made_again_as_it_was_and_what_came_after_is_named(
    world: World, command: Callable[..., Result]
) -> None:
    world.commit(NW, 1, 2)
    world.commit(SW, 3)
    world.commit(NW, 4)
    before = everything(world)
    command("backup")
    world.commit(SW, 5)
    lose(world)

    (restored,) = json.loads(command("restore", "--replace", "--format", "json").stdout)

    folders = [uri.rpartition("/")[0].rpartition("sales/")[2] for uri in restored["unknown"]]
    assert (folders, restored["gone"]) == (["region=SW/date=2026-02-11"], [])
    assert everything(world) == before
    assert world.ingest(NW).row.status == "skipped"
    assert world.ingest(SW).row.status == "committed"
    assert world.totals() == [4, 5]
    world.tidy(days=400)
    assert world.totals() == [4, 5]


@pytest.mark.more
@CATALOGS
def test_files_that_maintenance_has_deleted_since_are_named_and_the_other_catalog_is_moved_aside(
    world: World, command: Callable[..., Result]
) -> None:
    world.commit(NW, 1)
    command("backup")
    world.commit(NW, 2)
    world.tidy(days=400)
    before = everything(world)

    assert "--replace moves it aside" in command("restore", code=1).output
    assert everything(world) == before
    output = command("restore", "--replace").output
    assert "1 data file of it that the storage does not have any more" in output
    assert world.ingest(NW, force=True).row.status == "committed"
    assert world.totals() == [2]
    catalog = world.config.lakes["test"].catalog
    if isinstance(catalog, PostgresCatalog):
        with connect_postgres(catalog) as connection:
            ((schema,),) = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lake_before%'")
        world.lake_options = {"attach_options": {"metadata_schema": schema}}
    else:
        (world.catalog["path"],) = (str(file) for file in Path(world.catalog["path"]).parent.glob("*.before_*Z"))
    assert everything(world) == before


@ON_FILES
def test_a_catalog_in_use_is_not_replaced_nor_by_a_damaged_backup(
    world: World, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.commit(NW, 1)
    lake = world.config.lakes["test"]
    backup = make_backup(lake)

    def locked(*_: object, **__: object) -> None:
        raise CatalogLockedError("the catalog is locked:", "wait.")

    with monkeypatch.context() as patched:
        patched.setattr(DuckLake, "_session", locked)
        with pytest.raises(CatalogLockedError):
            restore_backup(lake, backup, replace=True)
    assert world.totals() == [1]

    (file,) = Path(world.storage["path"], BACKUPS).glob("*.duckdb")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert "its checksum differs" in command("restore", "--replace", code=1).output
    assert world.totals() == [1]


@pytest.mark.more
@ON_FILES
def test_files_that_were_written_before_the_backup_and_committed_after_it_are_named(
    world: World, command: Callable[..., Result]
) -> None:
    world.commit(NW, 1)
    world.commit(SW, 2)
    (new,) = (file for file in world.live_files() if "region=SW" in file)
    world.execute("DELETE FROM lake.sales WHERE region = 'SW'")
    with world.stream.lake.open() as lake:  # as before the commit of SW, whose job has written the file
        lake.rows(f"DELETE FROM {lake.metadata}.ducklake_data_file WHERE path LIKE '%region=SW%'")
    os.utime(new, (time.time() - 3600,) * 2)
    command("backup")

    (restored,) = json.loads(command("restore", "--replace", "--format", "json").stdout)

    assert new in restored["unknown"]


@pytest.mark.more
@CATALOGS
def test_a_backup_beside_commits_is_of_one_snapshot(world: World) -> None:
    world.commit(NW, 0)
    lake, ends = world.config.lakes["test"], threading.Event()
    other = World(world.catalog, world.storage, world.source, world.sessions)

    def write() -> None:
        total = 0
        while not ends.is_set():
            total += 1
            other.commit(NW, total)

    writer = threading.Thread(target=write)
    writer.start()
    made = [make_backup(lake) for _ in range(3)]
    ends.set()
    writer.join()

    assert made[0].snapshot <= made[1].snapshot <= made[2].snapshot
    assert {backup.name for backup in backups(lake)} == {backup.name for backup in made}


@pytest.mark.more
@ON_FILES
def test_the_oldest_backups_are_deleted(world: World, command: Callable[..., Result], tmp_path: Path) -> None:
    for total in (1, 2, 3):
        world.commit(NW, total)
        command("backup", "--to", str(tmp_path / "elsewhere"), "--keep", "2")

    names = [line.split(",")[0] for line in command("backups", "--to", str(tmp_path / "elsewhere")).output.splitlines()]

    assert len(names) == 2
    assert len(list((tmp_path / "elsewhere" / BACKUPS).iterdir())) == 4
    assert command("backups").output == "test: no backup\n"


def test_lakes_with_one_folder_of_backups_have_each_their_own(local_world: World, tmp_path: Path) -> None:
    other = World.in_folder(tmp_path / "other", local_world.sessions)
    for world in (local_world, other):
        world.commit(NW, 1)
    of_both = [world.config.lakes["test"] for world in (local_world, other)]
    to = LocalStorage(path=str(tmp_path / "elsewhere"))

    made = [make_backup(lake, to, keep=1) for lake in of_both]

    assert [backups(lake, to) for lake in of_both] == [[backup] for backup in made]
    for world, backup in zip((local_world, other), made, strict=True):
        restore_backup(world.config.lakes["test"], backup, to, replace=True)
        assert world.totals() == [1]


@ON_FILES
def test_the_keys_of_an_encrypted_lake_are_not_written_beside_its_files(
    world: World, command: Callable[..., Result], tmp_path: Path
) -> None:
    world.lake_options = {"attach_options": {"encrypted": True}}
    world.config_file(tmp_path)
    world.commit(NW, 1)

    assert "give a folder elsewhere with --to" in command("backup", code=1).output

    command("backup", "--to", str(tmp_path / "safe"))
    lose(world)
    output = command("restore", "--replace", "--to", str(tmp_path / "safe")).output
    assert "The storage has its data files, and no newer ones." in output
    assert world.totals() == [1]


@CATALOGS
def test_what_has_no_landed_objects_any_more_is_adopted_from_its_files(
    world: World, command: Callable[..., Result]
) -> None:
    rows = "SELECT count(*), bit_xor(hash(s)) FROM lake.sales s"
    world.commit(NW, 1)
    command("backup")
    world.commit(NW, 2, 3)
    world.commit(SW, 4)
    time.sleep(1.1 if world.storage["type"] == "s3" else 0)  # whose times are whole seconds
    world.commit(SW, 5, 6, 7)
    world.unland(SW)
    before, files = world.query(rows), {file for file in world.live_files() if "region=SW" in file}
    lose(world)
    command("restore", "--replace")

    shown = command("rebuild").output
    assert "region=SW/date=2026-02-11: 1 file until" in shown
    assert f"Read the landed objects again: lake-assets ingest sales --partition {NW}\n" in shown
    assert world.totals() == [1]
    adopted = json.loads(command("rebuild", "--adopt", "--format", "json").stdout)

    (sw,) = (each for each in adopted if each["action"] == "adopt")
    assert (set(sw["files"]), sw["rows"], sw["error"]) == (files, 3, None)
    assert world.totals() == [1, 5, 6, 7]
    assert world.ingest(NW).row.status == "committed"
    assert world.query(rows) == before
    assert command("rebuild").output == "sales: the catalog has all files that are newer than its rows\n"
    world.tidy(days=400)
    assert world.query(rows) == before


@pytest.mark.more
@ON_FILES
def test_files_of_several_jobs_at_the_same_time_and_files_of_a_run_before_the_rows_are_not_adopted(
    world: World, command: Callable[..., Result]
) -> None:
    world.commit(NW, 1)
    command("backup")
    for totals in ((2,), (3,)):
        world.commit(NW, *totals)
    world.unland(NW)
    command("restore", "--replace")
    keys, past = world.data_files(), time.time() - 60
    for key in keys:
        os.utime(Path(world.storage["path"], key), (past, past))

    assert "several jobs wrote files at the same time" in command("rebuild", "--adopt", code=1).output
    assert world.totals() == [1]
    (live,) = world.live_files()
    os.utime(live)
    assert len(keys) > 2
    assert "has all files that are newer" in command("rebuild", "--adopt").output


@ON_FILES
def test_files_of_other_columns_are_not_adopted(world: World, command: Callable[..., Result]) -> None:
    world.commit(NW, 1)
    command("backup")
    world.execute("ALTER TABLE lake.sales ADD COLUMN note VARCHAR")
    world.land(SW, sales(2).append_column("note", pa.array(["a"])))
    world.ingest(SW)
    world.unland(SW)
    command("restore", "--replace")

    refused = command("rebuild", "--adopt", code=1)

    assert "do not have the same columns: note" in refused.output
    assert world.totals() == [1]
    world.options = {"mode": "append"}
    world.config_file(Path(world.catalog["path"]).parent)
    assert "it is not of mode replace" in command("rebuild", code=1).output
