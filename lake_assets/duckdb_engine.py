"""DuckDB engines with the extensions of the installed wheels.

Nothing is downloaded at run time: `LOAD` reads the extension file of the wheel, and DuckDB's own installation is off.
"""

import importlib.util
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from lake_assets.errors import CatalogError

_TRIES = 6  # of a request to an object store

# Extension files whose signature DuckDB has verified in this process: path, inode, size, time of the last change.
_verified: set[tuple[Path, int, int, int]] = set()
_LOADERS = {"motherduck"}  # extensions that load another one, which is verified each time
_HINTS = {"motherduck": "Allow access to api.motherduck.com: the extension is fetched from there when it loads."}


def identifier(name: str) -> str:
    """Any name, quoted for a statement."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as a string literal, for statements without bound parameters (ATTACH, CREATE SECRET)."""
    return "'" + text.replace("'", "''") + "'"


def glob_literal(path: str) -> str:
    """The path as a glob that matches only this path, because DuckDB reads every file name as a pattern."""
    return re.sub(r"[\[*?]", lambda m: f"[{m[0]}]", path)


def extension_file(name: str) -> Path:
    """The file of an extension in its wheel.

    Raises:
        CatalogError: the wheel is not installed, or is not of the running DuckDB's version.
    """
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    wheel = f"{package.replace('_', '-')}=={duckdb.__version__}"
    if spec is None or spec.origin is None:
        raise CatalogError(f"DuckDB's extension {name} is not installed:", f"pip install '{wheel}'.")
    file = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if not file.is_file():
        raise CatalogError(
            f"DuckDB's extension {name} is not of DuckDB's version {duckdb.__version__}:", f"pip install '{wheel}'."
        )
    return file


def _identity(file: Path) -> tuple[Path, int, int, int]:
    status = file.stat()
    return file, status.st_ino, status.st_size, status.st_mtime_ns


def open_engine(extensions: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """A new in-memory engine with these extensions, which installs nothing and reads no Python variables.

    It has one thread. Nearly all statements are small queries of a catalog, for each of which DuckLake runs a dozen
    others. With two threads each takes 1.4 times as long, and twice the processor time on a busy machine, because the
    threads wait for each other. Statements of many rows are executed in `all_threads`.

    DuckDB verifies the signature of an extension at each `LOAD`, which takes 0.1 s of processor time a file. Here each
    file is verified once a process, and again if it has changed.

    Raises:
        CatalogError: an extension is not installed or does not load.
    """
    files = {name: extension_file(name) for name in extensions}
    known = all(_identity(file) in _verified for file in files.values())
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "allow_unsigned_extensions": str(known).lower(),
        }
    )
    for name, file in files.items():
        try:
            connection.execute(f"LOAD {literal(str(file))}")
        except duckdb.Error as error:
            raise CatalogError(f"DuckDB's extension {name} does not load: {error}.", _HINTS.get(name, "")) from error
    if known:
        connection.execute("SET allow_unsigned_extensions = false")  # DuckDB lets nobody turn it on again
    _verified.update(_identity(file) for name, file in files.items() if name not in _LOADERS)
    if "httpfs" in extensions:
        # DuckDB retries after 0.25, 0.5, 1, 2 and 4 seconds, while a store is unreachable.
        for setting in (f"http_retries = {_TRIES}", "http_retry_wait_ms = 250", "http_retry_backoff = 2"):
            connection.execute(f"SET GLOBAL {setting}")  # without GLOBAL, cursors would not have it
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET threads = 1")
    return connection


@contextmanager
def all_threads(engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run statements that read or write many rows or files on all cores."""
    engine.execute("RESET threads")
    try:
        yield
    finally:
        with suppress(duckdb.FatalException):  # the statement that broke the engine has raised its error
            engine.execute("SET threads = 1")
