"""Spark: `partitionOverwriteMode=dynamic` on a folder of Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from dev.benchmarks.peers.serve import CannotError, How, Peer, Values, serve


class Spark(Peer):
    """A folder of Parquet; without a metastore, the table is the folder."""

    distributions = ("pyspark",)
    spark: SparkSession

    def create(self) -> None:
        """The first refresh makes the folder."""
        if self.place.on_s3:
            raise CannotError("its distribution has no file system for S3")
        self.open()

    def open(self) -> None:
        """A local session on all cores. The writer needs more than the default heap for wide row groups."""
        settings = {
            "spark.driver.memory": "4g",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
            "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        }
        builder = SparkSession.builder.master("local[*]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def _write(self, rows: DataFrame) -> None:
        writer = rows.write.mode("overwrite").option("compression", "zstd").partitionBy(*self.place.columns)
        writer.parquet(str(self.place.folder / "table"))

    def refresh(self, partition: Values) -> None:
        """The overwrite replaces the partitions of the rows that it writes."""
        rows = self.spark.read.parquet(*self.place.objects(partition))
        for name, value in partition.items():
            rows = rows.withColumn(name, lit(value).cast(self.place.columns[name]))
        self._write(rows)

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """One job; rows of a partition meet in one task, so that there is one file for each."""
        some = [path for partition in partitions for path in self.place.objects(partition)]
        reader = self.spark.read.option("basePath", self.place.landing)
        rows = reader.parquet(*(some if how == "some" else [self.place.landing]))
        self._write(rows.repartition(*self.place.columns))

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """Of the folder."""
        self.spark.read.parquet(str(self.place.folder / "table")).createOrReplaceTempView("lineitem")
        return [tuple(row) for row in self.spark.sql(sql.format(table="lineitem")).collect()]

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """The table is the folder: hard links into it."""
        for number, (file, partition) in enumerate(zip(files, partitions, strict=True)):
            folder = self.place.folder.joinpath("table", *(f"{name}={value}" for name, value in partition.items()))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"filled-{number}.parquet").hardlink_to(file)

    def count(self, partition: Values) -> int:
        """Of the folder."""
        rows = self.spark.read.parquet(str(self.place.folder / "table"))
        for name, value in partition.items():
            rows = rows.where(rows[name] == lit(value).cast(self.place.columns[name]))
        return int(rows.count())

    def read_back(self, file: Path) -> str:
        """The files of the folder themselves."""
        return f"{self.place.folder}/table/*/*/*.parquet"


if __name__ == "__main__":
    serve(Spark)
