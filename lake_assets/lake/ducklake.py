"""Opens a DuckLake. A process has one engine for each lake, and attaches the lake only while it is used.

A user's connections to a DuckDB-file catalog share another engine, which has the lake attached until the last one is
closed. Engines of their own would not do: the first one that closes the file ends the process's lock on it, and a
writer of another process gets in beside the others. Beside such connections this package only reads, by their engine.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.errors import CatalogError, CatalogLockedError, CatalogUnreachableError, NoLakeError
from lake_assets.base.retrying import Limit, pause_between, retry
from lake_assets.config.lake import DUCKLAKE_VERSION, METADATA_SCHEMA, Lake
from lake_assets.lake.attach import attach_statement, extensions, http_limits, secret_statements
from lake_assets.lake.backends import catalog_backend, commit_lock
from lake_assets.lake.backends.database_backend import ALIAS, CatalogBackend, EngineLostError
from lake_assets.lake.catalog import spec
from lake_assets.lake.database_errors import Fault, matches
from lake_assets.lake.failures import catalog_error, is_locked, translated
from lake_assets.lake.session import LakeSession

ATTACH_PATIENCE = 60.0  # seconds that another process or a user's connection may hold a DuckDB-file catalog
_PAUSE = pause_between(0.02, 0.2)

_ATTACHED: dict[str, str] = {}  # the ATTACH of the engine that a user's connections share, by its name


class DuckLake:
    """Opens one lake. Reuse the object: it loads its engine once."""

    def __init__(self, config: Lake) -> None:
        self.config = config
        self._backend = catalog_backend(config)
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._turn = threading.Lock()
        self._of_reader: DuckLake | None = None  # of a copy of the catalog

    @contextmanager
    def open(self, *, create: bool = False, read_only: bool = False, shared: bool = True) -> Iterator[LakeSession]:
        """Attach the lake while the block runs. Threads of one process take turns.

        With `shared`, a DuckDB-file catalog is read by the engine of a user's read-only connections, if there are any.
        Raises NoLakeError if there is no catalog and `create` is not set, and CatalogLockedError if another process or
        a connection of a user holds it for too long.
        """
        if read_only and (reader := self._for_reader()) is not self:
            with reader.open(read_only=True) as session:
                yield session
            return
        if read_only and not shared:
            self._shared(None, wait=False)  # the connection to close may be of this thread
        with self._turn, self._held(create=create, read_only=read_only):
            user = self._shared(attach_statement(self.config, read_only=True) if read_only and shared else None)
            session = self._session(create=create, read_only=read_only, user=user)
            try:
                _ = session.unknown_specification  # read once, when the lake is opened
                yield session
            except BaseException:
                with suppress(duckdb.Error):  # the first error is raised
                    self._close(session, user, read_only=read_only)
                raise
            self._close(session, user, read_only=read_only)

    def connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Connect to an engine to which the lake is attached until the connection is closed.

        Connections to a DuckDB-file catalog share the engine. The lake's lock is held only to attach. Errors are those
        of `open`.
        """
        if read_only and (reader := self._for_reader()) is not self:
            return reader.connect(read_only=True)
        statement = attach_statement(self.config, read_only=read_only)
        self._backend.leave_to_duckdb()
        with self._turn, self._held(create=False, read_only=read_only):
            if (shared := self._shared(statement)) is not None:
                return shared
            name = self._backend.engine_name
            engine = self._new_engine(name)
            try:
                self._attach(engine, create=False, read_only=read_only)
            except BaseException:
                engine.close()
                raise
            if name:
                _ATTACHED[name] = statement
            else:
                engine.execute("RESET threads")
            return engine

    def _for_reader(self) -> "DuckLake":
        """Return what opens the lake for a reader, who may have to read a copy of the catalog."""
        try:
            config = self._backend.for_reader()
        except self._backend.errors as error:
            raise catalog_error(error, self.config) from error
        if config is self.config:
            return self
        self._of_reader = self._of_reader or DuckLake(config)
        return self._of_reader

    def _shared(self, statement: str | None, *, wait: bool = True) -> duckdb.DuckDBPyConnection | None:
        """Connect to the engine of the user's open connections to the catalog; None if there are none.

        `statement` is the ATTACH of the only connections to share with; None to wait until all are closed. With `wait`
        it waits for other users of the engine, as long as for another process, and raises CatalogLockedError then.
        """
        name = self._backend.engine_name

        def joined() -> duckdb.DuckDBPyConnection | None:
            if (attached := _ATTACHED.get(name)) is None:
                return None
            engine = self._new_engine(name)
            if not engine.execute("FROM duckdb_databases() WHERE database_name = ?", [ALIAS]).fetchall():
                _ATTACHED.pop(name, None)  # the last one was closed, and this engine is new
                engine.close()
                return None
            if attached == statement:
                return engine
            engine.close()
            raise CatalogLockedError(
                f"a connection of this process keeps the catalog {self.config.catalog.location} open:",
                "close it, and run it again.",
            )

        limit = Limit(seconds=ATTACH_PATIENCE if wait else 0)
        return retry(joined, transient=CatalogLockedError, limit=limit, pause=_PAUSE)

    def _session(self, *, create: bool, read_only: bool, user: duckdb.DuckDBPyConnection | None) -> LakeSession:
        """Return a session that attaches the lake when it is needed, or now if the catalog is not as it should be.

        That of a user's connection has it attached.
        """
        if user is not None:
            return LakeSession(self.config, lambda: user)
        attach = partial(self._attach, create=create, read_only=read_only)
        session = LakeSession(self.config, self._own_engine, attach, partial(self._own_engine, new=True))
        version = version_without_attach(session.backend, is_read_only=read_only)
        if version is None:
            session.backend.close()
            _ = session.connection
        else:
            session.unknown_specification = spec.unknown(version)
        return session

    def _close(self, session: LakeSession, user: duckdb.DuckDBPyConnection | None, *, read_only: bool) -> None:
        session.backend.close()
        if user is not None:
            user.close()
        elif session.is_attached and not self.config.is_managed:
            self._detach(session.engine, read_only=read_only)
            if read_only:
                session.backend.tidy()

    @contextmanager
    def open_if_exists(self) -> Iterator[LakeSession | None]:
        """Attach the lake read-only for the time of the block; None if there is no lake yet."""
        with ExitStack() as stack:
            session: LakeSession | None = None
            with suppress(NoLakeError):
                session = stack.enter_context(self.open(read_only=True))
            yield session

    def unattached(self) -> LakeSession:
        """Return a session of a lake that does not exist yet, whose engine reads the landing zone."""
        session = LakeSession(self.config, self._own_engine, partial(self._attach, create=False, read_only=True))
        session.unknown_specification = "there is no lake yet"
        return session

    def _held(self, *, create: bool, read_only: bool) -> AbstractContextManager[object]:
        """Return the lock of a DuckDB-file catalog, which one process at a time can open."""
        if self._backend.is_exclusive:
            if create:
                self._make_catalog_folder()
            else:
                self._refuse_absent_file()
        return self._backend.opened(read_only=read_only)

    def _detach(self, engine: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        try:
            with nullcontext() if read_only else self._backend.detaching(engine):
                engine.execute(f"DETACH DATABASE IF EXISTS {ALIAS}")
        except (EngineLostError, duckdb.FatalException):
            # After an error within DuckDB, which the statement has raised, the engine refuses everything.
            self._engine = None
        except duckdb.Error:
            self._engine = None  # the lake cannot be attached to this engine again
            raise

    def _attach(self, engine: duckdb.DuckDBPyConnection, *, create: bool, read_only: bool) -> None:
        statement = attach_statement(self.config, read_only=read_only)
        with translated(self.config):
            try:
                self._refuse_absent_file()
                self._execute_attach(engine, self._existing(statement))
            except (NoLakeError, duckdb.Error) as error:
                # If the connection was lost at the end of the ATTACH, the lake may be attached nevertheless.
                if not self.config.is_managed:
                    with suppress(duckdb.Error):  # the error of the ATTACH is raised
                        engine.execute(f"DETACH DATABASE IF EXISTS {ALIAS}")
                if matches(error, Fault.ENCRYPTION):
                    raise self._otherwise_encrypted() from error
                is_absent = matches(error, Fault.ABSENT) and not matches(error, Fault.NOT_CONNECTED)
                if not isinstance(error, NoLakeError) and not is_absent:
                    raise
                if not create:
                    raise self._no_lake() from error
                self._create(engine, statement)

    def _own_engine(self, *, new: bool = False) -> duckdb.DuckDBPyConnection:
        self._engine = (None if new else self._engine) or self._new_engine()
        return self._engine

    def _new_engine(self, name: str = "") -> duckdb.DuckDBPyConnection:
        statements = secret_statements(self.config)  # first: MotherDuck's extension does not load without a network
        engine = open_engine(extensions(self.config), http_limits(self.config), name)
        with translated(self.config):
            for statement in statements:
                engine.execute(statement)
            for setting in self._backend.settings:
                engine.execute(setting)
        return engine

    def _refuse_absent_file(self) -> None:
        # SQLite creates a file that it opens.
        if (file := self.config.catalog.file) is not None and not file.exists():
            raise self._no_lake()

    def _no_lake(self) -> NoLakeError:
        return NoLakeError(
            f"there is no lake at {self.config.catalog.location} yet:",
            "ingest a partition first, or correct the config.",
        )

    def _otherwise_encrypted(self) -> CatalogError:
        made = "without encryption" if self.config.is_encrypted else "with encryption"
        said = str(self.config.is_encrypted).lower()
        return CatalogError(
            f"the lake at {self.config.catalog.location} was made {made}, and attach_options say encrypted: {said}:",
            "correct attach_options. The setting of an existing lake cannot change.",
        )

    def _existing(self, statement: str) -> str:
        if self.config.is_managed:
            return statement  # attaching creates no database there
        return statement.removesuffix(")") + ", CREATE_IF_NOT_EXISTS false)"

    def _create(self, engine: duckdb.DuckDBPyConnection, statement: str) -> None:
        """Create the catalog; of several concurrent processes, one creates it."""
        if self.config.is_managed:
            # A separate engine: the first statement that reaches MotherDuck decides whether an engine has one database,
            # as the session needs, or all databases of the user, as CREATE needs.
            with self._new_engine() as creating:
                for first in self._backend.create_statements():
                    creating.execute(first)
            self._execute_attach(engine, statement)
            return
        self._make_catalog_folder()
        if self.config.storage is not None and self.config.storage.is_local:
            _make_folder(Path(self.config.storage.root), "storage")
        with nullcontext() if self._backend.is_exclusive else commit_lock(self.config):
            for first in self._backend.create_statements():
                self._execute_attach(engine, first)
            self._execute_attach(engine, statement)

    def _execute_attach(self, engine: duckdb.DuckDBPyConnection, statement: str) -> None:
        """Execute an ATTACH, with retries while another process has locked the catalog's file."""
        execute = partial(engine.execute, statement)
        with self._backend.exclusive_access():
            retry(execute, transient=is_locked, limit=Limit(seconds=ATTACH_PATIENCE), pause=_PAUSE)

    def _make_catalog_folder(self) -> None:
        if (file := self.config.catalog.file) is not None:
            _make_folder(file.parent, "catalog")


def _make_folder(folder: Path, what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError(
            f"the folder {folder} for the lake's {what} cannot be created: {error.strerror}:",
            f"create it, or correct `{what}` in the config.",
        ) from error


def version_without_attach(backend: CatalogBackend[Any], *, is_read_only: bool) -> str | None:
    """Return the version of DuckLake's specification in the catalog, if an ATTACH would only confirm the config.

    None if the lake must be attached first: it does not exist yet, has another data path, is or must be encrypted, has
    options for ATTACH, or its catalog's database cannot be read by a driver. Raises CatalogUnreachableError if the
    server is away.
    """
    lake, file = backend.lake, backend.catalog.file
    if lake.inserts_only or not backend.has_driver:
        return None
    if lake.attach_options.keys() - {DUCKLAKE_VERSION, METADATA_SCHEMA}:
        return None
    if file is not None and not file.is_file():
        return None  # SQLite would create it
    errors: tuple[type[Exception], ...] = (CatalogError, *backend.errors)
    try:
        with backend.exclusive_access():
            if not backend.has_driver or not (is_read_only or backend.is_ready()):
                return None
            settings: dict[str, str] = dict(backend.rows(spec.SETTINGS_QUERY))
    except CatalogUnreachableError:
        raise
    except errors:
        return None  # the ATTACH says what is wrong
    if settings.get("data_path") != lake.data_path or settings.get("encrypted") != "false":
        return None
    version = settings.get("version")
    return None if version is None or spec.unknown(version) is not None else version
