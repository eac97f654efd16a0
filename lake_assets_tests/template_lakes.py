"""Lakes of worlds are copies of one that a worker creates once: to create one takes half of a small ingest."""

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb

from lake_assets.config.lake import DuckdbCatalog, Lake, PostgresCatalog, SqliteCatalog
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.tables import create_ledger

MOVE = "UPDATE ducklake_metadata SET value = {} WHERE key = 'data_path'"


def create_by_copy(lake: Lake) -> None:
    """Create a lake with an empty ledger, if it does not exist yet and has no options of its own."""
    if lake.storage is None or lake != Lake.model_validate(_document(lake.catalog, lake.storage)):
        return
    catalog = lake.catalog
    if isinstance(catalog, SqliteCatalog) and not Path(catalog.path).exists():
        Path(catalog.path).write_bytes(_template_file("sqlite"))
        with closing(sqlite3.connect(catalog.path)) as database, database:
            database.execute(MOVE.format("?"), [lake.data_path])
    elif isinstance(catalog, DuckdbCatalog) and not Path(catalog.path).exists():
        Path(catalog.path).write_bytes(_template_file("duckdb"))
        with duckdb.connect(catalog.path, config={"threads": 1}) as engine:
            engine.execute(MOVE.format("?"), [lake.data_path])
    elif isinstance(catalog, PostgresCatalog):
        import psycopg  # noqa: PLC0415 - may not be installed

        with suppress(psycopg.Error):  # a server that is away or refuses is for the package to report
            _copy_database(catalog, lake.data_path)


def _document(catalog: Any, storage: Any) -> dict[str, Any]:
    return {"catalog": catalog, "storage": storage}


@cache
def _template_file(kind: str) -> bytes:
    """The file of a new lake's catalog."""
    with tempfile.TemporaryDirectory(prefix="lake-assets-template-") as folder:
        file = Path(folder) / "catalog"
        _create({"type": kind, "path": str(file)})
        return file.read_bytes()


def _create(catalog: Any) -> None:
    """Create a lake whose data path will be another."""
    storage = {"type": "local", "path": str(Path(tempfile.gettempdir()) / f"lake-assets-{uuid4().hex}")}
    with DuckLake(Lake.model_validate(_document(catalog, storage))).open(create=True) as session:
        create_ledger(session)


def _copy_database(catalog: PostgresCatalog, path: str) -> None:
    """Put a new lake into an empty database."""
    with closing(_connect(catalog, catalog.database)) as connection:
        ((table,),) = connection.execute("SELECT to_regclass('ducklake_metadata')")
    if table is not None:
        return
    template = _template_database(catalog.port, lambda name: catalog.model_copy(update={"database": name}))
    copy = f"copy_{uuid4().hex}"
    with closing(_connect(catalog, "postgres")) as connection:
        connection.execute(f'CREATE DATABASE {copy} TEMPLATE "{template}"')  # first: not each user may
        connection.execute(f'DROP DATABASE "{catalog.database}"')
        connection.execute(f'ALTER DATABASE {copy} RENAME TO "{catalog.database}"')
    with closing(_connect(catalog, catalog.database)) as connection:
        connection.execute(MOVE.format("%s"), [path])


_TEMPLATES: dict[int, str] = {}  # databases of the servers of this process, by port


def _template_database(port: int, catalog: Callable[[str], PostgresCatalog]) -> str:
    if port not in _TEMPLATES:
        name = f"template_{uuid4().hex}"
        with closing(_connect(catalog("postgres"), "postgres")) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        _create(catalog(name))
        _TEMPLATES[port] = name
    return _TEMPLATES[port]


def _connect(catalog: PostgresCatalog, database: str) -> Any:
    import psycopg  # noqa: PLC0415 - may not be installed

    password = catalog.password.get_secret_value() if catalog.password else None
    return psycopg.connect(
        host=catalog.host, port=catalog.port, user=catalog.user, password=password, dbname=database, autocommit=True
    )
