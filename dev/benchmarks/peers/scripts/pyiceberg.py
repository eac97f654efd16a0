"""PyIceberg: `table.overwrite(rows, overwrite_filter=…)`, with a SQLite catalog."""

import os
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.table import ALWAYS_TRUE, Table

from dev.benchmarks.peers.serve import How, Peer, Values, serve

NAME = "bench.sales"
TYPES = {"string": pa.string(), "date": pa.date32()}


class PyIceberg(Peer):
    """An Iceberg table, partitioned by the identity of the partition columns."""

    distributions = ("pyiceberg", "pyarrow")
    catalog: SqlCatalog

    def create(self) -> None:
        """The table has the columns of the landed objects."""
        self.open()
        self.catalog.create_namespace("bench")
        schema = self.place.schema()
        for name, kind in self.place.columns.items():
            schema = schema.append(pa.field(name, TYPES[kind]))
        properties = {"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": "1"}
        table = self.catalog.create_table(NAME, schema, properties=properties)
        with table.update_spec() as update:
            for name in self.place.columns:
                update.add_identity(name)

    def open(self) -> None:
        """The catalog is opened once; each refresh loads the table."""
        warehouse = f"{self.place.data}/warehouse"
        uri = self.place.catalog.replace("postgresql:", "postgresql+psycopg2:")
        if not self.place.on_s3:
            self.catalog = SqlCatalog("bench", uri=uri, warehouse=f"file://{warehouse}")
            return
        names = {"endpoint": "ENDPOINT_URL", "access-key-id": "ACCESS_KEY_ID", "secret-access-key": "SECRET_ACCESS_KEY"}
        keys = {f"s3.{key}": os.environ[f"AWS_{name}"] for key, name in (names | {"region": "REGION"}).items()}
        self.catalog = SqlCatalog("bench", uri=uri, warehouse=warehouse, **keys)

    def _table(self) -> Table:
        return self.catalog.load_table(NAME)

    def _constant(self, rows: pa.Table, partition: Values) -> pa.Table:
        for name, value in partition.items():
            constant = pa.scalar(value).cast(TYPES[self.place.columns[name]])
            rows = rows.append_column(name, pa.repeat(constant, rows.num_rows))
        return rows

    def refresh(self, partition: Values) -> None:
        """A table in memory: PyIceberg writes no stream of rows to a partitioned table."""
        objects = self.place.objects(partition)
        rows = self._constant(ds.dataset(objects, format="parquet", filesystem=self.place.files).to_table(), partition)
        equal: list[BooleanExpression] = [EqualTo(name, value) for name, value in partition.items()]
        self._table().overwrite(rows, overwrite_filter=reduce(And, equal))

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """One overwrite, of the whole table or of the partitions of the rows."""
        some = [path for partition in partitions for path in self.place.objects(partition)]
        schema = pa.schema([(name, TYPES[kind]) for name, kind in self.place.columns.items()])
        landed = ds.dataset(
            some if how == "some" else self.place.base,
            format="parquet",
            filesystem=self.place.files,
            partitioning=ds.partitioning(schema, flavor="hive"),
            partition_base_dir=self.place.base,
        )
        if how == "some":
            self._table().dynamic_partition_overwrite(landed.to_table())
        else:
            self._table().overwrite(landed.to_table())

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """By DuckDB, over the scan of the columns and rows that the query reads."""
        scan = self._table().scan(row_filter=where or ALWAYS_TRUE, selected_fields=tuple(columns))
        return scan.to_duckdb("lineitem").execute(sql.format(table="lineitem")).fetchall()

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """`add_files` reads the partition from a file's statistics: each file is copied with partition columns."""
        rows = pq.ParquetFile(files[0]).read()
        folder = self.place.folder / "added"
        folder.mkdir()
        added = [f"{folder}/{number}.parquet" for number in range(len(files))]
        for file, partition in zip(added, partitions, strict=True):
            pq.write_table(self._constant(rows, partition), file, compression="zstd")
        self._table().add_files(added, check_duplicate_files=False)

    def count(self, partition: Values) -> int:
        """Of the current snapshot."""
        equal: list[BooleanExpression] = [EqualTo(name, value) for name, value in partition.items()]
        return int(self._table().scan(row_filter=reduce(And, equal)).count())

    def read_back(self, file: Path) -> str:
        """Batch by batch."""
        data = self._table().scan().to_arrow_batch_reader()
        with pq.ParquetWriter(file, data.schema, compression="none") as writer:
            for batch in data:
                writer.write_batch(batch)
        return str(file)


if __name__ == "__main__":
    serve(PyIceberg)
