"""DuckDB on DuckLake: `DELETE` and `INSERT` in one transaction, as MotherDuck's Flight of partitioned Parquet does."""

import importlib.util
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from dev.benchmarks.peers.serve import How, Peer, Values, serve

A_CALL = 5000  # files that are added at once


def extension(name: str) -> Path:
    """The extension's file in its wheel."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"


def connect(catalog: str, data: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB to which the lake is attached."""
    client = duckdb.connect()
    for name in ("ducklake", *(("postgres_scanner", "httpfs") if data.startswith("s3:") else ("sqlite_scanner",))):
        client.execute(f"LOAD '{extension(name)}'")
    if data.startswith("s3:"):
        endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
        keys = f"KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}'"
        client.execute(f"CREATE SECRET (TYPE s3, {keys}, ENDPOINT '{endpoint}', USE_SSL false, URL_STYLE 'path')")
    database = catalog.replace("sqlite:///", "sqlite:").replace("postgresql:", "postgres:postgresql:")
    client.execute(f"ATTACH 'ducklake:{database}' AS lake (DATA_PATH '{data}/data/')")
    return client


class DuckLake(Peer):
    """A DuckLake with a SQLite catalog."""

    distributions = ("duckdb", "duckdb-extension-ducklake")

    def _source(self, *globs: str) -> str:
        types = ", ".join(
            f"{name}: {'DATE' if kind == 'date' else 'VARCHAR'}" for name, kind in self.place.columns.items()
        )
        return f"read_parquet({list(globs)}, hive_partitioning = true, hive_types = {{{types}}})"

    def _where(self, partition: Values) -> str:
        return "(" + " AND ".join(f"{name} = '{value}'" for name, value in partition.items()) + ")"

    def create(self) -> None:
        """The table has the columns of the landed objects."""
        self.open()
        landed = self._source(f"{self.place.landing}/*/*/*.parquet")
        self.client.execute(f"CREATE TABLE lake.sales AS SELECT * FROM {landed} LIMIT 0")
        self.client.execute(f"ALTER TABLE lake.sales SET PARTITIONED BY ({', '.join(self.place.columns)})")
        self.client.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        self.client.execute("CALL lake.set_option('parquet_compression', 'zstd')")
        self.client.execute("CALL lake.set_option('parquet_compression_level', 1)")

    def open(self) -> None:
        """Attach the lake."""
        self.client = connect(self.place.catalog, self.place.data)

    def _replace(self, condition: str, source: str) -> None:
        self.client.execute("BEGIN")
        try:
            self.client.execute(f"DELETE FROM lake.sales WHERE {condition}")
            self.client.execute(f"INSERT INTO lake.sales BY NAME SELECT * FROM {source}")
            self.client.execute("COMMIT")
        except duckdb.Error:
            # After some errors the transaction is over already.
            with suppress(duckdb.TransactionException):
                self.client.execute("ROLLBACK")
            raise

    def refresh(self, partition: Values) -> None:
        """Two statements, one transaction."""
        self._replace(self._where(partition), self._source(self.place.glob(partition)))

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """The same two statements for all partitions."""
        if how == "some":
            self._replace(" OR ".join(map(self._where, partitions)), self._source(*map(self.place.glob, partitions)))
        else:
            self._replace("true", self._source(f"{self.place.landing}/*/*/*.parquet"))

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """Of the newest snapshot."""
        return self.client.execute(sql.format(table="lake.sales")).fetchall()

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """`ducklake_add_data_files`: the partitions are those of the paths."""
        for start in range(0, len(files), A_CALL):
            self.client.execute(
                "CALL ducklake_add_data_files('lake', 'sales', ?, hive_partitioning => true)",
                [list(files[start : start + A_CALL])],
            )

    def count(self, partition: Values) -> int:
        """Of the newest snapshot."""
        sql = f"SELECT count(*) FROM lake.sales WHERE {self._where(partition)}"
        return int(self.client.execute(sql).fetchall()[0][0])

    def read_back(self, file: Path) -> str:
        """`COPY` of the table."""
        self.client.execute(f"COPY lake.sales TO '{file}' (FORMAT parquet, COMPRESSION uncompressed)")
        return str(file)


if __name__ == "__main__":
    serve(DuckLake)
