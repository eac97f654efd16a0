"""deltalake (delta-rs): `write_deltalake(mode="overwrite", predicate=…)`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake
from deltalake.transaction import AddAction

from dev.benchmarks.peers.serve import How, Peer, Values, serve


class Deltalake(Peer):
    """A Delta table in a folder."""

    distributions = ("deltalake", "pyarrow")

    def create(self) -> None:
        """The first refresh makes the table."""

    def open(self) -> None:
        """Each refresh opens the table."""

    @property
    def _table(self) -> str:
        return f"{self.place.data}/table"

    def _landed(self, source: str | list[str]) -> ds.Dataset:
        types = {"string": pa.string(), "date": pa.date32()}
        schema = pa.schema([(name, types[kind]) for name, kind in self.place.columns.items()])
        hive = ds.partitioning(schema, flavor="hive")
        place = self.place
        return ds.dataset(
            source, format="parquet", filesystem=place.files, partitioning=hive, partition_base_dir=place.base
        )

    def _write(self, data: pa.RecordBatchReader, predicate: str | None) -> None:
        write_deltalake(
            self._table,
            data,
            mode="overwrite",
            predicate=predicate,
            partition_by=list(self.place.columns),
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
        )

    def refresh(self, partition: Values) -> None:
        """The predicate limits what is overwritten to the partition; the rows are streamed."""
        types = {"string": pa.string(), "date": pa.date32()}
        objects = self.place.objects(partition)
        data = ds.dataset(objects, format="parquet", filesystem=self.place.files).scanner().to_reader()
        constants = [
            (name, pa.scalar(value).cast(types[self.place.columns[name]])) for name, value in partition.items()
        ]
        schema = pa.schema([*data.schema, *((name, constant.type) for name, constant in constants)])

        def batches() -> object:
            for batch in data:
                columns = [pa.repeat(constant, batch.num_rows) for _, constant in constants]
                yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)

        predicate = self._where(partition)
        exists = DeltaTable.is_deltatable(self._table)
        self._write(pa.RecordBatchReader.from_batches(schema, batches()), predicate if exists else None)

    def _where(self, partition: Values) -> str:
        return "(" + " AND ".join(f"{name} = '{value}'" for name, value in partition.items()) + ")"

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """One overwrite, of the whole table or with a predicate for all partitions."""
        if how == "some":
            objects = [path for partition in partitions for path in self.place.objects(partition)]
            predicate = " OR ".join(map(self._where, partitions))
            self._write(self._landed(objects).scanner().to_reader(), predicate)
        else:
            self._write(self._landed(self.place.base).scanner().to_reader(), None)

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """By its own engine, DataFusion, of the newest version of the table."""
        engine = QueryBuilder().register("lineitem", DeltaTable(self._table))
        rows = pa.table(engine.execute(sql.format(table="lineitem")))
        return [tuple(row.values()) for row in rows.to_pylist()]

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """Hard links in the table's folder, and one commit that adds them to the log."""
        table = DeltaTable(self._table)
        size, rows = Path(files[0]).stat().st_size, pq.read_metadata(files[0]).num_rows
        stats = json.dumps({"numRecords": rows})
        adds = []
        for number, (file, values) in enumerate(zip(files, partitions, strict=True)):
            path = "/".join([*(f"{name}={value}" for name, value in values.items()), f"filled-{number}.parquet"])
            link = Path(self._table, path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(file)
            adds.append(AddAction(path, size, dict(values), 0, data_change=True, stats=stats))
        table.create_write_transaction(adds, "append", table.schema(), list(self.place.columns))

    def count(self, partition: Values) -> int:
        """Of the newest version of the table."""
        filters = [(name, "=", value) for name, value in partition.items()]
        dataset = DeltaTable(self._table).to_pyarrow_dataset(partitions=filters)
        return int(dataset.count_rows())

    def read_back(self, file: Path) -> str:
        """Through Arrow, batch by batch."""
        data = pa.RecordBatchReader.from_stream(DeltaTable(self._table).to_pyarrow_dataset().scanner().to_reader())
        with pq.ParquetWriter(file, data.schema, compression="none") as writer:
            for batch in data:
                writer.write_batch(batch)
        return str(file)


if __name__ == "__main__":
    serve(Deltalake)
