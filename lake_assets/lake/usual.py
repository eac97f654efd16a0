"""Whether a catalog is as the config says, so that DuckDB need not attach the lake to find out."""

from pathlib import Path

from lake_assets.config.attach_options import DUCKLAKE_VERSION, METADATA_SCHEMA
from lake_assets.config.catalogs import PostgresCatalog, SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.errors import CatalogError, CatalogUnreachableError
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.driver import Driver, driver_errors


def usual_version(lake: Lake, driver: Driver, *, is_read_only: bool) -> str | None:
    """The version of DuckLake's specification in the catalog, if an ATTACH would only confirm what the config says.

    None if the lake must be attached first: it does not exist yet, has another data path, is or must be encrypted, has
    options for ATTACH, or its catalog's database cannot be read by a driver.

    Raises:
        CatalogUnreachableError: the catalog's server is away.
    """
    if not isinstance(lake.catalog, SqliteCatalog | PostgresCatalog) or lake.inserts_only:
        return None
    if lake.attach_options.keys() - {DUCKLAKE_VERSION, METADATA_SCHEMA}:
        return None
    if isinstance(lake.catalog, SqliteCatalog) and not Path(lake.catalog.path).is_file():
        return None  # SQLite would create it
    errors: tuple[type[Exception], ...] = (CatalogError, *driver_errors(lake))
    try:
        if driver.is_sqlite and not is_read_only and driver.rows("PRAGMA journal_mode") != [("wal",)]:
            return None  # ATTACH sets it
        found = dict(driver.rows(spec.SETTINGS_QUERY))
    except CatalogUnreachableError:
        raise
    except errors:
        return None  # the ATTACH says what is wrong
    if found.get("data_path") != data_path(lake) or found.get("encrypted") != "false":
        return None
    version = found.get("version")
    return None if version is None or spec.unknown(version) is not None else version
