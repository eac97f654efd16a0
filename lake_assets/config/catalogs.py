"""The catalogs of a DuckLake."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr

from lake_assets.base.texts import meant
from lake_assets.config.fields import FolderPath, Identifier, Model, check_identifier
from lake_assets.config.storages import AnyStorage

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
