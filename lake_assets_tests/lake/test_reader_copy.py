"""Readers leave nothing behind, and need no right to write: also while others commit, and beside the log of a process
that has died."""

import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from dev.servers.absent import absent
from lake_assets import connect
from lake_assets.base.errors import CatalogError, CatalogLockedError
from lake_assets.lake.backends import catalog_backend, database_backend, sqlite
from lake_assets_tests.lake.test_locked import HOLDS, held
from lake_assets_tests.lake.worlds import EACH_CATALOG
from lake_assets_tests.rights import COMMAND, READS, contents, only_readable, reads_all
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

OPENED = "import sqlite3; c = sqlite3.connect(sys.argv[1]); c"


@pytest.fixture
def in_one_folder(world: World) -> World:
    """A lake with all that belongs to it below one folder, but a server's catalog."""
    world.commit(NW, 1)
    world.commit(NW, 2)
    world.land(SW, sales(3))
    return world


@EACH_CATALOG
@pytest.mark.parametrize("may_write", [False, *more([True])])
def test_commands_that_read_leave_nothing_behind(
    in_one_folder: World, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, *, may_write: bool
) -> None:
    config = in_one_folder.config_file(tmp_path_factory.mktemp("config"))
    expected = reads_all(config)
    assert "2" in expected["query"]
    for lock in tmp_path.glob("*.lock*"):
        lock.unlink()
    before = contents(tmp_path)

    with nullcontext() if may_write else only_readable(tmp_path):
        assert reads_all(config) == expected
    assert contents(tmp_path) == before


@pytest.fixture
def copied(local_world: World) -> World:
    """A lake on SQLite whose catalog this thread reads by copies."""
    local_world.commit(NW, 1)
    return local_world


def total(path: Path) -> float:
    """The rows of all tables of a copy that no other process opens; raises if SQLite finds it damaged."""
    with closing(sqlite3.connect(path)) as catalog:
        assert catalog.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ((numbers, last),) = catalog.execute("SELECT count(*), coalesce(max(number), 0) FROM numbers").fetchall()
    assert numbers == last  # of one state
    return float(numbers)


WRITER = """
import select, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE numbers (number INTEGER, text TEXT)")
connection.close()
print("begun", flush=True)
number = 0
while number < int(sys.argv[2]) or not select.select([sys.stdin], [], [], 0)[0]:  # until the test closes it
    number += 1
    if number % 7 == 1:  # the last one that closes the file removes the log
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint = 5")
    connection.execute("INSERT INTO numbers VALUES (?, ?)", [number, "x" * (number % 11) * 1000])
    if number % 7 == 0:
        connection.close()
print(number, flush=True)
"""
COMMITS, STATES = 1500, 10  # at least


def test_a_copy_has_one_state_while_another_process_commits_and_moves_the_log(
    local_world: World, tmp_path: Path
) -> None:
    file, seen = Path(local_world.catalog["path"]), list[float]()
    command = [sys.executable, "-c", WRITER, str(file), str(COMMITS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        assert writer.stdin is not None
        while writer.poll() is None:
            sqlite._copy_file(file, tmp_path / "copy")
            seen.append(total(tmp_path / "copy"))
            if len(set(seen)) >= STATES:
                writer.stdin.close()
        written = writer.stdout.read()
        assert writer.returncode == 0
    sqlite._copy_file(file, tmp_path / "copy")

    assert total(tmp_path / "copy") == int(written) >= COMMITS
    assert seen == sorted(seen)


@pytest.mark.parametrize("shared", [True, False])
def test_commits_in_the_log_of_a_process_that_died_are_read(
    copied: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    """As in a snapshot of its disk, also without the file that its users share."""
    file, away = Path(copied.catalog["path"]), tmp_path / "away"
    away.mkdir()
    monkeypatch.setitem(HOLDS, "sqlite", f"{OPENED}.execute('SELECT 1 FROM sqlite_master')")
    with held(copied.catalog):  # so the log stays
        copied.commit(NW, 2, 3)
        for each in file.parent.glob(f"{file.name}*"):
            shutil.copy(each, away)
    assert (away / f"{file.name}-wal").stat().st_size
    if not shared:
        (away / f"{file.name}-shm").unlink()
    copied.catalog = copied.catalog | {"path": str(away / file.name)}
    before = contents(away)

    with only_readable(away), connect(copied.config) as lake:
        assert lake.execute("SELECT sum(total) FROM sales").fetchall() == [(5,)]

    assert contents(away) == before


def test_a_session_that_stays_open_keeps_reading_while_others_copy(copied: World, tmp_path: Path) -> None:
    with only_readable(tmp_path), connect(copied.config) as lake:
        first = lake.execute("SELECT sum(total) FROM sales").fetchall()
    copied.commit(NW, 2)
    with only_readable(tmp_path), connect(copied.config) as lake:
        assert first == [(1,)]
        assert lake.execute("SELECT sum(total) FROM sales").fetchall() == [(2,)]
        assert copied.stream.partition(NW).read().num_rows == 1


def test_a_catalog_that_stays_locked_raises_a_passing_error(copied: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_backend, "BUSY", 0.1)
    alone = "c.execute('PRAGMA locking_mode = EXCLUSIVE'); c.execute('BEGIN IMMEDIATE')"
    monkeypatch.setitem(HOLDS, "sqlite", f"{OPENED}; {alone}")
    file = Path(copied.catalog["path"])
    with (
        held(copied.catalog),
        only_readable(file.parent),
        pytest.raises(CatalogLockedError, match=r"catalog\.sqlite was locked for 0.1 seconds: run it again"),
    ):
        catalog_backend(copied.config.lakes["test"]).for_reader()


@pytest.mark.more
@EACH_CATALOG
def test_a_read_only_mount_is_read(
    in_one_folder: World, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = in_one_folder.config_file(tmp_path_factory.mktemp("config"))
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    if subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, check=False).returncode:
        absent("no mounts of one's own: `unshare --mount` fails")
    before = contents(tmp_path)
    program = f"{shlex.join(COMMAND)} --config {config}"
    commands = " && ".join(f"{program} {shlex.join(arguments)}" for arguments in READS.values())
    script = f"{mount} && ! touch {tmp_path}/file && {commands}"

    ended = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path) == before


def test_a_damaged_catalog_is_named(copied: World, tmp_path: Path) -> None:
    Path(copied.catalog["path"]).write_bytes(b"not a database, but long enough to be taken for one" * 100)

    with only_readable(tmp_path), pytest.raises(CatalogError, match=r"catalog\.sqlite says: file is not a database"):
        connect(copied.config)
