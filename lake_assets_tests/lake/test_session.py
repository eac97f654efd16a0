from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from dev.servers.postgres import PostgresServer
from lake_assets.errors import CatalogError, NoLakeError
from lake_assets.lake.commit import strategy as commit_module
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.writer import make_table, write
from lake_assets_tests.world import NW, SW, World, sales

SECRET = "hunter2'\"; DROP"


def test_reading_does_not_create_a_lake(local_world: World) -> None:
    lake = local_world.stream.lake
    with pytest.raises(NoLakeError, match=r"there is no lake at sqlite:.*ingest a partition first"), lake.open():
        pytest.fail("opened")
    assert not Path(local_world.catalog["path"]).exists()


def test_an_unreachable_catalog_is_named_without_its_password(local_world: World) -> None:
    local_world.catalog = {
        "type": "postgres", "host": "127.0.0.1", "port": 9, "user": "me", "database": "lake", "password": SECRET,
    }  # fmt: skip
    local_world.land(NW, sales(1))

    with pytest.raises(CatalogError, match=r"postgres://127\.0\.0\.1:9/lake") as raised:
        local_world.ingest(NW)

    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "No ledger row could be written" in raised.value.__notes__[0]


def test_a_file_that_is_no_catalog_is_named(local_world: World) -> None:
    Path(local_world.catalog["path"]).write_text("this is text")
    local_world.land(NW, sales(1))

    with pytest.raises(CatalogError, match=r"catalog\.sqlite"):
        local_world.ingest(NW)


def test_an_encrypted_lake_is_refused(local_world: World) -> None:
    make_table(local_world)
    with local_world.stream.lake.open() as lake:
        lake.rows("UPDATE __ducklake_metadata_lake.ducklake_metadata SET value = 'true' WHERE key = 'encrypted'")
    local_world.land(NW, sales(1))

    with pytest.raises(CatalogError, match="the lake is encrypted"):
        local_world.ingest(NW)


def test_a_read_only_lake_refuses_to_write(local_world: World) -> None:
    make_table(local_world)
    with local_world.stream.lake.open(read_only=True) as lake, pytest.raises(CatalogError, match="read-only"):
        lake.rows("DELETE FROM lake.sales")


def test_a_failed_statement_rolls_back_the_transaction(local_world: World) -> None:
    make_table(local_world)
    write(local_world, NW)
    with local_world.stream.lake.open() as lake:
        with pytest.raises(CatalogError, match="nope"):
            delete_and_fail(lake)
        assert len(lake.rows("FROM lake.sales")) == 3


@pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
def test_the_error_of_a_lost_connection_is_raised_and_the_next_session_works(
    world: World, postgres: PostgresServer
) -> None:
    make_table(world)

    with pytest.raises(CatalogError, match="postgres://") as raised:
        delete_and_lose(world, postgres)

    assert "ROLLBACK" not in str(raised.value)
    assert write(world, NW).rows_before == 0


@pytest.mark.parametrize("world", [("duckdb", "local")], indirect=True)
def test_a_lock_that_cannot_be_acquired_is_named(world: World) -> None:
    make_table(world)
    lock = Path(f"{world.catalog['path']}.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()

    with pytest.raises(CatalogError, match=r"catalog\.duckdb\.lock cannot be acquired"), world.stream.lake.open():
        pytest.fail("opened")


@pytest.mark.parametrize("world", [("duckdb", "local")], indirect=True)
def test_opening_an_absent_lake_creates_no_folder(world: World, tmp_path: Path) -> None:
    world.catalog = {"type": "duckdb", "path": str(tmp_path / "typo" / "catalog.duckdb")}

    with pytest.raises(NoLakeError), world.stream.lake.open(read_only=True):
        pytest.fail("opened")

    assert not (tmp_path / "typo").exists()


def delete_and_lose(world: World, postgres: PostgresServer) -> None:
    with world.stream.lake.open() as lake, lake.transaction():
        lake.rows("DELETE FROM lake.sales")
        postgres.end_sessions(world.catalog["database"])
        lake.rows("SELECT count(*) FROM lake.ingest_runs")


def delete_and_fail(lake: LakeSession) -> None:
    with lake.transaction():
        lake.rows("DELETE FROM lake.sales")
        lake.rows("SELECT nope FROM lake.sales")


def test_a_commit_whose_answer_was_lost_is_not_repeated(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is committed, the client sees a conflict, and the retry must find its own row."""
    make_table(local_world)
    replace: Callable[..., list[LedgerRow]] = commit_module._first_able
    calls: list[LedgerRow] = []

    def lost(*arguments: object) -> object:
        calls.extend(replace(*arguments))
        raise CatalogError("the answer was lost:") from failure

    failure = duckdb.TransactionException("Failed to commit: database is locked")
    monkeypatch.setattr(commit_module, "_first_able", lost)

    row = write(local_world, NW, retries=2)

    assert calls == [row]
    assert len(local_world.totals()) == 3
    assert len(local_world.ledger()) == 1


def test_the_ledger_names_the_snapshot_when_others_commit_in_between(local_world: World) -> None:
    make_table(local_world)
    first = write(local_world, NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("CREATE TABLE lake.other (a INTEGER)")
    second = write(local_world, SW)

    assert second.snapshot_id == (first.snapshot_id or 0) + 2
    rows = local_world.query(
        "SELECT r.run_id, s.snapshot_id FROM lake.snapshots() s "
        "JOIN lake.ingest_runs r ON s.commit_message LIKE '%' || r.run_id"
    )
    assert dict(rows) == {row.run_id: row.snapshot_id for row in (first, second)}


def test_one_object_opens_many_sessions(local_world: World) -> None:
    make_table(local_world)
    lake = DuckLake(local_world.config.lakes["test"])
    for _ in range(3):
        with lake.open() as session:
            assert session.rows("SELECT count(*) FROM lake.sales") == [(0,)]


def test_an_attach_that_fails_at_its_end_leaves_no_lake_attached(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DuckDB does when the connection to PostgreSQL is lost at that moment."""
    make_table(local_world)
    lake = local_world.stream.lake
    attach = lake._execute_attach

    def attach_and_fail(engine: duckdb.DuckDBPyConnection, statement: str) -> None:
        attach(engine, statement)
        raise duckdb.IOException("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(lake, "_execute_attach", attach_and_fail)
        with pytest.raises(CatalogError), lake.open() as session:
            session.rows("SELECT 1")

    with lake.open() as session:
        assert session.rows("SELECT 1") == [(1,)]


class Invalidated:
    """A DuckDB that refuses everything after an error within it, as one of a lost connection may be."""

    def execute(self, *_: object) -> None:
        raise duckdb.FatalException("database has been invalidated because of a previous fatal error")


def test_an_engine_that_an_error_has_invalidated_is_replaced(local_world: World) -> None:
    make_table(local_world)
    lake = local_world.stream.lake

    with lake.open() as session:
        session.rows("SELECT 1")
        session.engine = lake._engine = Invalidated()  # type: ignore[assignment]

    with lake.open() as session:
        assert session.rows("SELECT 1") == [(1,)]
