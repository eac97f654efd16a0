"""Lakes of worlds are copies of one that a worker creates once: to create one takes half of a small ingest."""

import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from lake_assets.config.catalogs import SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.config.storages import LocalStorage
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.tables import create_ledger


def create_by_copy(lake: Lake) -> None:
    """Create a lake with an empty ledger, if it does not exist and is one of files without options of its own."""
    catalog, storage = lake.catalog, lake.storage
    if not isinstance(catalog, SqliteCatalog) or not isinstance(storage, LocalStorage) or Path(catalog.path).exists():
        return
    if lake != Lake.model_validate({"catalog": catalog.model_dump(), "storage": storage.model_dump()}):
        return
    Path(catalog.path).write_bytes(_template())
    with sqlite3.connect(catalog.path) as database:
        database.execute(
            "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", [storage.path.rstrip("/") + "/"]
        )
    database.close()


@cache
def _template() -> bytes:
    """The SQLite file of a new lake."""
    with tempfile.TemporaryDirectory(prefix="lake-assets-template-") as folder:
        catalog = Path(folder) / "catalog.sqlite"
        document = {
            "catalog": {"type": "sqlite", "path": str(catalog)},
            "storage": {"type": "local", "path": str(Path(folder) / "data")},
        }
        with DuckLake(Lake.model_validate(document)).open(create=True) as session:
            create_ledger(session)
        return catalog.read_bytes()
