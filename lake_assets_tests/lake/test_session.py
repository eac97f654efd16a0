"""The session of a lake: what it creates, what its errors name, and an engine that cannot be used any more."""

from pathlib import Path

import duckdb
import pytest

from lake_assets.base.errors import CatalogError, NoLakeError
from lake_assets_tests.faults.writer import make_table
from lake_assets_tests.world import NW, World, sales

SECRET = "hunter2'\"; DROP"


@pytest.mark.parametrize("world", [("sqlite", "local"), ("duckdb", "local")], indirect=True)
def test_reading_creates_no_lake_and_no_folder(world: World, tmp_path: Path) -> None:
    world.catalog["path"] = str(tmp_path / "typo" / "catalog")

    for read_only in (True, False):
        with (
            pytest.raises(NoLakeError, match=r"there is no lake at \w+:.*ingest a partition first"),
            world.stream.lake.open(read_only=read_only),
        ):
            pytest.fail("opened")
    assert not (tmp_path / "typo").exists()


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


def test_a_file_that_is_no_catalog_is_named_and_an_encrypted_lake_is_refused(local_world: World) -> None:
    file = Path(local_world.catalog["path"])
    file.write_text("this is text")
    local_world.land(NW, sales(1))
    with pytest.raises(CatalogError, match=r"catalog\.sqlite"):
        local_world.ingest(NW)

    file.unlink()
    make_table(local_world)
    local_world.execute("UPDATE __ducklake_metadata_lake.ducklake_metadata SET value = 'true' WHERE key = 'encrypted'")
    with pytest.raises(CatalogError, match="the lake is encrypted"):
        local_world.ingest(NW)


@pytest.mark.parametrize("world", [("duckdb", "local")], indirect=True)
def test_a_lock_that_cannot_be_acquired_is_named(world: World) -> None:
    make_table(world)
    lock = Path(f"{world.catalog['path']}.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()

    with pytest.raises(CatalogError, match=r"catalog\.duckdb\.lock cannot be acquired"), world.stream.lake.open():
        pytest.fail("opened")


def test_an_engine_whose_attach_fails_at_its_end_or_that_an_error_has_invalidated_is_replaced(
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

    with lake.open() as session:
        session.rows("SELECT 1")
        session.engine = lake._engine = Invalidated()  # type: ignore[assignment]
    with lake.open() as session:
        assert session.rows("SELECT 1") == [(1,)]
