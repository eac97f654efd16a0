"""The databases of catalogs: a file and a class for each type, behind `CatalogBackend`. Nobody else asks for it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from lake_assets.config.lake import DuckdbCatalog, Lake, MotherDuckCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.lake.backends.database_backend import COMMITS, CatalogBackend
from lake_assets.lake.backends.duckdb_file import DuckdbBackend
from lake_assets.lake.backends.motherduck import MotherDuckBackend
from lake_assets.lake.backends.postgres import PostgresBackend
from lake_assets.lake.backends.sqlite import SqliteBackend


def catalog_backend(lake: Lake) -> CatalogBackend[Any]:
    """Return a new object for the database of a lake's catalog, without a connection yet."""
    match lake.catalog:
        case SqliteCatalog() as catalog:
            return SqliteBackend(lake, catalog)
        case DuckdbCatalog() as catalog:
            return DuckdbBackend(lake, catalog)
        case PostgresCatalog() as catalog:
            return PostgresBackend(lake, catalog)
        case MotherDuckCatalog() as catalog:
            return MotherDuckBackend(lake, catalog)


@contextmanager
def commit_lock(lake: Lake, timeout: float | None = None) -> Iterator[None]:
    """Hold the lock of the lake's commits, without a session; see `CatalogBackend.lock`."""
    with closing(catalog_backend(lake)) as backend, backend.lock(COMMITS, timeout):
        yield
