"""An open DuckLake. A process has one engine for each lake, and attaches the lake only while it is used."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb

from lake_assets.config.catalogs import DuckdbCatalog, FileCatalog, PostgresCatalog
from lake_assets.config.models import Lake
from lake_assets.config.storages import LocalStorage
from lake_assets.duckdb_engine import identifier, open_engine
from lake_assets.errors import CatalogError, NoLakeError, SpecificationError
from lake_assets.lake.attach import (
    ALIAS,
    alias,
    attach_statement,
    create_statements,
    extensions,
    http_limits,
    secret_statements,
)
from lake_assets.lake.catalog import spec
from lake_assets.lake.checkpoint import SETTINGS, EngineLostError, checkpointed, recover
from lake_assets.lake.driver import Driver, driver_errors
from lake_assets.lake.failures import catalog_location, is_locked, translated
from lake_assets.lake.locks import alone, commit_lock
from lake_assets.lake.usual import usual_version
from lake_assets.lake.vendor_errors import Meaning, matches
from lake_assets.retrying import Limit, pause_between, retry

AUTHOR = "lake_assets"  # of snapshots

ATTACH_PATIENCE = 60.0  # seconds that another process may hold a DuckDB-file catalog

# DuckDB's names of the file systems of the lake's storages; a disabled one cannot be enabled again in its engine.
_DISABLE_FILES = (
    "SET disabled_filesystems = "
    "'LocalFileSystem,S3FileSystem,HTTPFileSystem,AzureBlobStorageFileSystem,AzureDfsStorageFileSystem'"
)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of the lake."""

    schema: str
    table: str
    lake: str = ALIAS  # the name of the attached lake

    @property
    def sql(self) -> str:
        """The name for a statement, every part quoted."""
        return ".".join(identifier(part) for part in (self.lake, self.schema, self.table))

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class LakeSession:
    """An open lake. Statements have bound parameters; a failed statement rolls back its transaction.

    DuckDB attaches the lake when it first runs a statement. If the catalog's own driver does all the work, it never
    does.

    Attributes:
        engine: DuckDB, whether the lake is attached or not.
        driver: connections to the database of a SQLite or PostgreSQL catalog.
    """

    def __init__(
        self,
        config: Lake,
        engine: duckdb.DuckDBPyConnection,
        attach: Callable[[], object] | None = None,
        renew: Callable[[], duckdb.DuckDBPyConnection] | None = None,
    ) -> None:
        self.config = config
        self.engine = engine
        self.driver = Driver(config)
        self.in_transaction = False  # of DuckDB, whose changes the driver does not see
        self._attach = self._attach_again = attach
        self._renew = renew  # gives another engine
        self._committed: int | None = None  # the last snapshot of an engine that was replaced

    @property
    def is_attached(self) -> bool:
        """Whether DuckDB has attached the lake."""
        return self._attach is None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with the lake attached.

        Raises:
            CatalogError: the lake cannot be attached.
        """
        if self._attach is not None:
            self._attach()
            self._attach = None
        return self.engine

    @property
    def alias(self) -> str:
        """The name of the attached lake."""
        return alias(self.config)

    @property
    def metadata(self) -> str:
        """The database and schema of the catalog's own tables, for a statement.

        Raises:
            SpecificationError: this package does not know the version of the catalog's tables.
        """
        if (reason := self.unknown_specification) is not None:
            raise SpecificationError(f"{reason}:", "use a version of lake_assets that knows it.")
        return self._metadata

    @property
    def _metadata(self) -> str:
        return spec.database(ALIAS, self.config.metadata_schema)

    @cached_property
    def unknown_specification(self) -> str | None:
        """Why the catalog's own tables cannot be used; None if they can."""
        if self.config.is_managed:
            return "MotherDuck does not show the tables of its catalog"
        versions = self.rows(f"SELECT value FROM {self._metadata}.{spec.METADATA} WHERE key = 'version'")  # noqa: S608
        return spec.unknown(versions[0][0] if versions else None)

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement returns.

        Raises:
            CatalogError: the statement fails.
        """
        with translated(self.config), alone(self.config):
            return self.connection.execute(sql, parameters).fetchall()

    def engine_rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement returns which reads files and nothing of the catalog; the lake is not attached.

        Raises:
            CatalogError: the statement fails.
        """
        with translated(self.config):
            return self.engine.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self, *, writes_files: bool = False) -> Iterator[None]:
        """Commit all statements of the block, or none of them.

        After a failed statement DuckDB's COMMIT may commit the statements before it, so every exception rolls back.

        Args:
            writes_files: DuckLake writes files in the block. If its COMMIT fails, it deletes them, also if the server
                of the catalog has committed and only the answer was lost. On PostgreSQL it is kept from that: the
                COMMIT then fails as after a conflict, and maintenance deletes the files of a commit that was not made.
        """
        keeps_files = writes_files and self._renew is not None and isinstance(self.config.catalog, PostgresCatalog)
        with translated(self.config):
            self.connection.execute("BEGIN")
        self.in_transaction, self._committed = True, None
        try:
            yield
            with translated(self.config):
                if keeps_files:
                    self._commit_with_files()
                else:
                    self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self.in_transaction = False

    def _commit_with_files(self) -> None:
        assert self._renew is not None  # noqa: S101 - the caller checks
        connection = self.connection
        try:
            connection.execute(_DISABLE_FILES)
            connection.execute("COMMIT")
            self._committed = _last_committed(connection, self.alias)
        except duckdb.Error as error:
            if not matches(error, Meaning.FILES_KEPT):
                raise
            raise duckdb.TransactionException(
                "transaction conflict at the commit, or the connection to the catalog was lost"
            ) from error
        finally:
            self.engine, self._attach = self._renew(), self._attach_again

    def _roll_back(self) -> None:
        # A failed COMMIT or a lost connection has already ended the transaction; the first error is raised.
        with suppress(duckdb.Error):
            self.engine.execute("ROLLBACK")

    def reattach(self) -> None:
        """Detach and attach the lake, before a failed transaction is retried.

        The state that DuckLake 1.5.5 keeps after a failed commit is not reliable: on a SQLite catalog in WAL mode the
        next DELETE crashed the process in one of four runs of three writers without the lock.
        """
        self.driver.close()
        if self.config.is_managed or not self.is_attached:
            return  # a managed lake is attached by the server
        with translated(self.config):
            self.connection.execute(f"DETACH DATABASE IF EXISTS {self.alias}")
            self.connection.execute(attach_statement(self.config))

    def current_snapshot(self) -> int:
        """The number of the newest snapshot; in a transaction, of the snapshot on which it began."""
        ((current,),) = self.rows("SELECT id FROM ducklake_current_snapshot(?)", [self.alias])
        return int(current)

    def committed_snapshot(self) -> int | None:
        """The number of the snapshot that DuckDB's last transaction has become."""
        if self._committed is not None:
            return self._committed
        with translated(self.config):
            return _last_committed(self.connection, self.alias)

    def sign(self, author: str, message: str, extra_info: str | None = None) -> None:
        """Set the message of the snapshot that the open transaction commits."""
        more, values = ("", []) if extra_info is None else (", extra_info => ?", [extra_info])
        self.rows(f"CALL {identifier(self.alias)}.set_commit_message(?, ?{more})", [author, message, *values])

    def commit_lock(self) -> AbstractContextManager[None]:
        """The lock that serializes commits; see `locks.py`."""
        # `DuckLake.open` holds the lock of a DuckDB-file catalog, which one process at a time can open.
        return nullcontext() if isinstance(self.config.catalog, DuckdbCatalog) else commit_lock(self.config)

    def exists(self, table: TableName) -> bool:
        """Whether the lake has this table."""
        if self.driver.exists and not self.in_transaction and self.unknown_specification is None:
            # DuckDB reads the names of all tables, and of their columns.
            with suppress(*driver_errors(self.config)):  # DuckDB says what is wrong
                if self.driver.rows(f"SELECT 1 FROM {spec.live_table()}", [table.schema, table.table]):  # noqa: S608
                    return True
        tables = self.rows(
            "SELECT 1 FROM information_schema.tables "
            "WHERE table_catalog = ? AND lower(table_schema) = lower(?) AND lower(table_name) = lower(?)",
            [self.alias, table.schema, table.table],
        )
        return bool(tables)


def _last_committed(connection: duckdb.DuckDBPyConnection, alias: str) -> int | None:
    ((snapshot,),) = connection.execute("SELECT id FROM ducklake_last_committed_snapshot(?)", [alias]).fetchall()
    return None if snapshot is None else int(snapshot)


class DuckLake:
    """Opens one lake. Reuse the object: it loads its engine once."""

    def __init__(self, config: Lake) -> None:
        self.config = config
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._turn = threading.Lock()

    @contextmanager
    def open(self, *, create: bool = False, read_only: bool = False) -> Iterator[LakeSession]:
        """Attach the lake while the block runs. Threads of one process take turns.

        Args:
            create: create the catalog if it does not exist yet.
            read_only: refuse statements that write.

        Raises:
            NoLakeError: the catalog does not exist, and `create` is not set.
            CatalogUnreachableError: the catalog's server does not answer.
            CatalogLockedError: another process holds the catalog for too long.
            CatalogError: the catalog refuses.
        """
        with self._turn, self._held(create=create, read_only=read_only):
            session = self._session(create=create, read_only=read_only)
            try:
                _ = session.unknown_specification  # read once, when the lake is opened
                yield session
            except BaseException:
                with suppress(duckdb.Error):  # the first error is raised
                    self._close(session, read_only=read_only)
                raise
            self._close(session, read_only=read_only)

    def _session(self, *, create: bool, read_only: bool) -> LakeSession:
        """A session that attaches the lake when it is needed, if the catalog is as it should be; else attached now."""
        attach = partial(self._attach, create=create, read_only=read_only)
        session = LakeSession(self.config, self._engine or self._new_engine(), attach, self._renewed)
        self._engine = session.engine
        version = usual_version(self.config, session.driver, is_read_only=read_only)
        if version is None:
            session.driver.close()
            _ = session.connection
        else:
            session.unknown_specification = spec.unknown(version)
        return session

    def _close(self, session: LakeSession, *, read_only: bool) -> None:
        session.driver.close()
        if session.is_attached and not self.config.is_managed:
            self._detach(session.engine, read_only=read_only)

    @contextmanager
    def open_if_exists(self) -> Iterator[LakeSession | None]:
        """Attach the lake read-only for the time of the block; None if there is no lake yet.

        Raises:
            LakeAssetsError: as `open`.
        """
        with ExitStack() as stack:
            session: LakeSession | None = None
            with suppress(NoLakeError):
                session = stack.enter_context(self.open(read_only=True))
            yield session

    def _held(self, *, create: bool, read_only: bool) -> AbstractContextManager[None]:
        """The lock of a DuckDB-file catalog, which one process at a time can open."""
        catalog = self.config.catalog
        if not isinstance(catalog, DuckdbCatalog):
            return nullcontext()
        folder = Path(catalog.path).parent
        if create:
            _make_folder(folder, "catalog")
        else:
            self._refuse_absent_file()
        if read_only and not os.access(folder, os.W_OK):
            return (
                nullcontext()
            )  # no lock file can be created there; `_execute_attach` retries while the catalog's file is locked
        return self._recovered(catalog)

    @contextmanager
    def _recovered(self, catalog: DuckdbCatalog) -> Iterator[None]:
        with commit_lock(self.config):
            recover(catalog)
            yield

    def _detach(self, engine: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        catalog = self.config.catalog
        try:
            with (
                checkpointed(catalog, engine) if isinstance(catalog, DuckdbCatalog) and not read_only else nullcontext()
            ):
                engine.execute(f"DETACH DATABASE IF EXISTS {ALIAS}")
        except EngineLostError:
            self._engine = None
        except duckdb.Error:
            self._engine = None  # the lake cannot be attached to this engine again
            raise

    def _attach(self, *, create: bool, read_only: bool) -> None:
        assert self._engine is not None  # noqa: S101 - _session has set it
        statement = attach_statement(self.config, read_only=read_only)
        with translated(self.config):
            try:
                self._refuse_absent_file()
                self._execute_attach(self._existing(statement))
            except (NoLakeError, duckdb.Error) as error:
                if matches(error, Meaning.ENCRYPTION):
                    raise self._otherwise_encrypted() from error
                if not isinstance(error, NoLakeError) and not matches(error, Meaning.ABSENT):
                    raise
                if not create:
                    raise self._no_lake() from error
                self._create(statement)

    def _renewed(self) -> duckdb.DuckDBPyConnection:
        self._engine = self._new_engine()
        return self._engine

    def _new_engine(self) -> duckdb.DuckDBPyConnection:
        engine = open_engine(extensions(self.config), http_limits(self.config))
        with translated(self.config):
            for statement in secret_statements(self.config):
                engine.execute(statement)
            for setting in SETTINGS if isinstance(self.config.catalog, DuckdbCatalog) else ():
                engine.execute(setting)
        return engine

    def _refuse_absent_file(self) -> None:
        # SQLite creates a file that it opens.
        if isinstance(self.config.catalog, FileCatalog) and not Path(self.config.catalog.path).exists():
            raise self._no_lake()

    def _no_lake(self) -> NoLakeError:
        return NoLakeError(
            f"there is no lake at {self.location} yet:", "ingest a partition first, or correct the config."
        )

    def _otherwise_encrypted(self) -> CatalogError:
        made = "without encryption" if self.config.is_encrypted else "with encryption"
        said = str(self.config.is_encrypted).lower()
        return CatalogError(
            f"the lake at {self.location} was made {made}, and attach_options say encrypted: {said}:",
            "correct attach_options, or name another lake; the setting of an existing lake cannot change.",
        )

    def _existing(self, statement: str) -> str:
        if self.config.is_managed:
            return statement  # attaching creates no database there
        return statement.removesuffix(")") + ", CREATE_IF_NOT_EXISTS false)"

    def _create(self, statement: str) -> None:
        """Create the catalog; of several concurrent processes, one creates it."""
        if self.config.is_managed:
            # A separate engine: the first statement that reaches MotherDuck decides whether an engine has one database,
            # as the session needs, or all databases of the user, as CREATE needs.
            with self._new_engine() as engine:
                for first in create_statements(self.config):
                    engine.execute(first)
            self._execute_attach(statement)
            return
        if isinstance(self.config.catalog, FileCatalog):
            _make_folder(Path(self.config.catalog.path).parent, "catalog")
        if isinstance(self.config.storage, LocalStorage):
            _make_folder(Path(self.config.storage.path), "storage")
        if isinstance(self.config.catalog, DuckdbCatalog):
            self._execute_attach(statement)
            return
        with commit_lock(self.config):
            for first in create_statements(self.config):
                self._execute_attach(first)
            self._execute_attach(statement)

    def _execute_attach(self, statement: str) -> None:
        """Execute an ATTACH, with retries while another process has locked the catalog's file."""
        assert self._engine is not None  # noqa: S101 - _attach has set it
        execute = partial(self._engine.execute, statement)
        with alone(self.config):
            retry(execute, passes=is_locked, limit=Limit(seconds=ATTACH_PATIENCE), pause=pause_between(0.02, 0.2))

    @property
    def location(self) -> str:
        """The catalog's location for messages, without secrets."""
        return catalog_location(self.config)


def _make_folder(folder: Path, what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError(
            f"the folder {folder} for the lake's {what} cannot be created: {error.strerror}:",
            f"create it, or correct `{what}` in the config.",
        ) from error
