"""A lake of `lake.yaml`: catalog, storage, maintenance, audit, and the names of the tables that record the runs."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator

from lake_assets.base.machine import cache_folder
from lake_assets.base.texts import meant
from lake_assets.config.automation import Cron, TimeZone
from lake_assets.config.fields import FolderPath, Identifier, Model, check_identifier
from lake_assets.config.storages import AnyStorage, LocalStorage, Storage

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


METADATA_SCHEMA = "metadata_schema"
DUCKLAKE_VERSION = "ducklake_version"

_DUCKLAKE_VERSIONS = ("1.0", "1.1")  # versions of the specification; the second needs DuckDB 2

OptionValue = bool | int | str | dict[str, bool | int | str]


class CatalogModel(Model):
    """What a lake's config, a sensor or a message needs of a catalog; `lake/backends/` has what the lake itself needs.

    No other code asks for the type of a catalog.
    """

    type: str

    default_schema: ClassVar[str] = "main"  # that DuckLake's tables are in, if the config names none
    has_schemas: ClassVar[bool] = False  # whether it can have several lakes, each in a schema
    is_service: ClassVar[bool] = False  # MotherDuck: it may manage files, sees no folders, and each query costs
    takes_several: ClassVar[bool] = True  # processes at a time

    @property
    def file(self) -> Path | None:
        """Its file; None if it is on a server."""
        return None

    @property
    def location(self) -> str:
        """Where it is, for messages, without secrets."""
        raise NotImplementedError

    def misfit(self, storage: AnyStorage | None, options: Mapping[str, OptionValue]) -> str | None:
        """Return why it cannot have a lake with this storage and these options of ATTACH; None if it can."""
        if storage is None and not self.is_service:
            return "storage is missing: give a folder or a bucket; only MotherDuck can manage a lake's files"
        if METADATA_SCHEMA in options and not self.has_schemas:
            return (
                f"attach_options: {METADATA_SCHEMA} is for catalogs of type postgres and duckdb: a {self.type} "
                "catalog holds one lake, so leave it out"
            )
        return None


class FileCatalog(CatalogModel):
    """A file on this machine."""

    path: FolderPath = Field(description="The catalog's file.")

    @property
    def file(self) -> Path:
        """Its file."""
        return Path(self.path)

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return f"{self.type}:{self.path}"


class SqliteCatalog(FileCatalog):
    """A SQLite file, for several processes of one machine."""

    type: Literal["sqlite"]


class DuckdbCatalog(FileCatalog):
    """A DuckDB file, for one process at a time; others are blocked until it closes the file."""

    has_schemas = True
    takes_several = False

    type: Literal["duckdb"]


class PostgresCatalog(CatalogModel):
    """A PostgreSQL database, for any number of writers on any machine."""

    default_schema = "public"
    has_schemas = True

    type: Literal["postgres"]
    database: str = Field(min_length=1, description="Name of the database.")
    host: str = Field("localhost", description="The server's host name.")
    port: int = Field(5432, ge=1, le=65535, description="The server's port.")
    user: str = Field(description="User that owns the catalog's tables.")
    password: SecretStr | None = Field(None, description="The user's password.")
    connect_timeout: int = Field(10, ge=1, le=300, description="Seconds until a connection counts as failed.")
    sslmode: SslMode | None = Field(
        None, description="Whether the connection is encrypted, and the server's certificate checked, as libpq has it."
    )
    sslrootcert: Literal["system"] | FolderPath | None = Field(
        None, description="File of the authority that the server's certificate is checked against; `system`."
    )
    sslcert: FolderPath | None = Field(None, description="File of the client's certificate.")
    sslkey: FolderPath | None = Field(None, description="File of the client's key.")

    @property
    def location(self) -> str:
        """Where it is, for messages, without secrets."""
        return f"postgres://{self.host}:{self.port}/{self.database}"


class MotherDuckCatalog(CatalogModel):
    """A DuckLake database of MotherDuck, on your own bucket or with files that MotherDuck manages.

    The token is read from the environment's `MOTHERDUCK_TOKEN`, not from the config. This follows the vendor's manual
    and was never run against the service.
    """

    is_service = True

    type: Literal["motherduck"]
    database: Identifier = Field(description="Name of the DuckLake database.")
    store_secret: bool = Field(
        default=False,
        description="Store the storage's keys in MotherDuck, so that its own compute can read the bucket.",
    )

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return f"md:{self.database}"

    def misfit(self, storage: AnyStorage | None, options: Mapping[str, OptionValue]) -> str | None:
        """Return why it cannot have a lake with this storage and these options of ATTACH; None if it can."""
        if storage is not None and storage.is_local:
            return "MotherDuck cannot read a folder of this machine: give the lake's storage a bucket"
        if options.get("encrypted") is True:
            return "MotherDuck does not document encrypted lakes: leave attach_options: encrypted out"
        if storage is None and options:
            return "attach_options are for lakes that DuckLake's extension attaches: leave them out, or give storage"
        if storage is None and self.store_secret:
            return "store_secret stores the keys of storage, and there is none: leave it out"
        if storage is not None and self.store_secret and storage.has_role:
            return "MotherDuck would store keys of role_arn, which expire: leave store_secret out"
        return super().misfit(storage, options)


Catalog = Annotated[SqliteCatalog | DuckdbCatalog | PostgresCatalog | MotherDuckCatalog, Field(discriminator="type")]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_name(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(check_identifier(value))
    except ValueError:
        return False


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and all(check_identifier(key) for key in value)


_Form = tuple[Callable[[object], bool], str]  # whether an option has such a value, and its description
_BOOLEAN: _Form = (lambda value: isinstance(value, bool), "true or false")
_KNOWN: Mapping[str, _Form] = {
    "automatic_migration": _BOOLEAN,
    "busy_timeout": (_is_count, "a number of milliseconds"),
    "data_inlining_row_limit": (_is_count, "a number of rows"),
    DUCKLAKE_VERSION: (lambda value: value in _DUCKLAKE_VERSIONS, "'1.0' or '1.1', in quotes"),
    "encrypted": _BOOLEAN,
    "metadata_parameters": (_is_map, "a mapping of the catalog database's own options"),
    METADATA_SCHEMA: (_is_name, "the name of a schema of the catalog's database: letters, digits and underscores"),
    "override_data_path": _BOOLEAN,
    "write_deletion_vectors": _BOOLEAN,
}

ATTACH_OPTIONS = frozenset(_KNOWN)

_OURS = "lake_assets sets it itself"
_REFUSED: Mapping[str, str] = {
    "access_mode": _OURS,
    "create_if_not_exists": f"{_OURS}: only the first ingest creates the lake",
    "data_path": f"{_OURS}, from the lake's `storage`",
    "metadata_catalog": f"{_OURS}: commits find the catalog's tables by that name",
    "metadata_path": f"{_OURS}, from the lake's `catalog`",
    "read_only": f"{_OURS}: queries are read-only and ingests are not",
    "read_write": _OURS,
    "snapshot_time": "a lake at a past snapshot cannot be written to; use AT (TIMESTAMP => …) in a query",
    "snapshot_version": "a lake at a past snapshot cannot be written to; use AT (VERSION => …) in a query",
    "type": _OURS,
}
_REFUSED_PARAMETERS: Mapping[str, str] = {
    "encryption_key": "options must not have secrets",
    "journal_mode": f"{_OURS}: a SQLite catalog is in WAL mode, because otherwise readers block commits",
    "password": "options must not have secrets; use the catalog's `password`",
    "secret": _OURS,
}


def check_attach_options(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return the options by their names in lower case."""
    checked: dict[str, OptionValue] = {}
    for name, value in options.items():
        option = name.lower()
        if option in checked:
            raise ValueError(f"attach_options has {name!r} twice: remove one of them")
        if option in _REFUSED:
            raise ValueError(f"attach_options cannot have {name!r}: {_REFUSED[option]}")
        if option.startswith("meta_"):
            raise ValueError(f"{name!r} is written as metadata_parameters: {{{option.removeprefix('meta_')}: …}}")
        if option not in _KNOWN:
            raise ValueError(f"DuckLake has no option {name!r} for ATTACH: {meant(option, _KNOWN)}")
        fits, form = _KNOWN[option]
        if not fits(value):
            raise ValueError(f"attach_options: {name} is {form}")
        checked[option] = value
    parameters = checked.get("metadata_parameters")
    for parameter in parameters if isinstance(parameters, dict) else ():
        if reason := _REFUSED_PARAMETERS.get(parameter.lower()):
            raise ValueError(f"metadata_parameters cannot have {parameter!r}: {reason}")
    return checked


class Maintenance(Model):
    """The rules of a lake's maintenance. Ages are in days."""

    cron: Cron = Field("30 3 * * *", description="When Dagster runs it.")
    time_zone: TimeZone = Field("UTC", description="Time zone of `cron`.")
    expire_older_than: float = Field(
        7, gt=0, le=36500, description="Days after which a snapshot expires; the newest never does."
    )
    delete_older_than: float = Field(
        1, ge=0, le=36500, description="Days after which a file is deleted that only expired snapshots have."
    )
    orphans_older_than: float = Field(
        3,
        ge=0.5,
        le=36500,
        description="Days after which a file is deleted that no snapshot has; must exceed the longest run.",
    )
    ledger_retention: float | None = Field(
        None,
        ge=1,
        le=36500,
        description="Days after which rows of ledger and manifest are deleted, but not the newest of a partition; "
        "null: never.",
    )
    delta_retention: float | None = Field(
        None,
        ge=1,
        le=36500,
        description="Days after which exported files of streams with `deltas` are deleted; null: never.",
    )
    compact: int | None = Field(
        10, ge=2, le=1_000_000, description="Compact partitions with this many files or more; null: never."
    )


class Audit(Model):
    """When Dagster checks the whole tables of a lake. After a run, checks look at the run's partitions only."""

    cron: Cron = Field("30 4 * * *", description="When Dagster runs it.")
    time_zone: TimeZone = Field("UTC", description="Time zone of `cron`.")


class Lake(Model):
    """A DuckLake: its catalog, its storage, and the names of the two tables that record the runs.

    If there is no storage, MotherDuck manages the files. Rows come into such a lake, and into an encrypted one, only by
    INSERT: files that were written outside of it cannot be registered.
    """

    catalog: Catalog = Field(description="The database of the lake's tables, files and snapshots.")
    storage: Storage | None = Field(
        None, description="Storage of the lake's files; without it, MotherDuck manages them."
    )
    staging: Storage | None = Field(
        None,
        description="Storage of rows that a commit inserts; below `storage` when absent. Only for lakes that are "
        "encrypted or managed by MotherDuck.",
    )
    ledger: Identifier = Field("ingest_runs", description="Table with one row for each run of a partition.")
    manifest: Identifier = Field("ingest_files", description="Table of the objects that each partition was read from.")
    delta_manifest: Identifier = Field(
        "ingest_deltas", description="Table of the files that commits export, if a stream of the lake has `deltas`."
    )
    dead_letter_manifest: Identifier = Field(
        "ingest_dead_letters",
        description="Table of the files of bad rows, if a stream of the lake has `on_bad_row: dead_letter`.",
    )
    ledger_schema: Identifier = Field("main", description="Schema of these tables.")
    commit_retries: int = Field(
        20, ge=0, le=1000, description="Retries of a write to the catalog after a conflict with another writer."
    )
    maintenance: Maintenance | None = Field(
        None, description="Schedule and rules of the job `maintain_LAKE`; not scheduled when absent."
    )
    audit: Audit | None = Field(
        None, description="Schedule of the job `audit_LAKE`, the checks of whole tables; not scheduled when absent."
    )
    attach_options: dict[str, OptionValue] = Field(default_factory=dict, description="Options of DuckLake's `ATTACH`.")
    _indexed: tuple[AnyStorage, ...] = PrivateAttr(())
    _exports_deltas: bool = PrivateAttr(default=False)
    _has_dead_letters: bool = PrivateAttr(default=False)

    @property
    def indexed(self) -> tuple[AnyStorage, ...]:
        """The sources of its streams in mode index, which have files of the lake."""
        return self._indexed

    @property
    def exports_deltas(self) -> bool:
        """Whether one of its streams exports the changes of its commits."""
        return self._exports_deltas

    @property
    def has_dead_letters(self) -> bool:
        """Whether one of its streams writes bad rows beside its landing zone."""
        return self._has_dead_letters

    def note_streams(self, indexed: Iterable[AnyStorage], *, exports_deltas: bool, has_dead_letters: bool) -> None:
        """Note what its streams store in it. `LakeConfig` calls this while it validates."""
        self._indexed, self._exports_deltas, self._has_dead_letters = tuple(indexed), exports_deltas, has_dead_letters

    @field_validator("attach_options", mode="before")
    @classmethod
    def _known_options(cls, options: object) -> object:
        # Before pydantic checks the values: it would report an error for each type of the union.
        return check_attach_options({str(k): v for k, v in options.items()}) if isinstance(options, dict) else options

    @property
    def is_managed(self) -> bool:
        """Whether MotherDuck manages its files, which other clients cannot access."""
        return self.storage is None

    @property
    def is_encrypted(self) -> bool:
        """Whether DuckLake encrypts its files, each with a key of its own in the catalog."""
        return self.attach_options.get("encrypted") is True

    @property
    def inserts_only(self) -> bool:
        """Whether rows are inserted from staged files, because files cannot be registered."""
        return self.is_managed or self.is_encrypted

    @property
    def claim(self) -> str:
        """The table that every commit to a managed lake updates, so that overlapping commits conflict."""
        return f"{self.ledger}_claim"

    @property
    def own_tables(self) -> frozenset[str]:
        """The names of its own tables, in lower case, because DuckLake's names are case-insensitive."""
        return frozenset(self._table_names)

    def shares_table(self, name: str) -> bool:
        """Return whether two of its own tables have this name."""
        return self._table_names.count(name.lower()) > 1

    @property
    def _table_names(self) -> list[str]:
        optional = (
            (self.claim, self.is_managed),
            (self.delta_manifest, self.exports_deltas),
            (self.dead_letter_manifest, self.has_dead_letters),
        )
        names = [self.ledger, self.manifest, *(name for name, is_there in optional if is_there)]
        return [name.lower() for name in names]

    @property
    def own_storage(self) -> AnyStorage:
        """The storage of its files; only a lake that MotherDuck does not manage has one."""
        assert self.storage is not None, "a managed lake has no storage"  # noqa: S101 - the callers checked
        return self.storage

    @property
    def data_path(self) -> str:
        """The root of its own storage, with a trailing slash."""
        return f"{self.own_storage.root}/"

    @property
    def files_location(self) -> str:
        """Where its files are, for messages: the root of its storage, or that MotherDuck manages them."""
        return "managed by MotherDuck" if self.is_managed else self.data_path

    @property
    def staging_storage(self) -> AnyStorage:
        """The storage of staged files: `staging`, the lake's storage, or this user's cache folder."""
        return self.staging or self.storage or LocalStorage(path=str(cache_folder() / "staging"))

    @property
    def storages(self) -> tuple[AnyStorage, ...]:
        """Every storage that DuckDB reads or writes."""
        return (*(storage for storage in (self.storage, self.staging) if storage), *self.indexed)

    @model_validator(mode="after")
    def _storage_fits(self) -> Self:
        if (misfit := self.catalog.misfit(self.storage, self.attach_options)) is not None:
            raise ValueError(misfit)
        for key, storage in (("storage", self.storage), ("staging", self.staging)):
            if storage is not None and storage.read_only:
                raise ValueError(f"the lake's {key} is written to: remove anonymous, and use keys or a role")
            if storage is not None and storage.lacks_hmac_key:
                raise ValueError(
                    f"DuckDB accesses Google Cloud Storage with an HMAC key: give the lake's {key} key_id and secret, "
                    "or provider: credential_chain to find them in the environment (AWS_ACCESS_KEY_ID, "
                    "AWS_SECRET_ACCESS_KEY)"
                )
        if self.staging is not None and not self.inserts_only:
            raise ValueError(
                "staging is for lakes that are encrypted or managed by MotherDuck: others register the files that "
                "tasks write, so leave it out"
            )
        return self

    @property
    def metadata_schema(self) -> str | None:
        """The schema of DuckLake's tables in the catalog's database; None for the default schema."""
        schema = self.attach_options.get(METADATA_SCHEMA)
        return None if schema is None else str(schema)

    @property
    def catalog_schema(self) -> str:
        """The schema of DuckLake's tables, by name: the given one, or the one that DuckLake takes by default."""
        return self.metadata_schema or self.catalog.default_schema

    @model_validator(mode="after")
    def _two_tables(self) -> Self:
        if len(self.own_tables) < (3 if self.is_managed else 2):
            raise ValueError(
                "ledger and manifest are two tables, and a lake that MotherDuck manages also has <ledger>_claim: give "
                "each another name"
            )
        return self
