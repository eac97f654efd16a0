"""This package: `ingest` of a partition with `force`, `ingest_all` of many, and `mode: index` for existing files."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import duckdb
from pyspark.sql import SparkSession

from dev.benchmarks.peers.serve import How, Peer, Values, serve
from lake_assets.api import open_stream
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import REMOTE, SHARED
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.ingest_all import ingest, ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.catalog.past_partitions import counted_rows
from lake_assets.lake.connecting import connected
from lake_assets.spark.spark_session import spark_config, start_session
from lake_assets.streams.stream import OpenStream


class Ours(Peer):
    """A DuckLake with a SQLite catalog, and the local Spark of `lake-assets ingest` with `spark: {remote: shared}`."""

    distributions = ("lake-assets", "pyspark", "duckdb", "pyarrow")
    copying: ClassVar[str] = "never"  # every refresh encodes, as those of the peers do
    spark: SparkSession
    stream: OpenStream
    reader: duckdb.DuckDBPyConnection | None = None

    def create(self) -> None:
        """The first refresh makes the table."""
        self.open()
        with self.stream.lake.open(create=True):
            pass

    def open(self) -> None:
        """A Spark session and the stream."""
        self.spark = start_session(
            spark_config(app_name="lake-assets-bench", settings={REMOTE: SHARED}, transforms=False)
        )
        self.stream = self._stream(self.place.landing, copy=self.copying)

    def _catalog(self) -> dict[str, Any]:
        url = urlsplit(self.place.catalog)
        if url.scheme == "sqlite":
            return {"type": "sqlite", "path": self.place.catalog.removeprefix("sqlite:///")}
        access = {"host": url.hostname, "port": url.port, "database": url.path.strip("/")}
        return {"type": "postgres", "user": url.username, "password": url.password, **access}

    def _stream(self, source: str, **options: Any) -> OpenStream:
        partitions = {
            name: {"type": "date", "start": "1992-01-01"} if kind == "date" else {}
            for name, kind in self.place.columns.items()
        }
        stream = {"source": source, "partitions": partitions, "destination": {"table": "sales"}} | options
        lakes = {"bench": {"catalog": self._catalog(), "storage": f"{self.place.data}/data"}}
        return open_stream(LakeConfig.model_validate({"lakes": lakes, "streams": {"sales": stream}}), "sales")

    def _partition(self, values: Values) -> Partition:
        return self.stream.config.partition(",".join(f"{name}={value}" for name, value in values.items()))

    def refresh(self, partition: Values) -> None:
        """From listing to commit."""
        ingest(self.stream, self._partition(partition), lambda: self.spark, IngestOptions(force=True))

    def refresh_each(self, partitions: Sequence[Values], seconds: float) -> int:
        """One range, as a backfill is; each partition has a commit of its own."""
        stream = self._stream(self.place.landing, copy=self.copying, commit_batch=1)
        return self._run(stream, partitions, IngestOptions(force=True), seconds)

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """One run by the default, which commits up to 50 partitions together; a killed run is continued."""
        self._run(self.stream, partitions, IngestOptions(force=how != "again"), math.inf)

    def _run(self, stream: OpenStream, partitions: Sequence[Values], options: IngestOptions, seconds: float) -> int:
        end, done = time.perf_counter() + seconds, 0
        for outcome in ingest_all(
            stream, [self._partition(values) for values in partitions], lambda: self.spark, options
        ):
            if outcome.error is not None:
                raise outcome.error
            done += 1
            if time.perf_counter() >= end:
                break
        return done

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """By a read-only connection to the lake, which stays open."""
        self.reader = self.reader or connected(self.stream.lake_config, read_only=True)
        return self.reader.execute(sql.format(table=self.stream.table.sql)).fetchall()

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """A stream of mode index over the files' folder, which commits all of them to the same table."""
        names = len(self.place.columns)
        stream = self._stream(str(Path(files[0]).parents[names]), mode="index")
        for outcome in index_all(stream):
            if outcome.error is not None:
                raise outcome.error

    def count(self, partition: Values) -> int:
        """By a DuckDB session of the lake."""
        with self.stream.lake.open() as lake:
            return sum(counted_rows(lake, self.stream.table, [self._partition(partition)]).values())

    def read_back(self, file: Path) -> str:
        """By a DuckDB session of the lake."""
        with self.stream.lake.open() as lake:
            lake.rows(f"COPY {self.stream.table.sql} TO '{file}' (FORMAT parquet, COMPRESSION uncompressed)")
        return str(file)


if __name__ == "__main__":
    serve(Ours)
