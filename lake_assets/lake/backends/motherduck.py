"""The catalog of a lake on MotherDuck, which only its own extension opens, and which has no locks."""

import os

from lake_assets.base.duckdb_engine import identifier, literal
from lake_assets.base.errors import ConfigError
from lake_assets.config.lake import MotherDuckCatalog
from lake_assets.config.secrets import MOTHERDUCK_TOKEN
from lake_assets.lake.backends.database_backend import ALIAS, CatalogBackend, create_secret
from lake_assets.lake.catalog import spec
from lake_assets.storage.storage_kinds import backend_of


class MotherDuckBackend(CatalogBackend[MotherDuckCatalog]):
    """A database of MotherDuck, on the user's own bucket or with files that MotherDuck manages."""

    extensions = ("motherduck",)
    prefix = "md:"

    @property
    def database(self) -> str:
        """The lake's database, or that of its catalog if the files are the user's."""
        name = self.catalog.database
        return name if self.lake.is_managed else spec.motherduck_database(name)

    @property
    def alias(self) -> str:
        """The name of the attached lake: a managed database keeps its own name."""
        return self.catalog.database if self.lake.is_managed else ALIAS

    def login(self) -> tuple[str, ...]:
        """Return the statement with the token of the environment."""
        token = os.environ.get(MOTHERDUCK_TOKEN)
        if not token:
            problem = f"a lake on MotherDuck needs {MOTHERDUCK_TOKEN} in the environment:"
            raise ConfigError(problem, "set it to a token.")
        return (f"SET motherduck_token = {literal(token)}",)

    def create_statements(self) -> tuple[str, ...]:
        """Return the statements that create the database."""
        database = identifier(self.catalog.database)
        if self.lake.is_managed:
            return ("ATTACH 'md:'", f"CREATE DATABASE IF NOT EXISTS {database} (TYPE DUCKLAKE)")
        statements = ["ATTACH IF NOT EXISTS 'md:'"]
        if self.catalog.store_secret:
            options = backend_of(self.lake.own_storage).as_duckdb_secret()
            statements.append(create_secret(f"{self.catalog.database}_storage", options, where=" IN MOTHERDUCK"))
        path = literal(self.lake.data_path)
        statements.append(f"CREATE DATABASE IF NOT EXISTS {database} (TYPE DUCKLAKE, DATA_PATH {path})")
        return tuple(statements)
