"""The checks of `lake-assets doctor`: the machine, and everything that the config names.

Only few files are written, and removed at once: one in the cache folder, and one below each storage of a lake and of
exported changes.
"""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Literal, ParamSpec

import duckdb
from packaging.requirements import Requirement

from lake_assets.base.duckdb_engine import find_extension, open_engine
from lake_assets.base.errors import LakeAssetsError, NoLakeError, SourceChangedError, StorageError, install
from lake_assets.base.json_dataclasses import Documented
from lake_assets.base.machine import cache_folder, usable_memory
from lake_assets.base.texts import count
from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import without_parameters
from lake_assets.config.storages import AnyStorage
from lake_assets.lake.attach import extensions
from lake_assets.lake.backends import catalog_backend, commit_lock
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.backup import missing_indexes
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.read import read_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.spark.cluster import prepare_workers, remote_url
from lake_assets.spark.jvm import CORRECT_JAVA_HOME, find_java
from lake_assets.spark.spark_errors import spark_errors
from lake_assets.spark.spark_session import own_session, spark_config
from lake_assets.storage.patience import quick
from lake_assets.storage.store import Store
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.load import CONFIG_VARIABLE, DEFAULT_FILE, is_of_variables, load_config
from lake_assets.streams.stream import OpenStream, open_streams

FindingStatus = Literal["ok", "warning", "failed"]

DISTRIBUTION = "lake-assets"
EXTENSIONS = ("ducklake", "sqlite_scanner", "httpfs", "postgres_scanner")
EXTRAS = {"demo": "the demo", "ui": "Dagster's web page", "postgres": "catalogs in PostgreSQL"}
MANY_FILES = 10_000  # of a catalog, above which its look-ups take several times as long without indexes
CLUSTER_SECONDS = 60.0  # for a small job on a cluster
LOCK_PATIENCE = 5.0  # seconds to wait for the commit of another process
STORE_PATIENCE = 10.0  # seconds to wait for each answer of a storage, without retries
LIMIT = 30.0  # seconds of a check of what the config names
DISK_NEEDED = 500 * 10**6  # bytes, for Spark's scratch files and a partition's new files
DISK_WANTED = 5 * 10**9
MEMORY_NEEDED = 10**9  # bytes, for Spark's JVM and Python's processes; measured, as docs/spark.md has it
MEMORY_WANTED = 2 * 10**9  # with rows in the JVM

Arguments = ParamSpec("Arguments")


class _WarningError(LakeAssetsError):
    """A check found a problem that does not stop every command."""


@dataclass(frozen=True, slots=True)
class Finding(Documented):
    """The result of one check."""

    subject: str
    """What was checked."""
    status: FindingStatus
    """A warning is about what only some configs need."""
    text: str
    """What was found."""
    hint: str = ""
    """How to fix it, or empty."""


@dataclass(frozen=True, slots=True)
class Findings(Documented):
    """What `doctor` found."""

    failed: int
    """The number of failed checks."""
    findings: list[Finding]
    """In the order of the checks."""


def examine(config_file: str | os.PathLike[str] | None = None, *, reads_only: bool = False) -> Iterator[Finding]:
    """Run all checks of a config, as of `load_config`, and yield each finding as soon as it is known.

    `reads_only`: those of what a reader of the lakes needs, who runs no Spark, and neither writes nor locks anything.
    """
    yield _checked("Python", _python)
    if not reads_only:
        yield _checked("Java", _java)
    yield from _packages()
    yield from _extensions()
    if not reads_only:
        yield _checked("cache folder", _cache)
        yield _checked("memory", _memory)
        yield _checked("disk for Spark", _disk, Path(tempfile.gettempdir()))
    yield from _config(config_file, reads_only=reads_only)


def _checked(
    subject: str, check: Callable[Arguments, str], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Finding:
    """Return the finding of a check, from the text that it returns or the error that it raises."""
    try:
        return Finding(subject, "ok", check(*args, **kwargs))
    except _WarningError as warning:
        return Finding(subject, "warning", warning.problem, warning.fix)
    except LakeAssetsError as error:
        return Finding(subject, "failed", *_one_line(error))
    except (OSError, ImportError) as error:
        return Finding(subject, "failed", f"{type(error).__name__}: {error}")


def _limited(
    subject: str, check: Callable[Arguments, str], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Finding:
    """Return the finding of a check of another machine, or of a possible share; it fails after some seconds."""
    finding: Future[Finding] = Future()

    def run() -> None:
        try:
            finding.set_result(_checked(subject, check, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            finding.set_exception(error)

    Thread(target=run, daemon=True).start()  # a process does not wait for it at its end
    try:
        return finding.result(timeout=LIMIT)
    except TimeoutError:
        hint = "run it again when the server or the mount answers."
        return Finding(subject, "failed", f"no answer within {LIMIT:g} seconds:", hint)


def _one_line(error: LakeAssetsError) -> tuple[str, str]:
    return " ".join(error.problem.split()), error.fix


def _python() -> str:
    version = platform.python_version()
    wanted = metadata.metadata(DISTRIBUTION)["Requires-Python"]
    if not Requirement(f"python{wanted}").specifier.contains(version, prereleases=True):
        raise LakeAssetsError(
            f"{version}, and {wanted} is needed:", f"create a virtual environment with Python {wanted}."
        )
    return f"{version} ({sys.executable})"


def _java() -> str:
    java = find_java()
    text = f"{java.version}, from {java.origin} ({java.home})"
    if java.instead_of:
        raise _WarningError(f"{text}, because {java.instead_of}:", CORRECT_JAVA_HOME)
    return text


def _packages() -> Iterator[Finding]:
    """Yield whether the packages that the distribution requires are installed in the required versions."""
    requirements = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    unmet = list(_unmet(requirements, extra=""))
    for requirement, installed in unmet:
        text = f"{installed or 'not installed'}, and {requirement.specifier or 'any version'} is needed:"
        yield Finding(requirement.name, "failed", text, f"pip install '{requirement.name}{requirement.specifier}'.")
    if not unmet:
        shown = ", ".join(f"{name} {metadata.version(name)}" for name in ("pyspark", "duckdb", "dagster", "pyarrow"))
        yield Finding("packages", "ok", shown)
    for extra, purpose in EXTRAS.items():
        missing = ", ".join(requirement.name for requirement, _ in _unmet(requirements, extra=extra))
        if missing:
            text = f"{missing}, for {purpose}, not installed as needed:"
            yield Finding(f"extra {extra}", "warning", text, f"{install(extra)}.")


def _unmet(requirements: list[Requirement], *, extra: str) -> Iterator[tuple[Requirement, str | None]]:
    """Yield the unmet requirements of the extra, or of the base without one, with the installed version."""
    for requirement in requirements:
        marker = requirement.marker
        wanted = marker is None or marker.evaluate({"extra": ""})
        if extra:
            wanted = not wanted and marker is not None and marker.evaluate({"extra": extra})
        if not wanted:
            continue
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield requirement, None
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            yield requirement, installed


def _extensions() -> Iterator[Finding]:
    for name in EXTENSIONS:
        if name == "postgres_scanner" and importlib.util.find_spec(f"duckdb_extension_{name}") is None:
            continue  # part of an extra, which `_packages` reports
        yield _checked(f"DuckDB {name}", _loads, name)


def _loads(name: str) -> str:
    origin = find_extension(name).origin
    with open_engine((name,)):
        return f"loads into DuckDB {duckdb.__version__}, from {origin}"


def _cache() -> str:
    if (folder := cache_folder()).parent == Path(tempfile.gettempdir()):
        raise _WarningError(
            f"this user has no cache folder that can be written to, and {folder} is used:",
            "set XDG_CACHE_HOME to a folder that can be written to and that stays.",
        )
    return f"{folder} can be written to"


def _memory() -> str:
    text = f"{usable_memory() / 10**9:.1f} GB for a process of this user"
    if usable_memory() < MEMORY_WANTED:
        kind = LakeAssetsError if usable_memory() < MEMORY_NEEDED else _WarningError
        raise kind(
            f"{text}, and a run with a Spark of its own needs 1 GB, with a transform {MEMORY_WANTED / 10**9:g} GB:",
            "give the container or the machine more memory.",
        )
    return text


def _disk(folder: Path) -> str:
    folder = _existing(folder)
    free = shutil.disk_usage(folder).free
    text = f"{free / 10**9:.1f} GB free at {folder}"
    if free < DISK_WANTED:
        kind = LakeAssetsError if free < DISK_NEEDED else _WarningError
        raise kind(f"{text}, and at least {DISK_WANTED / 10**9:g} GB are recommended:", "free some space.")
    return text


def _config(file: str | os.PathLike[str] | None, *, reads_only: bool) -> Iterator[Finding]:
    """Yield the config, and everything that it names."""
    named = "the config of the variables" if is_of_variables(file) else file or os.environ.get(CONFIG_VARIABLE)
    if named is None and not Path(DEFAULT_FILE).exists():
        text = f"no {DEFAULT_FILE} in this folder, so no lakes and streams were checked:"
        yield Finding("config", "warning", text, f"write one, name it with --config, or set {CONFIG_VARIABLE}.")
        return
    try:
        config = load_config(file)
    except LakeAssetsError as error:
        yield Finding("config", "failed", *_one_line(error))
        return
    yield Finding("config", "ok", f"{named or DEFAULT_FILE} is valid")
    needed = {extension for lake in config.lakes.values() for extension in extensions(lake)}
    for extension in sorted(needed - set(EXTENSIONS)):
        yield _checked(f"DuckDB {extension}", _loads, extension)
    yield from (_readable if reads_only else _lakes_and_streams)(config)


def _readable(config: LakeConfig) -> Iterator[Finding]:
    """Yield what a reader may do: query the tables, and list and read what has landed, as `report` and `plan` do."""
    for name, lake in config.lakes.items():
        yield _limited(f"catalog of {name}", _snapshot, lake)
    for name, stream in open_streams(config).items():
        yield _limited(f"rows of {name}", _rows, stream)
        yield _limited(f"source of {name}", _source, _quick(stream))


def _lakes_and_streams(config: LakeConfig) -> Iterator[Finding]:
    for name, lake in config.lakes.items():
        yield _limited(f"catalog of {name}", _catalog, lake)
        for key, storage in (("storage", lake.storage), ("staging", lake.staging)):
            if storage is not None:
                yield _limited(f"{key} of {name}", _storage, storage)
        if lake.storage is not None and lake.storage.is_local:
            yield _limited(f"disk of {name}", _disk, Path(lake.storage.root))
    settings = config.spark.settings
    if remote_url(settings) or not spark_config(settings=settings)["spark.master"].startswith("local"):
        yield _checked("Spark cluster", _cluster, settings)
    for name, stream in open_streams(config).items():
        yield _limited(f"source of {name}", _source, _quick(stream))
        if stream.export is not None:
            yield _limited(f"deltas of {name}", _storage, stream.export.deltas.to)


def _catalog(lake: Lake) -> str:
    location = lake.catalog.location
    catalog_backend(lake).login()  # needs a token
    if (file := lake.catalog.file) is not None and not file.exists():
        _refuse_unwritable(file.parent)
        return f"{location}: does not exist yet; the first ingest creates it"
    # This also finds an unreachable PostgreSQL server, within the config's connect_timeout.
    with commit_lock(lake, LOCK_PATIENCE):
        pass
    return _snapshot(lake)


def _snapshot(lake: Lake) -> str:
    location = lake.catalog.location
    try:
        with DuckLake(lake).open(read_only=True) as session:
            snapshot = session.current_snapshot()
            hint = _without_indexes(session)
    except NoLakeError:
        return f"{location}: reachable; the first ingest creates the lake in it"
    return f"{location}: snapshot {snapshot}{hint}"


def _rows(stream: OpenStream) -> str:
    """Return whether a row of the table and of the ledger can be read, each from the files that have it."""
    with stream.lake.open(read_only=True) as session:
        if not session.exists(stream.table):
            return f"{stream.table}: does not exist yet; the first ingest creates it"
        session.rows(f"SELECT * FROM {stream.table.sql} LIMIT 1")  # noqa: S608 - a quoted name
        read_ledger(session, limit=1)
    return f"{stream.table}: can be read"


def _without_indexes(session: LakeSession) -> str:
    """Return what `catalog optimize` is worth; empty for a small catalog, or one that needs no index."""
    try:
        with session.read() as database:
            ((files,),) = database.rows(f"SELECT count(*) FROM {spec.DATA_FILE}")  # noqa: S608 - a constant
        if files <= MANY_FILES or not missing_indexes(session):
            return ""
    except NotDirectError:
        return ""
    return f"; {count(files, 'data file')} without indexes: run `lake-assets catalog optimize`"


def _cluster(settings: Mapping[str, str]) -> str:
    """Return whether the cluster executes a small job, whose tasks report their workers."""
    place = without_parameters(remote_url(settings) or settings.get("spark.master", ""))
    with own_session(settings, transforms=False) as session, spark_errors():
        prepare_workers(session(), CLUSTER_SECONDS)
    return f"{place}: executes tasks"


def _storage(storage: AnyStorage) -> str:
    store = Store(quick(storage, STORE_PATIENCE))
    if storage.is_local:
        _refuse_unwritable(Path(storage.root))
        if not Path(storage.root).exists():
            return f"{store.root}: does not exist yet; the first ingest creates it"
    store.probe()
    probe_writing(store)
    return f"{store.root}: can be listed, written to and deleted from"


def _quick(stream: OpenStream) -> OpenStream:
    return replace(stream, source=Store(quick(stream.config.source, STORE_PATIENCE)))


def _source(stream: OpenStream) -> str:
    text = stream.layout_uri
    if not stream.source.is_listable:
        for newest in list(Calendar(stream.config).expected(()))[-1:]:
            if not stream.manifest(newest).objects:
                raise _WarningError(f"{stream.source_glob(newest)} does not exist.")
        return text
    if probe_reading(stream.source):
        return f"{text}: can be listed and read"
    raise _WarningError(f"{text}: reachable, and nothing has landed yet.")


def _refuse_unwritable(folder: Path) -> None:
    """Refuse a folder that cannot be written to or created."""
    existing = _existing(folder)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise StorageError(f"{existing} cannot be written to:", "correct its permissions, or the path in the config.")


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next((path for path in (folder, *folder.parents) if path.exists()), folder)


def probe_reading(store: Store) -> bool:
    """Return whether an object is below the root, and read a byte of it: listing and reading are two rights."""
    landed = store.probe()
    if landed is None:
        return False
    try:
        store.find(landed.key)
        if landed.size:
            with suppress(SourceChangedError):  # it was replaced or removed meanwhile, and not refused
                store.get_range(landed.key, landed.etag, 0, 1)
    except StorageError as error:
        raise StorageError(f"{landed.uri} is listed and cannot be read: {error.problem}", error.hint) from error
    return True


def probe_writing(store: Store) -> None:
    """Write an object below the root under a name that readers ignore, and remove it."""
    key = f"_probe-{uuid.uuid4().hex}"
    try:
        store.put_new(key, b"probe")
    except StorageError as error:
        raise StorageError(f"{store.root} cannot be written to: {error.problem}", error.hint) from error
    try:
        store.delete((key,))
    except StorageError as error:
        raise StorageError(
            f"{store.root} cannot be deleted from, and {store.uri(key)} is left there: {error.problem}", error.hint
        ) from error
