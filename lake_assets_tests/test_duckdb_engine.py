from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from lake_assets.duckdb_engine import all_threads, open_engine
from lake_assets.errors import CatalogError


@pytest.fixture
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_engine(()) as connection:
        yield connection


def threads(engine: duckdb.DuckDBPyConnection) -> int:
    ((count,),) = engine.execute("SELECT current_setting('threads')").fetchall()
    return int(count)


def test_small_statements_have_one_thread_and_those_of_many_rows_every_core(engine: duckdb.DuckDBPyConnection) -> None:
    with duckdb.connect() as plain:
        every = threads(plain)
    assert threads(engine) == 1
    with all_threads(engine):
        assert threads(engine) == every
    assert threads(engine) == 1


def test_a_statement_that_fails_leaves_one_thread(engine: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.BinderException, match="nowhere"), all_threads(engine):
        engine.execute("SELECT nowhere")
    assert threads(engine) == 1


def test_a_cursor_is_as_patient_with_a_store_as_its_connection() -> None:
    asked = "SELECT current_setting('http_retries'), current_setting('http_retry_wait_ms')"
    with open_engine(("httpfs",)) as connection, connection.cursor() as cursor:
        assert cursor.execute(asked).fetchall() == connection.execute(asked).fetchall() == [(6, 250)]


def test_an_extension_that_does_not_load_is_named_with_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "motherduck.duckdb_extension"
    file.write_bytes(b"none")
    monkeypatch.setattr("lake_assets.duckdb_engine.extension_file", lambda _: file)

    told = r"extension motherduck does not load: .*Allow access to api\.motherduck\.com"
    with pytest.raises(CatalogError, match=rf"(?s){told}"):
        open_engine(("motherduck",))
