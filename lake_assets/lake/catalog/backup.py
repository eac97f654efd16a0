"""Backups of a catalog: all of DuckLake's tables at one snapshot, as a DuckDB file below the lake's storage.

A backup is two objects: the file, and after it a JSON document with the file's checksum, so that a backup which was
broken off is none. A restored catalog is that of the backup. What was committed since then is lost from it, and what
can be said of that is found by a look into the storage: files that the backup does not know, and files that are gone.
"""

import datetime as dt
import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pydantic import TypeAdapter, ValidationError

from lake_assets.base.duckdb_engine import identifier, literal, open_engine
from lake_assets.base.errors import CatalogError, CatalogLockedError, CatalogUnreachableError, NoLakeError
from lake_assets.base.json_dataclasses import Documented
from lake_assets.config.lake import Lake, Maintenance
from lake_assets.config.storages import AnyStorage
from lake_assets.lake.attach import extensions, http_limits, secret_statements
from lake_assets.lake.backends import catalog_backend, commit_lock
from lake_assets.lake.backends.database_backend import COMMITS
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.catalog.files import needed_files, table_folders, unnamed_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.failures import catalog_error, translated
from lake_assets.lake.session import LakeSession, under_lock
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.version import VERSION

BACKUPS = "_catalog_backups"  # below the lake's storage; no table has such a name
_NAME = re.compile(r"\d{8}T\d{6,12}Z-\d+")
_CHUNK = 2**22  # bytes


@dataclass(frozen=True, slots=True)
class Backup(Documented):
    """A backup of a lake's catalog."""

    name: str
    """Its time and its snapshot, such as `20260211T120000123456Z-31`."""
    snapshot: int
    """The newest snapshot that it has."""
    committed_at: dt.datetime
    """When that snapshot was committed."""
    made_at: dt.datetime
    """When the backup was made."""
    catalog: str
    """The type of the catalog, which a restored one has too."""
    specification: str
    """The version of DuckLake's specification."""
    data_path: str
    """The root of the lake's storage."""
    tables: int
    """The number of the catalog's tables."""
    bytes: int
    """The size of the backup's file."""
    sha256: str
    """The checksum of the backup's file."""
    made_by: str
    """The version of this package."""


@dataclass(frozen=True, slots=True)
class RestoredCatalog(Documented):
    """A catalog that was restored, and what it lacks."""

    lake: str
    """The lake's name."""
    backup: Backup
    """The backup."""
    unknown: Sequence[str]
    """URIs of data files that the catalog does not know: of later commits, or of runs that did not commit."""
    gone: Sequence[str]
    """URIs of data files of the newest snapshot that are not in the storage any more."""


_DOCUMENT = TypeAdapter(Backup)


def make_backup(lake: Lake, to: AnyStorage | None = None, keep: int | None = None) -> Backup:
    """Write a backup of the catalog as it is now, by default below the lake's storage; the oldest beyond `keep` go.

    Readers and writers of a PostgreSQL catalog do not wait for it.
    """
    storage = _place(lake, to)
    with DuckLake(lake).open(read_only=True):
        pass  # a catalog that does not exist or cannot be read is an error in usual words
    made_at = dt.datetime.now(dt.UTC)
    with tempfile.TemporaryDirectory(prefix="lake_assets_backup_") as folder:
        file = Path(folder, "catalog.duckdb")
        with _attached(lake, read_only=True) as engine:
            engine.execute(f"ATTACH {literal(str(file))} AS backup")
            engine.execute("BEGIN")  # one state of the catalog
            tables = _tables(engine, lake)
            for table in tables:
                engine.execute(f"CREATE TABLE backup.{identifier(table)} AS FROM {_qualified(lake, table)}")
            engine.execute("COMMIT")
            _refuse_mixed(engine, tables)
            ((snapshot, committed_at, version),) = engine.execute(
                f"SELECT snapshot_id, snapshot_time::TIMESTAMPTZ, (SELECT value FROM backup.{spec.METADATA} "
                f"WHERE key = 'version') FROM backup.{spec.SNAPSHOT} ORDER BY snapshot_id DESC LIMIT 1"
            ).fetchall()
            engine.execute("DETACH backup")
        backup = Backup(
            name=f"{made_at:%Y%m%dT%H%M%S%fZ}-{snapshot}",
            snapshot=snapshot,
            committed_at=committed_at.astimezone(dt.UTC),
            made_at=made_at,
            catalog=lake.catalog.type,
            specification=version,
            data_path=lake.data_path,
            tables=len(tables),
            bytes=file.stat().st_size,
            sha256=_checksum(file),
            made_by=VERSION,
        )
        with Store(storage).create(f"{BACKUPS}/{backup.name}.duckdb") as written, file.open("rb") as read:
            while chunk := read.read(_CHUNK):
                written.write(chunk)
    Store(storage).put_new(f"{BACKUPS}/{backup.name}.json", _DOCUMENT.dump_json(backup, indent=2))
    if keep is not None:
        older = backups(lake, to)[keep:]
        # The document first: a file without one is no backup.
        for suffix in (".json", ".duckdb"):
            Store(storage).delete(tuple(f"{BACKUPS}/{old.name}{suffix}" for old in older))
    return backup


def backups(lake: Lake, to: AnyStorage | None = None) -> list[Backup]:
    """Return the lake's backups, the newest first; those of other lakes, and other documents, are left out."""
    store = Store(_place(lake, to))
    made = []
    for landed in store.all(f"{BACKUPS}/", hides=lambda _: False):
        name = landed.key.rpartition("/")[2]
        if name.endswith(".json") and _NAME.fullmatch(name.removesuffix(".json")):
            with suppress(ValidationError):
                made.append(_DOCUMENT.validate_json(bytes(store.get(landed.key, landed.etag))))
    of_lake = [backup for backup in made if backup.data_path == lake.data_path]
    return sorted(of_lake, key=lambda backup: (backup.made_at, backup.snapshot), reverse=True)


def restore_backup(
    lake: Lake, backup: Backup, to: AnyStorage | None = None, *, replace: bool = False
) -> tuple[list[str], list[str]]:
    """Make the catalog that of a backup, one of `backups`; returns `unknown` and `gone` of `RestoredCatalog`.

    With `replace`, a catalog that has snapshots, or cannot be read, is moved aside; otherwise it is refused.
    """
    if backup.catalog != lake.catalog.type:
        raise CatalogError(
            f"backup {backup.name} is of a {backup.catalog} catalog, and the config has a {lake.catalog.type} catalog:",
            f"give `catalog` the type {backup.catalog} in the config, or choose another backup.",
        )
    with tempfile.TemporaryDirectory(prefix="lake_assets_restore_") as folder:
        file = _fetched(lake, backup, to, Path(folder))
        _make_room(lake, replace=replace)
        with DuckLake(lake).open(create=True) as session:
            _ = session.connection  # DuckLake itself makes its tables, with their keys
        with _attached(lake, read_only=False) as engine:
            engine.execute(f"ATTACH {literal(str(file))} AS backup (READ_ONLY)")
            known = set(_tables(engine, lake))
            copied = [table for (table,) in engine.execute(_NAMES, ["backup"]).fetchall()]
            engine.execute("BEGIN")
            for table in copied:
                if table in known:
                    engine.execute(f"DELETE FROM {_qualified(lake, table)}")
                    engine.execute(f"INSERT INTO {_qualified(lake, table)} BY NAME FROM backup.{identifier(table)}")
                else:
                    engine.execute(f"CREATE TABLE {_qualified(lake, table)} AS FROM backup.{identifier(table)}")
            engine.execute("COMMIT")
            engine.execute("DETACH backup")
    with DuckLake(lake).open(read_only=True) as session:
        live, files = needed_files(session, is_live=True), Store(lake.own_storage).all(hides=lambda _: False)
        unknown = unknown_files(session, files, backup.committed_at)
    return sorted(file.uri for file in unknown), sorted(live - {file.uri for file in files})


def unknown_files(
    session: LakeSession, files: Sequence[LandedObject], since: dt.datetime | None = None
) -> list[LandedObject]:
    """Return the data files in the folders of tables that the catalog does not have, of commits since that time.

    A run writes the files of all its partitions before it commits the first of them. So a file may be older than the
    commit, by the time that maintenance takes for the longest run. `files` is a listing of the lake's storage. Commits
    before `since` have their files in the catalog; when None, that is unknown.
    """
    lake = session.config
    longest = dt.timedelta(days=(lake.maintenance or Maintenance()).orphans_older_than)
    # A table that was created after the backup has a folder in that of its schema.
    schemas = session.rows(f"SELECT path FROM {session.metadata}.{spec.SCHEMA} WHERE path_is_relative::BOOLEAN")
    folders = (*table_folders(session), *(lake.data_path + path for (path,) in schemas if path))
    return [
        file
        for file in unnamed_files(session, files)
        if file.key.endswith(".parquet")
        and file.uri.startswith(folders)
        and (since is None or file.last_modified >= since - longest)
    ]


def _place(lake: Lake, to: AnyStorage | None) -> AnyStorage:
    """Return the storage of the backups. A place beside the lake's files, whose keys would be there too, is refused."""
    if lake.catalog.is_service:
        raise CatalogError("MotherDuck has the tables of this catalog:", "use its own backups and snapshots.")
    if to is None and lake.is_encrypted:
        raise CatalogError(
            "the catalog of an encrypted lake has the keys of its files, and a backup beside these would show them:",
            "give a folder elsewhere with --to.",
        )
    return to or lake.own_storage


@contextmanager
def _attached(lake: Lake, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an engine with the catalog's database attached as `catalog`, under the lock of a file catalog."""
    backend = catalog_backend(lake)
    options = [*backend.source_options, *(["READ_ONLY"] if read_only else [])]
    with (
        nullcontext() if lake.catalog.file is None else commit_lock(lake),
        translated(lake),
        closing(open_engine(extensions(lake), http_limits(lake))) as engine,
    ):
        for statement in secret_statements(lake):
            engine.execute(statement)
        listed = f" ({', '.join(options)})" if options else ""
        engine.execute(f"ATTACH {literal(backend.database)} AS catalog{listed}")
        yield engine
        engine.execute("DETACH catalog")


_NAMES = (
    "SELECT table_name FROM duckdb_tables() WHERE database_name = ? AND starts_with(table_name, 'ducklake_') "
    "ORDER BY table_name"
)


def _qualified(lake: Lake, table: str) -> str:
    return f"catalog.{identifier(lake.catalog_schema)}.{identifier(table)}"


def _tables(engine: duckdb.DuckDBPyConnection, lake: Lake) -> list[str]:
    """Return the names of DuckLake's tables in the catalog's database."""
    in_schema = _NAMES.replace(" ORDER BY", " AND schema_name = ? ORDER BY")
    return [table for (table,) in engine.execute(in_schema, ["catalog", lake.catalog_schema]).fetchall()]


def _refuse_mixed(engine: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> None:
    """Refuse tables that were read at different snapshots: a table has none that the table of snapshots lacks.

    Then a commit was made between the two.
    """
    sources = [
        f"SELECT max({identifier(column)}) AS newest FROM backup.{identifier(table)}"
        for table, column in engine.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'backup' "
            "AND regexp_matches(column_name, '^(_ducklake_)?(begin|end)_snapshot$')"
        ).fetchall()
        if table in tables
    ]
    latest = f"(SELECT max(snapshot_id) FROM backup.{spec.SNAPSHOT})"
    ((newest, last),) = engine.execute(f"SELECT max(newest), {latest} FROM ({' UNION ALL '.join(sources)})").fetchall()
    if newest is not None and newest > last:
        raise CatalogError("the catalog changed while it was being copied:", "run it again.")


def _fetched(lake: Lake, backup: Backup, to: AnyStorage | None, folder: Path) -> Path:
    """Copy a backup's file into a folder."""
    store, key, file = Store(_place(lake, to)), f"{BACKUPS}/{backup.name}.duckdb", folder / "catalog.duckdb"
    stored = store.find(key)
    if stored is not None:
        with file.open("wb") as written:
            for start in range(0, stored.size, _CHUNK):
                written.write(store.get_range(key, stored.etag, start, min(start + _CHUNK, stored.size)))
    if stored is None or stored.size != backup.bytes or _checksum(file) != backup.sha256:
        state = "is gone" if stored is None else "is not the file that was written: its checksum differs"
        raise CatalogError(f"the backup {store.uri(key)} {state}:", "nothing was changed. Choose another backup.")
    return file


def _checksum(file: Path) -> str:
    with file.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def _make_room(lake: Lake, *, replace: bool) -> None:
    """Let a new catalog be made: refuse one that has snapshots, or move it aside.

    One that is in use or away is refused, because nobody knows what it has.
    """
    state = None
    try:
        with DuckLake(lake).open(read_only=True) as session:
            if session.current_snapshot() == 0:
                return  # a restore before this one was broken off
            state = f"has snapshot {session.current_snapshot()}"
    except NoLakeError:
        pass
    except (CatalogLockedError, CatalogUnreachableError):
        raise
    except CatalogError as error:
        state = f"cannot be read ({error.problem.rstrip(':')})"
    if state is not None and not replace:
        raise CatalogError(
            f"there is a catalog at {lake.catalog.location}, and it {state}:",
            "nothing was changed. --replace moves it aside, and makes the catalog that of the backup.",
        )
    mark = f"before_{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S%fZ}"
    if (catalog := lake.catalog.file) is not None:
        with commit_lock(lake):
            for suffix in ("", "-wal", "-shm", ".wal", ".checkpoint"):
                if (file := Path(f"{catalog}{suffix}")).exists():
                    file.rename(f"{catalog}.{mark}{suffix}")
    elif state is not None:
        _move_tables(lake, f"lake_{mark}")


def _move_tables(lake: Lake, schema: str) -> None:
    """Move the tables of a PostgreSQL catalog to a new schema of the database, all or none."""
    with _attached(lake, read_only=False) as engine:
        tables = _tables(engine, lake)
    with closing(catalog_backend(lake)) as backend:
        try:
            with backend.transaction(writes=True, lock=COMMITS) as database:
                database.execute(f"CREATE SCHEMA {identifier(schema)}")
                for table in tables:
                    database.execute(f"ALTER TABLE {identifier(table)} SET SCHEMA {identifier(schema)}")
        except backend.errors as error:
            raise catalog_error(error, lake) from error


@dataclass(frozen=True, slots=True)
class Index:
    """An index of one of DuckLake's tables."""

    name: str
    table: str
    columns: tuple[str, ...]


INDEXES = (
    # Finds the files of a partition.
    Index(
        "lake_assets_partition_values",
        spec.FILE_PARTITION_VALUE,
        ("partition_value", "partition_key_index", "table_id", "data_file_id"),
    ),
    # A reader's conditions leave out files by the bounds of a column (duckdb/ducklake#1147).
    Index("lake_assets_column_bounds", spec.FILE_COLUMN_STATS, ("table_id", "column_id")),
)


def missing_indexes(session: LakeSession) -> list[Index]:
    """Return the indexes that the catalog does not have.

    Raises NotDirectError for a database of DuckDB, which refuses later changes of a table with an index.
    """
    with session.read() as database:
        return _missing(database)


def create_indexes(session: LakeSession) -> list[Index]:
    """Create the indexes that the catalog does not have, and return them. Other writers wait meanwhile.

    In PostgreSQL the user has to own DuckLake's tables.
    """

    def create() -> list[Index]:
        with session.write() as database:
            made = _missing(database)
            for index in made:
                columns = ", ".join(map(identifier, index.columns))
                database.execute(f"CREATE INDEX {identifier(index.name)} ON {identifier(index.table)} ({columns})")
                database.execute(f"ANALYZE {identifier(index.table)}")  # a new index is used by its statistics
            return made

    return under_lock(session, create, "the indexes of the catalog")


def drop_indexes(session: LakeSession) -> list[Index]:
    """Drop the indexes that the catalog has, and return them."""

    def drop() -> list[Index]:
        with session.write() as database:
            missing = _missing(database)
            dropped = [index for index in INDEXES if index not in missing]
            for index in dropped:
                database.execute(f"DROP INDEX {identifier(index.name)}")
            return dropped

    return under_lock(session, drop, "the indexes of the catalog")


def _missing(database: CatalogDatabase) -> list[Index]:
    names = database.indexes()
    return [index for index in INDEXES if index.name not in names]
