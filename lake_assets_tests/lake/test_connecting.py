"""A connection to a lake: every catalog and storage is attached, and read-only refuses every change of it."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import duckdb
import pytest
from click.testing import CliRunner

from dev.servers.postgres import PASSWORD
from lake_assets import connect
from lake_assets.base.errors import CatalogLockedError, ConfigError, NoLakeError
from lake_assets.cli import main
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake import connecting
from lake_assets.lake.connecting import open_confined
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.ingest.encrypted import ENCRYPTED
from lake_assets_tests.until import SECONDS
from lake_assets_tests.world import NW, SW, World


def files(folder: Path) -> dict[str, int]:
    """The files of a lake and their sizes, without those that SQLite's readers make."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def refusal(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    with pytest.raises(duckdb.Error) as error:
        connection.execute(sql)
    return str(error.value)


def test_each_catalog_and_storage_is_attached_with_its_secrets(world: World) -> None:
    world.commit(NW, 1.5, 2)

    with connect(world.config) as connection:
        (totals,) = connection.execute("SELECT sum(total) FROM sales").fetchall()
        named = connection.execute("SELECT count(*) FROM lake.main.sales WHERE region = 'NW'").fetchall()

    assert (totals, named) == ((3.5,), [(2,)])


@pytest.mark.parametrize("world", [("postgres", "s3")], indirect=True)
def test_an_encrypted_lake_is_read_and_no_secret_is_shown(world: World) -> None:
    world.lake_options = ENCRYPTED
    world.commit(NW, 1, 2)
    secret = world.storage["secret"]

    with connect(world.config) as connection:
        rows = connection.sql("SELECT total FROM sales ORDER BY total")
        assert rows.fetchall() == [(1,), (2,)]
        shown = [repr(connection), repr(rows), rows.explain()]
        shown += [str(connection.sql(f"FROM {name}()")) for name in ("duckdb_secrets", "duckdb_databases")]
        shown.append(refusal(connection, "FROM duckdb_secrets(redact => false)"))
        shown.append(refusal(connection, f"FROM 's3://{world.storage['bucket']}/absent.parquet'"))

    assert [text for text in shown if secret in text or PASSWORD in text] == []


@pytest.mark.more
def test_beside_a_connection_to_sqlite_all_work_of_the_process_goes_through_its_sqlite(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two SQLite libraries in a process do not see each other's locks, and damage the file."""
    first = local_world.commit(NW, 1, 2)
    with connect(local_world.config) as connection:
        monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("Python's SQLite opens the catalog"))
        for totals in ((3,), (4, 5)):
            assert local_world.commit(NW, *totals).status == "committed"
            assert connection.execute("SELECT total FROM sales ORDER BY 1").fetchall() == [(one,) for one in totals]
        local_world.commit(SW, 6)
        assert local_world.ingest(NW).row.status == "skipped"
        both = [local_world.partition(NW), local_world.partition(SW)]
        together = ingest_all(local_world.stream, both, local_world.sessions, IngestOptions(force=True))
        assert len({outcome.row.snapshot_id for outcome in together}) == 1  # as beside no connection
        assert first.snapshot_id is not None
        assert (
            Restoration(local_world.stream, local_world.partition(NW), first.snapshot_id, hold=True).run().row
            is not None
        )
        assert connection.execute("SELECT sum(total) FROM sales").fetchall() == [(9,)]
        assert len(history(local_world.stream, local_world.partition(NW))) == 5
        for arguments in (["report"], ["check"], ["plan", "sales", "--waiting"], ["ledger", "sales"]):
            config = ["--config", str(local_world.config_file(tmp_path))]
            result = CliRunner().invoke(main, [*config, *arguments])
            assert result.exit_code == 0, result.output
        local_world.tidy(days=30)
        assert connection.execute("SELECT sum(total) FROM sales").fetchall() == [(9,)]


@pytest.mark.more
def test_threads_read_by_connections_while_the_process_commits(local_world: World) -> None:
    local_world.commit(NW, 1, 2)
    stops, failures, reads = Event(), list[str](), list[int]()

    def read() -> None:
        while not stops.is_set():
            try:
                with connect(local_world.config) as connection:
                    reads.extend(rows for (rows,) in connection.execute("SELECT count(*) FROM sales").fetchall())
            except Exception as error:  # noqa: BLE001 - asserted below
                failures.append(str(error))

    readers = [Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(12):
        local_world.commit(NW, number, number)
    stops.set()
    for reader in readers:
        reader.join()

    assert failures == []
    assert set(reads) == {2}
    with closing(sqlite3.connect(local_world.catalog["path"])) as catalog:
        assert catalog.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def table(local_world: World) -> World:
    """A table of two files, and a file that the next clean-up deletes."""
    local_world.commit(SW, 1)
    for total in (2, 3):
        local_world.commit(NW, total)
    local_world.execute("CALL ducklake_expire_snapshots('lake', older_than => now())")
    return local_world


WRITES = (
    "INSERT INTO lake.sales SELECT * FROM lake.sales",
    "DELETE FROM lake.sales",
    "UPDATE lake.sales SET total = 0",
    "CREATE TABLE lake.copies AS FROM lake.sales",
    "DROP TABLE lake.sales",
    "ALTER TABLE lake.sales ADD COLUMN more INTEGER",
    "INSERT INTO __ducklake_metadata_lake.ducklake_metadata (key, value) VALUES ('a', 'b')",
    "CALL lake.set_option('data_inlining_row_limit', 5)",
    "CALL lake.merge_adjacent_files()",
    *(f"CALL {name}('lake')" for name in connecting._WRITERS),
    "CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
    "CALL ducklake_delete_orphaned_files('lake', cleanup_all => true, dry_run => false)",
    "CALL ducklake_expire_snapshots('lake', older_than => now())",
    "CHECKPOINT lake",
)


def test_read_only_refuses_each_statement_that_writes(table: World, tmp_path: Path) -> None:
    before = files(tmp_path)

    with connect(table.config) as connection:
        texts = [refusal(each, sql) for sql in WRITES for each in (connection, connection.cursor())]
        connection.execute("USE lake")
        texts += [refusal(connection, sql) for sql in WRITES]

    assert [text for text in texts if "read-only" not in text] == []
    assert files(tmp_path) == before
    assert table.totals() == [1, 3]


def test_every_function_of_ducklake_is_hidden_or_only_reads(local_world: World) -> None:
    """A function of a newer DuckLake fails here, until somebody has looked at what it does."""
    reads = {
        *("commit", "current_snapshot", "last_committed_snapshot", "list_files", "options", "scan", "settings"),
        *("snapshots", "table_changes", "table_deletions", "table_info", "table_insertions"),
    }
    with local_world.stream.lake.open(create=True) as lake:
        rows = lake.rows(
            "SELECT function_name, list_distinct(flatten(list(parameters))) FROM duckdb_functions() "
            "WHERE starts_with(function_name, 'ducklake_') GROUP BY ALL"
        )
    named = {name: {text for text in parameters if not text.startswith("col")} for name, parameters in rows}

    assert set(named) - {f"ducklake_{name}" for name in reads} == set(connecting._WRITERS)
    assert set().union(*(named[name] for name in connecting._WRITERS)) <= set(connecting._PARAMETERS)


@pytest.mark.more
def test_a_query_has_tables_of_its_own_in_memory_and_sees_the_commits_before_it(table: World) -> None:
    with connect(table.config) as connection:
        connection.execute("CREATE TEMP TABLE wanted AS SELECT 'NW' AS region")
        assert connection.execute("SELECT total FROM sales SEMI JOIN wanted USING (region)").fetchall() == [(3,)]
        assert connection.execute("SELECT current_database()").fetchall() == [("lake",)]
        table.commit(NW, 7)
        assert connection.execute("SELECT sum(total) FROM sales").fetchall() == [(8,)]


@pytest.fixture
def in_a_file(local_world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    """A table of a lake with its catalog in a DuckDB file, which others wait for only briefly."""
    monkeypatch.setattr("lake_assets.lake.ducklake.ATTACH_PATIENCE", 0.3)
    local_world.catalog = {"type": "duckdb", "path": str(tmp_path / "catalog.duckdb")}
    local_world.commit(NW, 1.5, 2)
    return local_world


def is_free(world: World) -> bool:
    """Whether another process may write the catalog's file."""
    writer = [sys.executable, "-c", "import duckdb, sys; duckdb.connect(sys.argv[1])", world.catalog["path"]]
    ended = subprocess.run(writer, check=False, capture_output=True, text=True)
    assert ended.returncode == 0 or "Could not set lock on file" in ended.stderr, ended.stderr
    return ended.returncode == 0


@pytest.mark.more
def test_the_last_connection_to_a_file_lets_a_writer_in(in_a_file: World) -> None:
    query = "SELECT sum(total) FROM lake.main.sales"
    first, second = connect(in_a_file.config), connect(in_a_file.config)
    cursor = second.cursor()

    first.close()
    assert not is_free(in_a_file)
    with pytest.raises(CatalogLockedError, match=r"a connection of this process keeps the catalog .* open: close it"):
        in_a_file.ingest(NW)
    with pytest.raises(CatalogLockedError):
        connect(in_a_file.config, read_only=False)
    with in_a_file.stream.lake.open(read_only=True) as session:
        assert session.rows(query) == [(3.5,)]
    assert not is_free(in_a_file)
    assert second.execute(query).fetchall() == cursor.execute(query).fetchall() == [(3.5,)]

    del first, second  # the cursor is open
    assert not is_free(in_a_file)
    cursor.close()
    assert is_free(in_a_file)
    in_a_file.commit(NW, 7)
    with connect(in_a_file.config) as connection:
        assert connection.execute(query).fetchall() == [(7,)]


def test_a_confined_query_is_refused_beside_a_connection_to_a_file(in_a_file: World) -> None:
    refused = pytest.raises(CatalogLockedError, match=r"a connection of this process keeps the catalog .* open: close")
    with connect(in_a_file.config) as connection:
        with refused, open_confined(in_a_file.stream.lake):
            pass
        assert connection.execute("SELECT current_setting('lock_configuration')").fetchall() == [(False,)]

    with open_confined(in_a_file.stream.lake) as session:
        assert session.rows("SELECT sum(total) FROM sales") == [(3.5,)]


@pytest.mark.more
def test_threads_connect_to_a_file_and_close_in_any_order(in_a_file: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.lake.ducklake.ATTACH_PATIENCE", SECONDS)

    def read(_: int) -> tuple[object, ...] | None:
        with connect(in_a_file.config) as connection:
            connection.execute("CREATE TEMP TABLE own AS FROM sales")
            return connection.execute("SELECT sum(total), current_setting('threads') > 0 FROM own").fetchone()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert set(pool.map(read, range(8))) == {(3.5, True)}
            assert is_free(in_a_file)


@pytest.mark.more
def test_writable_connections_to_a_file_share_it(in_a_file: World) -> None:
    with connect(in_a_file.config, read_only=False) as first, connect(in_a_file.config, read_only=False) as second:
        first.execute("CREATE TABLE stores AS SELECT 1 AS store_id")
        assert second.execute("FROM stores").fetchall() == [(1,)]
        with pytest.raises(CatalogLockedError), in_a_file.stream.lake.open(read_only=True):
            pass

    assert in_a_file.query("SELECT store_id FROM lake.stores") == [(1,)]


def test_what_cannot_be_connected_to_is_named(local_world: World, tmp_path: Path) -> None:
    document, path = local_world.document, tmp_path / "absent" / "catalog.sqlite"
    document["lakes"]["other"] = document["lakes"]["test"] | {"catalog": {"type": "sqlite", "path": str(path)}}
    document["lakes"]["managed"] = {
        "catalog": {"type": "motherduck", "database": "retail"},
        "staging": str(tmp_path / "staging"),
    }
    document["streams"]["sales"]["lake"] = "test"
    config = LakeConfig.model_validate(document)

    with pytest.raises(ConfigError, match="the config has several lakes: name one of test, other, managed"):
        connect(config)
    with pytest.raises(ConfigError, match="there is no lake 'tset': did you mean test\\?"):
        connect(config, "tset")
    with pytest.raises(NoLakeError, match=r"there is no lake at sqlite:.*absent/catalog\.sqlite yet"):
        connect(config, "other")
    assert not path.parent.exists()
    with pytest.raises(ConfigError, match="attaches retail with the rights of its token, not read-only: pass read_on"):
        connect(config, "managed")
