import gzip
import os
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import duckdb
import pytest

from lake_assets.base.duckdb_engine import Extension, all_threads, find_extension, open_engine
from lake_assets.base.errors import CatalogError


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
    with pytest.raises(duckdb.BinderException, match="nowhere"), all_threads(engine):
        engine.execute("SELECT nowhere")
    assert threads(engine) == 1


def test_a_cursor_is_as_patient_with_a_store_as_its_connection() -> None:
    asked = "SELECT current_setting('http_retries'), current_setting('http_retry_wait_ms')"
    with open_engine(("httpfs",)) as connection, connection.cursor() as cursor:
        assert cursor.execute(asked).fetchall() == connection.execute(asked).fetchall() == [(9, 500)]


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of an extension's file, which the engine takes instead of the installed one."""
    copy = Path(shutil.copy(find_extension("sqlite_scanner").file, tmp_path))
    monkeypatch.setattr("lake_assets.base.duckdb_engine.find_extension", lambda _: Extension(copy, "its wheel"))
    return copy


def spoil_signature(file: Path) -> None:
    """Change the last bytes of the file, which are its signature: DuckDB loads it where it does not verify it."""
    with file.open("r+b") as content:
        content.seek(-10, os.SEEK_END)
        content.write(b"0123456789")


def test_an_extension_is_verified_once_a_process_and_again_when_it_has_changed(extension: Path) -> None:
    open_engine(("sqlite_scanner",)).close()
    before = extension.stat()
    spoil_signature(extension)
    os.utime(extension, ns=(before.st_atime_ns, before.st_mtime_ns))
    open_engine(("sqlite_scanner",)).close()

    extension.touch()
    with pytest.raises(CatalogError, match="signature"):
        open_engine(("sqlite_scanner",))


def test_nobody_can_load_another_extension_that_is_not_signed(extension: Path, tmp_path: Path) -> None:
    open_engine(("sqlite_scanner",)).close()
    other = Path(shutil.copy(extension, tmp_path / "other.duckdb_extension"))
    spoil_signature(other)

    with open_engine(("sqlite_scanner",)) as engine:
        with pytest.raises(duckdb.IOException, match="signature"):
            engine.execute(f"LOAD '{other}'")
        with pytest.raises(duckdb.InvalidInputException, match="while database is running"):
            engine.execute("SET allow_unsigned_extensions = true")


def test_an_extension_that_does_not_load_is_named_with_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "motherduck.duckdb_extension"
    file.write_bytes(b"none")
    monkeypatch.setattr("lake_assets.base.duckdb_engine.find_extension", lambda _: Extension(file, "its wheel"))

    message = r"extension motherduck does not load: .*Allow access to api\.motherduck\.com"
    with pytest.raises(CatalogError, match=rf"(?s){message}"):
        open_engine(("motherduck",))


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A new home folder, and no wheel of an extension that fits the running DuckDB."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("lake_assets.base.duckdb_engine._wheel_file", lambda _: None)
    return tmp_path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """DuckDB's repository of extensions, as a web server of this test; returns its folder of this version."""
    wheel = find_extension("sqlite_scanner").file
    with duckdb.connect() as plain:
        ((platform,),) = plain.execute("PRAGMA platform").fetchall()
    folder = tmp_path / "repository" / f"v{duckdb.__version__}" / platform
    folder.mkdir(parents=True)
    with gzip.open(folder / "sqlite_scanner.duckdb_extension.gz", "wb", compresslevel=1) as packed:
        packed.write(wheel.read_bytes())
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "repository"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        monkeypatch.setattr(
            "lake_assets.base.duckdb_engine._REPOSITORY", f" FROM 'http://127.0.0.1:{server.server_port}'"
        )
        yield folder
        server.shutdown()


@pytest.mark.more
def test_without_a_fitting_wheel_duckdb_installs_an_extension_once_into_its_own_folder(
    repository: Path, home: Path
) -> None:
    first = find_extension("sqlite_scanner")
    shutil.rmtree(repository)
    second = find_extension("sqlite_scanner")

    assert (first.origin, second.origin) == ("DuckDB's repository", "DuckDB's folder")
    assert first.file == second.file
    assert first.file.is_relative_to(home / ".duckdb" / "extensions" / f"v{duckdb.__version__}")
    with open_engine(("sqlite_scanner",)) as engine:
        engine.execute(f"ATTACH '{home}/new.sqlite' AS s (TYPE sqlite)")


@pytest.mark.usefixtures("home")
def test_without_wheel_folder_and_network_the_error_says_where_each_way_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.base.duckdb_engine._REPOSITORY", " FROM 'http://127.0.0.1:1'")

    with pytest.raises(CatalogError) as raised:
        open_engine(("sqlite_scanner",))

    assert f"no extension sqlite_scanner for DuckDB {duckdb.__version__}" in raised.value.problem
    assert "http://127.0.0.1:1" in raised.value.problem
    assert f"pip install 'duckdb-extension-sqlite-scanner=={duckdb.__version__}'" in raised.value.hint
    assert f"~/.duckdb/extensions/v{duckdb.__version__}" in raised.value.hint
