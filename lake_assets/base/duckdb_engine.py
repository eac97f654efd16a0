"""DuckDB engines with the extensions of the installed wheels, and how far a statement of one is.

The package index has wheels of the extensions for some versions of DuckDB; with these nothing is downloaded at run
time. For another version the extension is taken from DuckDB's own folder (`~/.duckdb/extensions`), and installed there
by DuckDB, from its repository, where it is missing.
"""

import importlib.util
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Literal
from urllib.parse import unquote, urlsplit

import duckdb

from lake_assets.base.errors import CatalogError
from lake_assets.base.events import Count, counting, is_watched

_REPOSITORY = ""  # `FROM …` of INSTALL; empty: the repository of DuckDB's core extensions

# Extension files whose signature DuckDB has verified in this process: path, inode, size, time of the last change.
_verified: set[tuple[Path, int, int, int]] = set()
_LOADERS = {"motherduck"}  # extensions that load another one, which is verified each time
_HINTS = {"motherduck": "Allow access to api.motherduck.com: the extension is fetched from there when it loads."}
_NO_PROGRAMS = (
    "Mount the disk of this file without `noexec`, or pip install duckdb-extension-{name}, whose files are Python's."
)
_LOOKS = 0.2  # seconds between two looks at how far a statement is
_WHOLE = 100  # percent


Engine = Callable[[], duckdb.DuckDBPyConnection]
"""Returns an engine, which it opens at its first call: to load extensions takes a fifth of a second."""


@cache
def _plain_engine() -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    engine.execute("SET GLOBAL TimeZone = 'UTC'")
    engine.execute("SET threads = 1")
    return engine


def expressions() -> duckdb.DuckDBPyConnection:
    """Return a connection for expressions of DuckDB, which reads no file and knows no lake."""
    return _plain_engine().cursor()


def identifier(name: str) -> str:
    """Quote a name for a statement."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return the text as a string literal, for statements without bound parameters (ATTACH, CREATE SECRET)."""
    return "'" + text.replace("'", "''") + "'"


def glob_literal(path: str) -> str:
    """Return the path as a glob that matches only this path, because DuckDB reads every file name as a pattern."""
    return re.sub(r"[\[*?]", lambda m: f"[{m[0]}]", path)


@dataclass(frozen=True, slots=True)
class Extension:
    """The file of an extension for the running DuckDB, and where it comes from."""

    file: Path
    origin: Literal["its wheel", "DuckDB's folder", "DuckDB's repository"]


def find_extension(name: str) -> Extension:
    """Return the extension for the running version of DuckDB.

    It is the file of the wheel `duckdb-extension-…`, if that is of this version; else the file in DuckDB's own folder;
    else DuckDB downloads it there. Raises CatalogError if it cannot.
    """
    if (file := _wheel_file(name)) is not None:
        return Extension(file, "its wheel")
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        if (file := _installed_file(connection, name)) is not None:
            return Extension(file, "DuckDB's folder")
        try:
            connection.execute(f"INSTALL {identifier(name)}{_REPOSITORY}")
        except duckdb.Error as error:
            raise _not_found(name, error) from error
        file = _installed_file(connection, name)
    assert file is not None  # noqa: S101 - DuckDB has installed it
    return Extension(file, "DuckDB's repository")


def _wheel_file(name: str) -> Path | None:
    """Return the file in the extension's wheel, if one of the running DuckDB's version is installed."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    return file if file.is_file() else None


def _installed_file(connection: duckdb.DuckDBPyConnection, name: str) -> Path | None:
    """Return the file in DuckDB's own folder for its version and platform, if it is there."""
    paths = connection.execute(
        "SELECT install_path FROM duckdb_extensions() WHERE extension_name = ? AND installed", [name]
    ).fetchall()
    return Path(paths[0][0]) if paths else None


def _not_found(name: str, error: duckdb.Error) -> CatalogError:
    version = duckdb.__version__
    reason = str(error).split("\n", 1)[0]
    return CatalogError(
        f"there is no extension {name} for DuckDB {version}, neither a wheel nor a file in DuckDB's folder ({reason}):",
        f"pip install 'duckdb-extension-{name.replace('_', '-')}=={version}', or copy ~/.duckdb/extensions/v{version} "
        f"from a machine with a network, on which DuckDB has run INSTALL {name}.",
    )


def _identity(file: Path) -> tuple[Path, int, int, int]:
    status = file.stat()
    return file, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How an engine reaches object stores, and how patient it is."""

    retries: int = 8  # after pauses of `wait` seconds. DuckDB repeats each read that is refused, too.
    wait: float = 0.5
    timeout: float = 60  # seconds until a request without an answer counts as failed
    certificates: str | None = None  # file of the authorities that it trusts, in place of the machine's
    # Its URL, which may have a password; empty for none, and None for that of the environment
    proxy: str | None = field(default=None, repr=False)


def open_engine(
    extensions: Sequence[str], http: HttpLimits = HttpLimits(), shared: str = ""
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory engine with these extensions, which reads no Python variables.

    The open connections of a process with the same name in `shared` are of one engine, which ends with the last of
    them. Without a name, the engine is new.

    It has one thread. Nearly all statements are small queries of a catalog, for each of which DuckLake runs a dozen
    others. With two threads each takes 1.4 times as long, and twice the processor time on a busy machine, because the
    threads wait for each other. Statements of many rows are executed in `all_threads`. A shared engine has all threads:
    DuckDB 1.5.5 may hang if their number changes while another connection executes a statement.

    DuckDB verifies the signature of an extension at each `LOAD`, which takes 0.1 s of processor time a file. Here each
    file is verified once a process, and again if it has changed.
    """
    files = {name: find_extension(name).file for name in extensions}
    # DuckDB refuses a connection to an engine that was opened with other settings.
    known = not shared and all(_identity(file) in _verified for file in files.values())
    connection = duckdb.connect(
        f":memory:{shared}",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "allow_unsigned_extensions": str(known).lower(),
        },
    )
    for name, file in files.items():
        try:
            connection.execute(f"LOAD {literal(str(file))}")
        except duckdb.Error as error:
            fix = _NO_PROGRAMS if os.statvfs(file).f_flag & getattr(os, "ST_NOEXEC", 0) else _HINTS.get(name, "")
            raise CatalogError(f"DuckDB's extension {name} does not load: {error}.", fix.format(name=name)) from error
    if known:
        connection.execute("SET allow_unsigned_extensions = false")  # DuckDB lets nobody turn it on again
    _verified.update(_identity(file) for name, file in files.items() if name not in _LOADERS)
    if "httpfs" in extensions:
        settings = {
            "http_retries": http.retries and http.retries + 1,  # there is no pause before the first
            "http_retry_wait_ms": round(http.wait * 1000),
            "http_retry_backoff": 1,
            "http_timeout": math.ceil(http.timeout),
            "ca_cert_file": literal(http.certificates or ""),
            "enable_server_cert_verification": "true",
        }
        if http.proxy is not None:
            proxy = urlsplit(http.proxy)
            settings |= {
                "http_proxy": literal(proxy.netloc.rpartition("@")[2]),
                "http_proxy_username": literal(unquote(proxy.username or "")),
                "http_proxy_password": literal(unquote(proxy.password or "")),
            }
        for name, value in settings.items():
            connection.execute(f"SET GLOBAL {name} = {value}")  # without GLOBAL, cursors would not have it
    connection.execute("SET TimeZone = 'UTC'")
    if not shared:
        connection.execute("SET threads = 1")
    return connection


@contextmanager
def all_threads(engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run statements that read or write many rows or files on all cores."""
    if engine.execute("SELECT current_setting('threads')").fetchall() != [(1,)]:
        yield  # a shared engine
        return
    engine.execute("RESET threads")
    try:
        yield
    finally:
        with suppress(duckdb.FatalException):  # the statement that broke the engine has raised its error
            engine.execute("SET threads = 1")


def without_cache(engine: duckdb.DuckDBPyConnection) -> None:
    """Let an engine read each file again: DuckDB's cache takes one of the same size and second for the same."""
    engine.execute("SET enable_external_file_cache = false")


def enable_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB estimate how far its statements are; it prints no bar of its own."""
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")


@contextmanager
def counting_percent(connection: duckdb.DuckDBPyConnection, title: str) -> Iterator[None]:
    """Count how many percent of the statement that the block executes are done, if counts are shown.

    A connection whose settings are locked needs `enable_progress` before that.
    """
    if not is_watched():
        yield
        return
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,):
        enable_progress(connection)
    ended = Event()
    with counting(title, "%", _WHOLE) as count:
        thread = Thread(target=_follow, args=(connection, count, ended), name="query-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _follow(connection: duckdb.DuckDBPyConnection, count: Count, ended: Event) -> None:
    done = 0
    while not ended.wait(_LOOKS):
        percent = int(connection.query_progress())  # -1: it cannot say
        if percent > done:
            count.advance(percent - done)
            done = percent
