"""Advice of errors about a lake: its catalog and locks, the commits into it, and its tables."""

import os
import pkgutil
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pytest

from dev.servers.proxy import S3Proxy
from dev.servers.s3 import S3Server
from lake_assets import connect
from lake_assets.base.duckdb_engine import HttpLimits
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.lake import ducklake
from lake_assets.lake.attach import secret_statements
from lake_assets.lake.backends import database_backend, sqlite
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.backup import make_backup
from lake_assets.lake.commit import insert
from lake_assets.lake.connecting import open_confined
from lake_assets.lake.session import LakeSession
from lake_assets.upkeep.history.restore import Restoration
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.advice.cases import Case, Cases, Steps, command, follow
from lake_assets_tests.advice.landing import parquet
from lake_assets_tests.advice.test_past import compacted, snapshot
from lake_assets_tests.faults.outage import HURRIED, small_disk
from lake_assets_tests.faults.test_disks import fill
from lake_assets_tests.lake.test_checkpoint import tear
from lake_assets_tests.lake.test_locked import held
from lake_assets_tests.rights import only_readable, unprivileged
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

case = Cases()
of_a_server = Cases(pytest.mark.more)  # also cases that take another second


def change(world: World, *statements: str) -> None:
    """Change the lake by statements, as a user does."""
    with connect(world.config, read_only=False) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def just_before(function: str, happening: Callable[[], object]) -> Iterator[None]:
    """Let something happen before the first call of a function, by the place where it is called."""
    called, happenings = pkgutil.resolve_name(function), [happening]

    def late(*arguments: Any, **options: Any) -> object:
        if happenings:
            happenings.pop()()
        return called(*arguments, **options)

    with mock.patch(function, late):
        yield


def other_of(world: World) -> World:
    """The same world, of another process."""
    return replace(world, _opened=None)


def on_duckdb(world: World) -> Path:
    """Give the world a catalog that is a file of DuckDB; returns the file."""
    file = Path(world.catalog["path"]).with_suffix(".duckdb")
    world.catalog = {"type": "duckdb", "path": str(file)}
    return file


# Opening.


@case
def a_version_of_ducklake_that_is_not_installed_is_left_out(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.lake_options = {"attach_options": {"ducklake_version": "1.1"}}
    yield "write 1.0 | leave ducklake_version out"
    local_world.lake_options = {"attach_options": {"ducklake_version": "1.0"}}
    local_world.ingest(NW)
    local_world.lake_options = {}
    return [1]


@case
def the_token_of_motherduck_is_in_the_environment(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.catalog, local_world.storage = (
        {"type": "motherduck", "database": "lake"},
        {"type": "s3", "bucket": "lakes"},
    )
    lake = local_world.config.lakes["test"]
    monkeypatch.delenv("MOTHERDUCK_TOKEN", raising=False)
    yield partial(secret_statements, lake), "set it to a token"
    monkeypatch.setenv("MOTHERDUCK_TOKEN", "abc")
    assert secret_statements(lake)[0] == "SET motherduck_token = 'abc'"
    return None


@case
def an_encrypted_lake_is_configured_as_one(local_world: World) -> Steps:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.commit(SW, 5)
    local_world.lake_options = {}
    local_world.land(NW, sales(1))
    yield "set attach_options: {encrypted: true}"
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    return [1, 5]


@case
def a_catalog_of_an_unknown_specification_is_read_by_a_version_that_knows_it(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(spec, "TESTED", frozenset[str]())
        yield local_world.tidy, "use a version of lake_assets that knows it"
    local_world.tidy()
    return [1]


@case
def a_folder_of_the_lake_is_created(local_world: World, tmp_path: Path) -> Steps:
    local_world.catalog["path"] = str(tmp_path / "above" / "below" / "catalog.sqlite")
    local_world.land(NW, sales(1))
    (tmp_path / "above").mkdir(mode=0o500)
    local_world.lake_options = {"commit_retries": 21}  # or the world copies a lake there
    opened = unprivileged(partial(local_world.ingest, NW))
    yield opened, "ducklake.py: create it | correct `"
    (tmp_path / "above" / "below").mkdir(mode=0o700)
    opened()
    assert local_world.totals() == [1]
    local_world.catalog["path"] = str(tmp_path / "catalog.sqlite")
    opened()
    return [1]


@case
def a_query_is_run_in_a_folder_that_exists(
    local_world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Steps:
    local_world.commit(NW, 1)

    def query() -> None:
        with open_confined(local_world.stream.lake):
            pass

    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    yield query, "run it in a folder that exists"
    monkeypatch.chdir(tmp_path)
    query()
    return [1]


@case
def a_catalog_that_a_connection_keeps_open_is_closed(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    on_duckdb(local_world)
    local_world.commit(NW, 1)
    monkeypatch.setattr(ducklake, "ATTACH_PATIENCE", 0.05)
    connection = connect(local_world.config)
    local_world.land(NW, sales(2))
    yield "close it, and run it again"
    connection.close()
    return [2]


@case
def an_interrupted_checkpoint_is_recovered_by_a_user_who_may_write(local_world: World) -> Steps:
    file = on_duckdb(local_world)
    local_world.commit(NW, 1)
    copy = Path(f"{file}.checkpoint")  # as of a process that died in it
    shutil.copy(file, copy)
    file.chmod(0o400)
    refreshed = unprivileged(partial(local_world.ingest, NW))
    local_world.land(NW, sales(2))
    yield refreshed, "let this user write it and"
    file.chmod(0o600)
    refreshed()
    assert not copy.exists()
    return [2]


@case
def a_torn_catalog_is_restored_by_a_user_who_may_write_or_from_a_backup(local_world: World, tmp_path: Path) -> Steps:
    file = on_duckdb(local_world)
    local_world.commit(NW, 1)
    command(local_world, "catalog", "backup")
    shutil.copy(file, f"{file}.checkpoint")  # as a process does that dies in one
    tear(file)
    read = local_world.stream.partition(NW).read
    with only_readable(tmp_path):
        yield read, "let a user who may write it run `lake-assets report`"
    command(local_world, "report")
    with only_readable(tmp_path):
        assert read().num_rows == 1
    tear(file)
    yield read, "restore a backup by `lake-assets catalog restore --replace`"
    command(local_world, "catalog", "restore", "--replace")
    local_world.land(NW, sales(2))
    local_world.ingest(NW)
    return [2]


@case
def a_catalog_that_this_user_may_not_write_is_made_writable(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    tmp_path.chmod(0o500)  # where SQLite makes a file of its own
    refreshed = unprivileged(partial(local_world.ingest, NW))
    yield refreshed, "let this user read and write that file and its folder"
    tmp_path.chmod(0o700)
    refreshed()
    file = on_duckdb(local_world)
    local_world.ingest(NW)
    file.chmod(0o400)
    yield unprivileged(partial(local_world.ingest, NW, force=True)), "let this user read and write that file"
    file.chmod(0o600)
    unprivileged(partial(local_world.ingest, NW, force=True))()
    return [1]


@case
def a_catalog_that_this_user_may_not_read_is_made_readable(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(NW, 1)
    file = Path(local_world.catalog["path"])
    tmp_path.chmod(0o500)
    file.chmod(0)
    read = unprivileged(local_world.stream.partition(NW).read)
    yield read, "let this user read that file, and enter its folder"
    file.chmod(0o400)
    read()
    tmp_path.chmod(0o700)
    file.chmod(0o600)
    return [1]


@case
def a_catalog_that_changes_while_it_is_copied_is_copied_again(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    backup = partial(make_backup, local_world.config.lakes["test"])
    newest = "lake_assets.lake.catalog.backup._refuse_mixed"
    refuse = pkgutil.resolve_name(newest)

    def mixed(engine: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> None:
        engine.execute(f"DELETE FROM backup.{spec.SNAPSHOT} WHERE snapshot_id > 1")
        refuse(engine, tables)

    with mock.patch(newest, mixed):
        yield backup, "backup.py: run it again"
    backup()
    return [1]


@case
def a_statement_that_a_catalog_refuses_is_corrected(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    read = local_world.stream.partition(NW).read
    yield partial(read, columns=["toatl"]), "correct the statement. `lake-assets doctor`"
    assert read(columns=["total"]).to_pydict() == {"total": [1.0]}
    return [1]


# Locks.


@case
def a_lock_that_this_user_may_not_write_is_made_writable(local_world: World) -> Steps:
    file = Path(f"{local_world.catalog['path']}.lock")
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    file.touch()
    file.chmod(0o400)
    refreshed = unprivileged(partial(local_world.ingest, NW))
    yield refreshed, "let this user write that file"
    file.chmod(0o600)
    refreshed()
    return [1, 5]


@case
def a_folder_that_gets_a_lock_is_made_writable(local_world: World, tmp_path: Path) -> Steps:
    folder = tmp_path / "catalog"
    folder.mkdir()
    local_world.catalog["path"] = str(folder / "catalog.sqlite")
    on_duckdb(local_world)
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    (folder / "catalog.duckdb.lock").unlink()
    folder.chmod(0o500)
    refreshed = unprivileged(partial(local_world.ingest, NW))
    yield refreshed, "its folder if the file does not exist yet"
    folder.chmod(0o700)
    refreshed()
    return [1, 5]


def holders(file: str) -> list[int]:
    """The processes that `fuser` names."""
    found = subprocess.run(["fuser", file], capture_output=True, text=True, check=False)
    return [int(number) for number in found.stdout.split()]


@case
def a_lock_that_another_process_holds_is_free_when_that_has_ended(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    monkeypatch.setattr(database_backend, "TIMEOUT", 0.05)  # seconds
    file = f"{local_world.catalog['path']}.lock"
    with held({"type": "lock", "path": file}) as end:
        yield "see which process holds it (`fuser` on that file)"
        assert holders(file)
        end()
    return [1, 5]


@case
def a_catalog_that_another_process_has_locked_is_free_when_that_has_ended(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    monkeypatch.setattr("lake_assets.lake.backends.sqlite.WRITER_TURN", 0.05)
    monkeypatch.setattr(database_backend, "BUSY", 0.05)
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    with held(local_world.catalog) as end:
        yield "run it again when that one has ended: `fuser` on the catalog's file names it"
        assert holders(local_world.catalog["path"])
        end()
    return [1, 5]


# Servers and disks.


@of_a_server
def a_storage_of_the_lake_that_is_away_is_reached_again(local_world: World, s3_proxy: S3Proxy) -> Steps:
    local_world.source = bucket_on(s3_proxy.s3) | HURRIED
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    query = other_of(local_world).stream.partition(SW).read
    with s3_proxy.down():
        yield query, "run it again when it answers"
    assert query().num_rows == 1
    right, local_world.source = local_world.source, local_world.source | {"endpoint": "http://127.0.0.1:9"}
    yield other_of(local_world).stream.partition(SW).read, " of the storage"
    local_world.source = right
    return [5]


@of_a_server
def a_key_that_may_not_read_the_files_of_the_lake_gets_the_right(
    local_world: World, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    monkeypatch.setattr("lake_assets.lake.ducklake.http_limits", lambda _: HttpLimits(0))
    local_world.source = bucket_on(s3)
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1)
    s3.deny_reading(local_world.source["bucket"], "some/prefix/region=NW/date=2026-02-11/batch_1.parquet")
    local_world.options |= {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE total * 2 <= 0"}}}
    yield other_of(local_world).stream.partition(NW).read, "if it is granted already"
    yield partial(check, other_of(local_world), "positive"), "if it is granted already"
    s3.client().delete_bucket_policy(Bucket=local_world.source["bucket"])
    right, local_world.source = local_world.source, local_world.source | {"secret": "wrong"}
    yield other_of(local_world).stream.partition(NW).read, "correct key_id and secret"
    local_world.source = right
    assert other_of(local_world).stream.partition(NW).read().num_rows == 1
    return [1]


@of_a_server
def a_full_disk_of_the_storage_gets_space(local_world: World, tmp_path: Path) -> Steps:
    local_world.lake_options = {"attach_options": {"encrypted": True}, "staging": str(tmp_path / "staging")}
    with small_disk(tmp_path / "data", "4m") as folder:
        local_world.commit(SW, 5)
        local_world.land(NW, sales(1))
        filler = fill(folder)
        yield "failures.py: free space there | move the storage to a larger disk or quota"
        filler.unlink()
        local_world.ingest(NW)
        assert local_world.totals() == [1, 5]
        shutil.copytree(folder, tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "data", dirs_exist_ok=True)
    local_world.ingest(NW, force=True)
    return [1, 5]


@of_a_server
def a_reader_without_temporary_space_gets_another_folder(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    file = Path(local_world.catalog["path"])
    read = local_world.stream.partition(NW).read
    with (
        only_readable(file.parent),
        small_disk(Path(tempfile.mkdtemp(), "small")) as small,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setattr(tempfile, "tempdir", str(small))
        yield read, "set TMPDIR to another folder, with more space, and run it again"
        environment.setattr(tempfile, "tempdir", None)
        sqlite._folder.cache_clear()  # as in another process
        assert read().num_rows == 1
    return [1]


@of_a_server
def a_full_disk_of_the_catalog_gets_space(local_world: World, tmp_path: Path) -> Steps:
    with small_disk(tmp_path / "catalog", "8m") as folder:
        local_world.catalog["path"] = str(folder / "catalog.sqlite")
        local_world.commit(SW, 5)
        local_world.land(NW, sales(1))
        filler = fill(folder)
        yield "failures.py: free space there | move the catalog to a larger disk or quota"
        filler.unlink()
        local_world.ingest(NW)
        assert local_world.totals() == [1, 5]
        shutil.copy(folder / "catalog.sqlite", tmp_path)
    local_world.catalog["path"] = str(tmp_path / "catalog.sqlite")
    local_world.ingest(NW, force=True)
    return [1, 5]


# Commits.


@case
def columns_that_changed_while_files_were_registered_are_read_when_it_is_run_again(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    alter = partial(change, other_of(local_world), "ALTER TABLE sales ALTER total SET DEFAULT 7")
    with just_before("lake_assets.ingest.index.register.commit", alter):
        yield "direct.py: run it again"
    return [1, 5]


@case
def a_partition_that_was_committed_meanwhile_is_read_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    monkeypatch.setattr("lake_assets.ingest.partition_run.TRIES", 1)
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2), "b.parquet")
    other = other_of(local_world)
    with just_before("lake_assets.ingest.replace.replace_run.commit", partial(other.ingest, NW)):
        yield "change.py: Run it again"
    return [1, 2]


@case
def a_file_that_grew_while_it_was_registered_is_read_when_its_writer_has_finished(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1))
    grow = partial(local_world.land, NW, sales(1, 2))
    with just_before("lake_assets.ingest.index.register.inspect_candidates", grow):
        yield "run it again when its writer has finished"
    return [1, 2]


def slow(world: World) -> None:
    """Ingest NW while maintenance of a day later removes the files that no commit has."""
    with just_before("lake_assets.ingest.replace.replace_run.commit", partial(other_of(world).tidy, days=1)):
        world.ingest(NW)


@case
def an_object_that_vanishes_while_it_is_read_is_left_out_when_it_is_run_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    for name, total in (("a.parquet", 1), ("b.parquet", 2)):
        local_world.land(NW, sales(total), name)
    unland = partial(local_world.unland, NW, "b.parquet")
    with monkeypatch.context() as once, just_before("lake_assets.storage.store.Store.open", unland):
        once.setattr("lake_assets.ingest.partition_run.TRIES", 1)
        yield "storage_errors.py: run it again"
    return [1]


@case
def rows_that_were_not_all_inserted_are_inserted_again(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.land(NW, sales(1))
    statements = insert.insert_statements

    def of_none(*arguments: Any) -> list[tuple[str, Any]]:
        return [(f"{sql} LIMIT 0", values) for sql, values in statements(*arguments)]

    with monkeypatch.context() as fewer:
        fewer.setattr(insert, "insert_statements", of_none)
        yield "insert.py: Run it again"
    return [1]


@case
def files_of_a_slow_run_are_kept_for_longer(local_world: World) -> Steps:
    local_world.lake_options = {"maintenance": {"orphans_older_than": 0.5}}
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    yield partial(slow, local_world), "Set orphans_older_than of the lake's maintenance to more time than a run takes"
    local_world.lake_options = {"maintenance": {"orphans_older_than": 3}}
    slow(local_world)
    return [1, 5]


def restored(world: World, snapshot: int) -> None:
    Restoration(world.stream, world.partition(NW), snapshot).run()


@case
def a_snapshot_that_expires_while_it_is_restored_is_another_one(local_world: World) -> Steps:
    first, second, _ = (snapshot(local_world, total) for total in (1, 2, 3))
    back = partial(restored, local_world)
    expire = f"CALL ducklake_expire_snapshots('lake', versions => [{first}])"
    with just_before("lake_assets.upkeep.history.restore.commit", partial(change, other_of(local_world), expire)):
        yield partial(back, first), "Choose another snapshot"
    back(second)
    return [2]


@case
def a_constraint_of_today_is_dropped_or_other_rows_are_taken(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    change(local_world, "UPDATE sales SET total = NULL")
    second = snapshot(local_world, 2)
    first = second - 1
    snapshot(local_world, 3)
    local_world.execute("ALTER TABLE lake.sales ALTER total SET NOT NULL")
    back = partial(restored, local_world)
    yield partial(back, first), "take rows that have a value there"
    back(second)
    assert local_world.totals() == [2]
    yield partial(back, first), "Drop the constraint by `ALTER TABLE "
    change(local_world, 'ALTER TABLE main.sales ALTER "total" DROP NOT NULL')
    back(first)
    assert local_world.totals() == [None]
    return None


@case
def changes_are_exported_again_when_the_table_has_no_column_of_that_name_or_without_deltas(local_world: World) -> Steps:
    local_world.options = {"deltas": {"to": {"type": "local", "path": local_world.source["path"] + "-deltas"}}}
    local_world.land(NW, pa.table({"id": [0], "total": [1.0], "_change": [1]}))
    yield "remove `deltas` from the stream"
    local_world.options = {}
    return [1]


@case
def consumers_of_a_table_that_was_made_again_begin_anew(local_world: World) -> Steps:
    local_world.options = {"deltas": {"to": {"type": "local", "path": local_world.source["path"] + "-deltas"}}}
    last = local_world.commit(NW, 1).snapshot_id
    assert last is not None
    change(local_world, "DROP TABLE sales")
    yield ", and let each consumer begin at snapshot "
    change(local_world, f"DELETE FROM main.ingest_deltas WHERE stream = 'sales' AND snapshot_id <= {last}")
    local_world.ingest(NW)
    ((snapshot, rows),) = local_world.query("SELECT snapshot_id, rows_inserted FROM lake.ingest_deltas")
    assert (snapshot > last, rows) == (True, 1)
    return [1]


@case
def a_commit_of_another_number_is_looked_at_and_run_again(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Steps:
    local_world.commit(NW, 1, 2)
    change(local_world, "DELETE FROM sales WHERE total = 1")  # so that DuckLake's extension commits
    committed = LakeSession.committed_snapshot
    with monkeypatch.context() as other:
        other.setattr(LakeSession, "committed_snapshot", lambda session: (committed(session) or 0) + 1)
        yield partial(local_world.ingest, NW, force=True), "look at the lake's snapshots, and run the partition again"
    assert local_world.stream.history()
    local_world.ingest(NW, force=True)
    return [1, 2]


@case
def changed_objects_whose_rows_were_deleted_are_moved_away_and_land_under_new_names(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    file = Path(local_world.land(NW, sales(1, 2)))
    local_world.ingest(NW)
    content, times = file.read_bytes(), file.stat()
    change(local_world, "DELETE FROM sales WHERE total = 1")
    local_world.land(NW, sales(3, 4, 5))
    yield partial(repair_indexed, local_world.stream), "restore these objects with their times"
    changed = file.rename(file.with_name("b.parquet")).read_bytes()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert local_world.totals() == [2]
    file.write_bytes(changed)
    Path(file.parent, "b.parquet").unlink()
    attempt = partial(repair_indexed, local_world.stream)
    yield attempt, "move those that changed away | run it again, and land them under new names"
    file.rename(Path(local_world.source["path"]).with_name("away"))
    repair_indexed(local_world.stream)
    local_world.land(NW, sales(3, 4, 5), "b.parquet")
    local_world.ingest(NW)
    return [3, 4, 5]


@case
def a_partitioning_that_the_paths_lack_is_altered(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    change(local_world, "ALTER TABLE sales SET PARTITIONED BY (region, date, id)")
    local_world.land(NW, sales(2))
    yield "` in a client of the lake"
    change(local_world, "ALTER TABLE main.sales SET PARTITIONED BY (region, date)")
    return [2]


@case
def a_partition_that_was_held_meanwhile_is_compacted_after_its_release(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    first = snapshot(local_world, 2)
    change(local_world, *["INSERT INTO sales VALUES (0, 3, 'NW', '2026-02-11')"] * 3)
    other = other_of(local_world)

    def hold() -> None:
        Restoration(other.stream, other.partition(NW), first, hold=True).run()

    yield partial(compacted, local_world, hold), " --release` ends the hold"
    command(local_world, "restore", "sales", "--partition", NW, "--release")
    compacted(local_world)
    return [2]


# What a catalog refuses.

NOT_INLINED = {"attach_options": {"data_inlining_row_limit": 0}}


@case
def a_storage_that_is_not_that_of_the_catalog_is_corrected_or_overrides_it(local_world: World, tmp_path: Path) -> Steps:
    right = local_world.storage
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    local_world.storage = right | {"path": str(tmp_path / "moved")}
    yield "correct `storage`; if the lake's files were moved there"
    local_world.storage = right
    local_world.ingest(NW)
    local_world.storage = right | {"path": str(Path(right["path"]).rename(tmp_path / "moved"))}
    yield partial(local_world.ingest, NW), "set attach_options: {override_data_path: true}"
    local_world.lake_options = {"attach_options": {"override_data_path": True}}
    return [1, 5]


@case
def a_column_with_a_name_of_ducklake_gets_another_name(local_world: World) -> Steps:
    parquet(local_world, total=[1.0], begin_snapshot=[3])
    yield "rename the column where it is written or by `from` in `columns`"
    parquet(local_world, total=[1.0], since=[3])
    local_world.ingest(NW)
    local_world.options = {"columns": {"since": {"from": "begin_snapshot"}}}
    parquet(local_world, total=[1.0], begin_snapshot=[3])
    return [1]


@case
def a_column_with_a_name_of_ducklake_is_not_inlined(local_world: World) -> Steps:
    parquet(local_world, total=[1.0], begin_snapshot=[3])
    yield "so that DuckLake creates no table of inlined rows"
    local_world.lake_options = NOT_INLINED
    return [1]


@of_a_server
def more_columns_than_a_catalog_takes_are_left_out_or_not_inlined(local_world: World) -> Steps:
    many = {f"c{number}": [1] for number in range(2000)}
    local_world.land(NW, pa.table({"total": [1.0]} | many))
    yield "leave columns out by omit: true in `columns`"
    local_world.options = {"columns": {name: {"omit": True} for name in list(many)[:100]}}
    local_world.ingest(NW)
    local_world.options = {"destination": {"table": "other"}}
    yield partial(local_world.ingest, NW), "so that DuckLake creates no table of inlined rows"
    local_world.lake_options = NOT_INLINED
    local_world.ingest(NW)
    return [1]


@case
def the_query_of_a_check_is_corrected(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    local_world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE toatl <= 0"}}}
    yield partial(check, local_world, "positive"), "correct its SQL"
    local_world.options = {"checks": {"sql": {"positive": "SELECT * FROM refreshed WHERE total <= 0"}}}
    assert check(local_world, "positive").passed
    return [1]


# Tables, and what is registered for them as it is.


@case
def a_table_without_a_partition_column_is_partitioned_by_the_others(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    change(local_world, "CREATE TABLE other (id BIGINT, total DOUBLE, region VARCHAR)")
    local_world.options = {"destination": {"table": "other"}}
    local_world.land(NW, sales(1))
    yield partial(local_world.ingest, NW), "correct `partitions` in the config"
    local_world.options |= {"partitions": {"region": {}}}
    local_world.ingest("region=NW")
    assert local_world.query("SELECT total, region FROM lake.other") == [(1.0, "NW")]
    return [5]


@case
def a_file_without_columns_beside_the_partition_gets_one(local_world: World) -> Steps:
    local_world.land(NW, pa.table({"region": ["NW"]}))
    yield "land it with one at least"
    local_world.land(NW, pa.table({"region": ["NW"], "total": [1.0]}))
    return [1]


@case
def a_table_of_another_type_than_the_declared_one_is_another_table(local_world: World) -> Steps:
    local_world.commit(SW, 5)
    local_world.options = {"columns": {"total": {"type": "integer"}}}
    local_world.land(NW, pa.table({"total": pa.array([1], pa.int32())}))
    yield "let the stream fill another table"
    local_world.options |= {"destination": {"table": "other"}}
    local_world.ingest(NW)
    assert local_world.query("SELECT total FROM lake.other") == [(1,)]
    return [5]


@case
def a_type_that_no_lake_holds_is_landed_as_another(local_world: World) -> Steps:
    local_world.land(NW, pa.table({"total": [1.0], "x": pa.array([1], pa.decimal256(50, 0))}))
    yield "let its writer cast it to another"
    local_world.land(NW, pa.table({"total": [1.0], "x": ["1"]}))
    return [1]


def of_day_two(world: World) -> None:
    """A field that has had no value until it is a list."""
    world.options = {"format": "json"}
    world.land(SW, b'{"total": 5.0, "s": {"a": null}}', "a.json")
    world.ingest(SW)
    world.land(NW, b'{"total": 1.0, "s": {"a": [1]}}', "a.json")


@case
def a_field_that_has_its_first_value_in_a_list_is_in_another_table(local_world: World) -> Steps:
    of_day_two(local_world)
    yield "fill another table"
    local_world.options |= {"destination": {"table": "other"}}
    local_world.ingest(NW)
    assert local_world.query("SELECT total, s FROM lake.other") == [(1.0, {"a": [1]})]
    return [5]


@of_a_server
def a_field_that_has_its_first_value_in_a_list_is_a_text(local_world: World) -> Steps:
    of_day_two(local_world)
    yield "make it a text or a struct in a transform"
    text = "SELECT total, named_struct('a', to_json(s.a)) AS s FROM source"
    local_world.options |= {"transform": {"sql": text}}
    local_world.ingest(NW)
    assert local_world.query("SELECT s.a FROM lake.sales WHERE total = 1") == [("[1]",)]
    return [1, 5]


@case
def registered_values_that_are_not_held_are_corrected(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    units = {"at_us": "us", "at_ms": "ms", "at_ns": "ns"}
    right = {"total": [1.0], **{name: pa.array([0], pa.timestamp(unit)) for name, unit in units.items()}}
    local_world.land(SW, pa.table(right | {"total": [5.0]}))
    local_world.ingest(SW)
    beyond = {"at_us": (-(2**63) + 9, "us"), "at_ms": (2**62, "ms"), "at_ns": (2**62, "us")}
    for name, (value, unit) in beyond.items():
        local_world.land(NW, pa.table(right | {name: pa.array([value], pa.timestamp(unit))}))
        yield "correct the value where it is written"
    local_world.land(NW, pa.table(right))
    return [1, 5]


@case
def a_registered_row_without_a_value_is_corrected(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    change(local_world, "ALTER TABLE sales ALTER total SET NOT NULL")
    local_world.land(NW, pa.table({"id": [1], "total": pa.array([None], pa.float64())}))
    yield "correct the row where it is written"
    local_world.land(NW, sales(1))
    return [1, 5]


def land(world: World, text: str, total: float) -> None:
    """Land a row as `lake-assets land` does."""
    with LandingWriter("sales", world.config.streams["sales"]) as writer:
        values = {name: [value] for name, value in world.partition(text).texts().items()}
        writer.write(pa.table({"total": [total]} | values))


@case
def a_partition_column_that_no_reader_sees_is_in_the_file(local_world: World) -> Steps:
    options = local_world.options = {"mode": "index", "layout": "{region}/{date}", "landing": {}}
    land(local_world, NW, 1)
    yield "land the column in the file too (landing: keep_path_columns: true)"
    shutil.rmtree(local_world.source["path"])
    local_world.options = options | {"landing": {"keep_path_columns": True}}
    land(local_world, NW, 1)
    local_world.ingest(NW)
    local_world.options = options | {"destination": {"table": "other"}}
    land(local_world, SW, 5)
    yield partial(local_world.ingest, SW), "file_checker.py: use mode: replace"
    local_world.options |= {"mode": "replace"}
    local_world.ingest(SW)
    assert local_world.query("SELECT total FROM lake.other") == [(5.0,)]
    return [1]


@pytest.mark.parametrize("steps", [*case, *of_a_server])
def test_advice_about_a_lake_that_is_followed_ends_in_the_right_rows(
    steps: Case, request: pytest.FixtureRequest
) -> None:
    follow(steps, request)
