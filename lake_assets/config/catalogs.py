"""The catalogs of a DuckLake."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from lake_assets.config.fields import FolderPath, Identifier
from lake_assets.config.model import Model

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


class SqliteCatalog(Model):
    """A SQLite file, for several processes of one machine."""

    type: Literal["sqlite"]
    path: FolderPath = Field(description="The catalog's file.")


class DuckdbCatalog(Model):
    """A DuckDB file, for one process at a time; others are blocked until it closes the file."""

    type: Literal["duckdb"]
    path: FolderPath = Field(description="The catalog's file.")


class PostgresCatalog(Model):
    """A PostgreSQL database, for any number of writers on any machine."""

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


class MotherDuckCatalog(Model):
    """A DuckLake database of MotherDuck, on your own bucket or with files that MotherDuck manages.

    The token is read from the environment's `MOTHERDUCK_TOKEN`, not from the config. This follows the vendor's manual
    and was never run against the service.
    """

    type: Literal["motherduck"]
    database: Identifier = Field(description="Name of the DuckLake database.")
    store_secret: bool = Field(
        default=False,
        description="Store the storage's keys in MotherDuck, so that its own compute can read the bucket.",
    )


FileCatalog = SqliteCatalog | DuckdbCatalog
Catalog = Annotated[SqliteCatalog | DuckdbCatalog | PostgresCatalog | MotherDuckCatalog, Field(discriminator="type")]
