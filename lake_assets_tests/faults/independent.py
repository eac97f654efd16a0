"""Readers of a world that use no code of this package: of its catalog's tables, and of its files.

They read what a config's document says. Lakes on Azure, Google Cloud and MotherDuck are not known here.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lake_assets_tests.world import World

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]
"""The rows of each table of a catalog's database, by its name."""


def catalog_tables(world: World) -> Tables:
    """All tables of DuckLake in the catalog's database, read by the database's own client; none without a catalog."""
    match world.catalog["type"]:
        case "sqlite":
            return _sqlite_tables(Path(world.catalog["path"]))
        case "duckdb":
            return _duckdb_tables(Path(world.catalog["path"]))
        case "postgres":
            return _postgres_tables(world.catalog, _schema(world))
    raise AssertionError(world.catalog["type"])


def _sqlite_tables(file: Path) -> Tables:
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as database:
        database.row_factory = sqlite3.Row
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [dict(row) for row in database.execute(f'SELECT * FROM "{name}"')] for name in names}


def _duckdb_tables(file: Path) -> Tables:
    if not file.exists():
        return {}
    with duckdb.connect(file, read_only=True) as database:
        names = [str(row[0]) for row in database.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: _dicts(database.execute(f'FROM "{name}"')) for name in names}


def _dicts(result: duckdb.DuckDBPyConnection) -> list[Row]:
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _postgres_tables(catalog: Row, schema: str) -> Tables:
    import psycopg  # noqa: PLC0415 - may not be installed
    from psycopg import rows, sql  # noqa: PLC0415

    names = ("host", "port", "user", "password")
    options = {name: catalog[name] for name in names if name in catalog}
    with psycopg.connect(dbname=catalog["database"], row_factory=rows.dict_row, **options) as database:
        tables = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
        return {
            row["tablename"]: database.execute(
                sql.SQL("SELECT * FROM {}.{}").format(sql.Identifier(schema), sql.Identifier(row["tablename"]))
            ).fetchall()
            for row in tables
        }


def _schema(world: World) -> str:
    return str(world.lake_options.get("attach_options", {}).get("metadata_schema", "public"))


@dataclass(frozen=True)
class Files:
    """The files of one storage, by their URIs."""

    system: fs.FileSystem
    root: str  # as URIs have it, without a slash at the end
    place: str  # the same for the file system

    @classmethod
    def of(cls, storage: Row) -> "Files":
        """The files of a storage of a config's document."""
        if storage["type"] == "local":
            path = str(Path(storage["path"]).absolute())
            return cls(fs.LocalFileSystem(), path, path)
        place = "/".join(part for part in (storage["bucket"], storage.get("prefix", "").strip("/")) if part)
        endpoint = urlsplit(storage["endpoint"])
        system = fs.S3FileSystem(
            access_key=storage["key_id"],
            secret_key=storage["secret"],
            endpoint_override=endpoint.netloc,
            scheme=endpoint.scheme,
            region=storage.get("region", "us-east-1"),
        )
        return cls(system, f"s3://{place}", place)

    def has(self, uri: str) -> bool:
        """Whether the URI lies below the storage's root."""
        return uri.startswith(f"{self.root}/")

    def listed(self) -> dict[str, int]:
        """The size of each Parquet file by its URI, without hidden files and folders."""
        found = self.system.get_file_info(fs.FileSelector(self.place, recursive=True, allow_not_found=True))
        sizes = {self.root + info.path[len(self.place) :]: int(info.size) for info in found if info.is_file}
        return {
            uri: size
            for uri, size in sizes.items()
            if uri.endswith(".parquet") and not any(p.startswith(("_", ".")) for p in self.key(uri).split("/"))
        }

    def key(self, uri: str) -> str:
        """The path below the root."""
        return uri[len(self.root) + 1 :]

    def size(self, uri: str) -> int | None:
        """Bytes; None if there is no such file."""
        info = self.system.get_file_info(self.place + uri[len(self.root) :])
        return int(info.size) if info.is_file else None

    def rows(self, uri: str) -> int:
        """The number of rows by the footer."""
        return int(pq.read_metadata(self.place + uri[len(self.root) :], filesystem=self.system).num_rows)

    def read(self, uri: str) -> pa.Table:
        """All rows."""
        with self.system.open_input_file(self.place + uri[len(self.root) :]) as file:
            return pq.ParquetFile(file).read()
