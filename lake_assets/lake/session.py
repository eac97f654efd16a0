"""A DuckLake that can be opened, read and written: one engine a process, attached only while it is used."""

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import duckdb

from lake_assets.config.catalogs import DuckdbCatalog, FileCatalog, MotherDuckCatalog, PostgresCatalog
from lake_assets.config.models import Lake
from lake_assets.config.secrets import mask_error
from lake_assets.config.storages import LocalStorage
from lake_assets.duckdb_engine import identifier, open_engine
from lake_assets.errors import CatalogError, LakeUnreachableError, NoLakeError, SpecificationError
from lake_assets.lake import postgres
from lake_assets.lake.attach import (
    ALIAS,
    alias,
    attach_statement,
    create_statements,
    data_path,
    extensions,
    secret_statements,
)
from lake_assets.lake.catalog import spec
from lake_assets.lake.conflicts import is_locked, locked
from lake_assets.lake.locks import commit_lock
from lake_assets.lake.vendor_errors import Meaning, matches, texts
from lake_assets.retrying import Limit, pause_between, retry

AUTHOR = "lake_assets"  # of snapshots

ATTACH_PATIENCE = 60.0  # seconds that another process may hold a DuckDB-file catalog


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of the lake."""

    schema: str
    table: str
    lake: str = ALIAS  # the name under which a session has the lake

    @property
    def sql(self) -> str:
        """The name as it stands in a statement, every part quoted."""
        return ".".join(identifier(part) for part in (self.lake, self.schema, self.table))

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class LakeSession:
    """An attached lake. Statements take bound parameters; a failed one rolls back what was begun."""

    def __init__(self, config: Lake, connection: duckdb.DuckDBPyConnection) -> None:
        self.config = config
        self.connection = connection

    @property
    def alias(self) -> str:
        """The name under which the session has the lake."""
        return alias(self.config)

    @property
    def metadata(self) -> str:
        """What the names of the catalog's own tables begin with in a statement: their database, and their schema.

        Raises:
            SpecificationError: the catalog is of a version whose tables this package does not know.
        """
        if (why := self.unknown_specification) is not None:
            raise SpecificationError(f"{why}:", "use a version of lake_assets that knows it.")
        return self._metadata

    @property
    def _metadata(self) -> str:
        return spec.database(ALIAS, self.config.metadata_schema)

    @cached_property
    def unknown_specification(self) -> str | None:
        """Why the catalog's own tables cannot be used; None if they can."""
        if self.config.is_managed:
            return "MotherDuck does not show the tables of its catalog"
        found = self.rows(f"SELECT value FROM {self._metadata}.{spec.METADATA} WHERE key = 'version'")  # noqa: S608
        return spec.unknown(found[0][0] if found else None)

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement returns.

        Raises:
            CatalogError: the statement fails.
        """
        with translated(self.config):
            return self.connection.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside, or none of them.

        After a failed statement DuckDB's COMMIT may commit what came before it, so every exception rolls back.
        """
        with translated(self.config):
            self.connection.execute("BEGIN")
        try:
            yield
            with translated(self.config):
                self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        # A failed COMMIT has ended the transaction already, as has a lost connection; what counts is why it failed.
        with suppress(duckdb.Error):
            self.connection.execute("ROLLBACK")

    def reattach(self) -> None:
        """Attach the lake anew, as must be done before a transaction that failed is tried again.

        What DuckLake 1.5.5 keeps of a failed commit is not to be relied on: on a SQLite catalog in WAL mode the next
        DELETE crashed the process in one of four runs of three writers that knew nothing of the lock.
        """
        if self.config.is_managed:
            return  # it is attached on the server, which has no part in this
        with translated(self.config):
            self.connection.execute(f"DETACH DATABASE IF EXISTS {self.alias}")
            self.connection.execute(attach_statement(self.config))

    def current_snapshot(self) -> int:
        """The number of the newest snapshot; inside a transaction, of the one that it began on."""
        ((current,),) = self.rows("SELECT id FROM ducklake_current_snapshot(?)", [self.alias])
        return int(current)

    def sign(self, author: str, message: str, extra_info: str | None = None) -> None:
        """Give the snapshot that the open transaction becomes its message."""
        more, values = ("", []) if extra_info is None else (", extra_info => ?", [extra_info])
        self.rows(f"CALL {identifier(self.alias)}.set_commit_message(?, ?{more})", [author, message, *values])

    def commit_lock(self) -> AbstractContextManager[None]:
        """The lock under which commits follow each other; see `lock.py`."""
        # An open DuckDB-file catalog is this process's alone, and `DuckLake.open` holds its lock.
        return nullcontext() if isinstance(self.config.catalog, DuckdbCatalog) else commit_lock(self.config)

    def exists(self, table: TableName) -> bool:
        """Whether the lake has this table."""
        found = self.rows(
            "SELECT 1 FROM information_schema.tables "
            "WHERE table_catalog = ? AND lower(table_schema) = lower(?) AND lower(table_name) = lower(?)",
            [self.alias, table.schema, table.table],
        )
        return bool(found)


class DuckLake:
    """Opens one lake; keep the object, its engine is loaded once."""

    def __init__(self, config: Lake) -> None:
        self.config = config
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._turn = threading.Lock()

    @contextmanager
    def open(self, *, create: bool = False, read_only: bool = False) -> Iterator[LakeSession]:
        """Attach the lake for the time of the block. Threads of one process take turns.

        Args:
            create: make the catalog when it does not exist yet.
            read_only: let no statement write.

        Raises:
            NoLakeError: the catalog does not exist, and `create` is not set.
            CatalogUnreachableError: the catalog's server does not answer.
            CatalogLockedError: another process holds the catalog for too long.
            CatalogError: the catalog refuses.
        """
        with self._turn, self._held(create=create, read_only=read_only):
            engine = self._attach(create=create, read_only=read_only)
            try:
                session = LakeSession(self.config, engine)
                _ = session.unknown_specification  # read when the lake is opened
                yield session
            except BaseException:
                with suppress(duckdb.Error):  # what counts is the error that is on its way
                    self._detach(engine)
                raise
            self._detach(engine)

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
        """Holds the file of a DuckDB catalog, which one process at a time can open."""
        catalog = self.config.catalog
        if not isinstance(catalog, DuckdbCatalog):
            return nullcontext()
        folder = Path(catalog.path).parent
        if create:
            _make_folder(folder, "catalog")
        else:
            self._refuse_absent_file()
        if read_only and not os.access(folder, os.W_OK):
            return nullcontext()  # no lock can be made there; `_patiently` waits for the file itself
        return commit_lock(self.config)

    def _detach(self, engine: duckdb.DuckDBPyConnection) -> None:
        if self.config.is_managed:
            return
        try:
            engine.execute(f"DETACH DATABASE IF EXISTS {ALIAS}")
        except duckdb.Error:
            self._engine = None  # it cannot be attached to this one again
            raise

    def _attach(self, *, create: bool, read_only: bool) -> duckdb.DuckDBPyConnection:
        if self._engine is None:
            self._engine = self._new_engine()
        statement = attach_statement(self.config, read_only=read_only)
        with translated(self.config):
            try:
                self._refuse_absent_file()
                self._patiently(self._existing(statement))
            except (NoLakeError, duckdb.Error) as error:
                if matches(error, Meaning.ENCRYPTION):
                    raise self._otherwise_encrypted() from error
                if not isinstance(error, NoLakeError) and not matches(error, Meaning.ABSENT):
                    raise
                if not create:
                    raise self._no_lake() from error
                self._create(statement)
        return self._engine

    def _new_engine(self) -> duckdb.DuckDBPyConnection:
        engine = open_engine(extensions(self.config))
        with translated(self.config):
            for statement in secret_statements(self.config):
                engine.execute(statement)
        return engine

    def _refuse_absent_file(self) -> None:
        # SQLite makes a file by looking for it.
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
            "correct attach_options, or name another lake; one that is there stays as it was made.",
        )

    def _existing(self, statement: str) -> str:
        if self.config.is_managed:
            return statement  # attaching makes no database there
        return statement.removesuffix(")") + ", CREATE_IF_NOT_EXISTS false)"

    def _create(self, statement: str) -> None:
        """Make the catalog; of several processes that would, one does."""
        if self.config.is_managed:
            # By an engine of its own: the first statement that reaches MotherDuck says for good whether an engine has
            # one database, as ours must, or all of the user's, as the making needs.
            with self._new_engine() as engine:
                for first in create_statements(self.config):
                    engine.execute(first)
            self._patiently(statement)
            return
        if isinstance(self.config.catalog, FileCatalog):
            _make_folder(Path(self.config.catalog.path).parent, "catalog")
        if isinstance(self.config.storage, LocalStorage):
            _make_folder(Path(self.config.storage.path), "storage")
        if isinstance(self.config.catalog, DuckdbCatalog):
            self._patiently(statement)
            return
        with commit_lock(self.config):
            for first in create_statements(self.config):
                self._patiently(first)
            self._patiently(statement)

    def _patiently(self, statement: str) -> None:
        """Execute an ATTACH, again while another process holds the catalog's file."""
        assert self._engine is not None  # noqa: S101 - _attach made it
        execute = partial(self._engine.execute, statement)
        retry(execute, passes=is_locked, limit=Limit(seconds=ATTACH_PATIENCE), pause=pause_between(0.02, 0.2))

    @property
    def location(self) -> str:
        """The catalog's place for messages, without secrets."""
        return catalog_location(self.config)


def catalog_location(config: Lake) -> str:
    """A catalog's place for messages, without secrets."""
    catalog = config.catalog
    if isinstance(catalog, PostgresCatalog):
        return postgres.place(catalog)
    if isinstance(catalog, MotherDuckCatalog):
        return f"md:{catalog.database}"
    return f"{catalog.type}:{catalog.path}"


def storage_location(config: Lake) -> str:
    """A storage's place for messages: the root of its files, or who keeps them where MotherDuck does."""
    return "managed by MotherDuck" if config.is_managed else data_path(config)


@contextmanager
def translated(config: Lake) -> Iterator[None]:
    """DuckDB's errors as `CatalogError`, in one paragraph and without the secrets of the config."""
    try:
        yield
    except duckdb.Error as error:
        # Below its sentence DuckDB quotes a piece of the statement, and that may be a piece of a secret.
        error.args = (str(error).split("\n\nLINE ")[0],)
        mask_error(error, config.catalog, *config.storages)
        if storage_failed(error):
            raise LakeUnreachableError(
                f"a storage of the lake cannot be reached or fails: {' '.join(str(error).split())[:1000].rstrip('.')}:",
                "check endpoint and network, and run it again.",
            ) from error
        if is_refusal(error):
            raise CatalogError(
                f"a storage of the lake refuses access: {' '.join(str(error).split())[:1000].rstrip('.')}:",
                "grant its key the right to read and write there (of S3: s3:GetObject, s3:PutObject), or correct it.",
            ) from error
        raise _of_catalog(error, config) from error


def _of_catalog(error: duckdb.Error, config: Lake) -> CatalogError:
    if isinstance(config.catalog, PostgresCatalog) and (away := postgres.unreachable(config.catalog, error)):
        return away
    if is_locked(error):
        return locked(catalog_location(config), str(error))
    return _told(str(error), catalog_location(config))


def _told(text: str, place: str) -> CatalogError:
    """What DuckDB says, with the advice that fits it."""
    for said in texts(Meaning.REJECTED):
        if found := re.search(said.pattern, text):
            # Of a statement with thousands of columns only what is wrong with it is worth reading.
            return CatalogError(f"the catalog {place} says: {' '.join(found[0].split()).rstrip('.')}:", said.advice)
    return CatalogError(
        f"the catalog {place} says: {' '.join(text.split())[:1000].rstrip('.')}:",
        "check that catalog and storage are reachable and that the statement fits the lake.",
    )


def _make_folder(folder: Path, what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError(
            f"the folder {folder} for the lake's {what} cannot be made: {error.strerror}:",
            f"make it, or correct `{what}` in the config.",
        ) from error


def storage_failed(error: duckdb.Error) -> bool:
    """Whether the storage failed in a way that may be gone later, also after DuckDB's own retries."""
    status = getattr(error, "status_code", None)  # of an HTTPException
    if status is not None:
        return int(status) == HTTPStatus.TOO_MANY_REQUESTS or int(status) >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, duckdb.IOException) and matches(error, Meaning.NO_ANSWER)


def is_refusal(error: duckdb.Error) -> bool:
    """Whether a storage answered that its key may not do this."""
    return getattr(error, "status_code", None) in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
