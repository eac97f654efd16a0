"""A refresh of one partition, from listing to commit, against DuckDB, pyarrow, and Spark's own reader and writer."""

import functools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dev.benchmarks import retail
from dev.benchmarks.measure import Line, Report, Work, in_turns
from lake_assets.api import open_stream
from lake_assets.base.duckdb_engine import find_extension
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.ingest_all import ingest
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.streams.stream import OpenStream

PARTITION = "region=NW,date=2026-02-11"
MEMORY_TARGET = 1000.0  # MB, of all Python workers together


class Bench:
    """One landing zone with one partition, our stream over it, and the peers on the same files."""

    def __init__(self, folder: Path, name: str, files: int, rows: int) -> None:
        self.work = folder / f"work-{name}"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.landing = retail.land(folder / f"landing-{name}", files, rows)
        self.glob = f"{self.landing}/*/*/*.parquet"
        self.source = f"read_parquet('{self.glob}', hive_partitioning = true)"
        self.rows = files * rows

    def stream(self, **options: object) -> OpenStream:
        catalog = {"type": "sqlite", "path": str(self.work / "ours.sqlite")}
        config = {
            "lakes": {"bench": {"catalog": catalog, "storage": str(self.work / "ours")}},
            "streams": {
                "sales": {
                    "source": str(self.landing),
                    "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
                    "destination": {"table": "sales"},
                    **options,
                }
            },
        }
        return open_stream(LakeConfig.model_validate(config), "sales")

    def ours(self, spark: SparkSession) -> dict[str, Work]:
        """A load of the partition when the table has no rows of it, and a replace of the partition that is there."""
        stream = self.stream()
        self._ingest(stream, spark)

        def clear() -> None:
            with stream.lake.open() as lake:
                lake.rows("DELETE FROM lake.sales")

        def run() -> None:
            self._ingest(stream, spark)

        return {"load": Work(run, clear), "replace": Work(run)}

    def _ingest(self, stream: OpenStream, spark: SparkSession) -> None:
        partition = stream.config.partition(PARTITION)
        row = ingest(stream, partition, lambda: spark, IngestOptions(force=True)).row
        assert row.row_count == self.rows

    def duckdb_copies(self) -> dict[str, Work]:
        """DuckDB's COPY to zstd Parquet in its forms."""
        zstd = "FORMAT parquet, COMPRESSION zstd"
        forms = {
            "COPY to one file": f"'{{}}/one.parquet' ({zstd})",
            "COPY PER_THREAD_OUTPUT": f"'{{}}/threads' ({zstd}, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE)",
            "COPY PARTITION_BY": f"'{{}}/parts' ({zstd}, PARTITION_BY (region, date), OVERWRITE_OR_IGNORE)",
        }
        client = duckdb.connect()
        source = f"SELECT * FROM read_parquet('{self.glob}', hive_partitioning = {{}})"
        return {
            name: Work(
                functools.partial(
                    client.execute, f"COPY ({source.format('PARTITION' in name)}) TO {form.format(self.work)}"
                )
            )
            for name, form in forms.items()
        }

    def duckdb_delete_insert(self) -> Work:
        """Plain DuckDB on a DuckLake of its own: DELETE and INSERT in one transaction."""
        client = duckdb.connect()
        for name in ("ducklake", "sqlite_scanner"):
            client.execute(f"LOAD '{find_extension(name).file}'")
        place = self.work / "plain"
        client.execute(f"ATTACH 'ducklake:sqlite:{place}.sqlite' AS lake (DATA_PATH '{place}/')")
        parquet = f"read_parquet('{self.glob}', hive_partitioning = true)"
        client.execute(f"CREATE TABLE lake.sales AS SELECT * FROM {parquet} LIMIT 0")
        client.execute("ALTER TABLE lake.sales SET PARTITIONED BY (region, date)")
        client.execute("CALL lake.set_option('data_inlining_row_limit', 0)")

        def refresh() -> None:
            client.execute("BEGIN")
            client.execute("DELETE FROM lake.sales WHERE region = 'NW' AND date = '2026-02-11'")
            client.execute(f"INSERT INTO lake.sales SELECT * FROM {self.source}")
            client.execute("COMMIT")

        return Work(refresh)

    def pyarrow(self) -> Work:
        """One process of pyarrow: read each file, write one."""

        def rewrite() -> None:
            files = sorted(self.landing.glob("*/*/*.parquet"))
            with pq.ParquetWriter(self.work / "arrow.parquet", pq.read_schema(files[0]), compression="zstd") as writer:
                for file in files:
                    writer.write_table(pq.ParquetFile(file).read())

        return Work(rewrite)

    def spark(self, spark: SparkSession) -> Work:
        """Spark's own reader and writer."""

        def rewrite() -> None:
            frame = spark.read.parquet(f"{self.landing}/region=NW/date=2026-02-11")
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(self.work / "spark"))

        return Work(rewrite)


def small(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """100 files of 1,000 rows."""
    bench = Bench(folder, f"small-{scale:g}", max(int(100 * scale), 1), 1000)
    works = bench.ours(spark) | {"DELETE + INSERT": bench.duckdb_delete_insert(), "Spark": bench.spark(spark)}
    times = in_turns(works, repeat)
    what, ours = "100 x 1,000 rows, replace", times["replace"]
    report.lines.append(Line(what, str(ours), "a second", ours.median, 1.0))
    report.compare(what, ours, "DuckDB DELETE + INSERT", times["DELETE + INSERT"], 4.0)
    report.compare(what, ours, "Spark read + write", times["Spark"])


def big(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """10 files of 1,000,000 rows."""
    bench = Bench(folder, f"big-{scale:g}", 10, int(1_000_000 * scale))
    copies = bench.duckdb_copies()
    works = bench.ours(spark) | copies
    works |= {"DELETE + INSERT": bench.duckdb_delete_insert(), "Spark": bench.spark(spark), "pyarrow": bench.pyarrow()}
    with python_workers_memory() as peak:
        times = in_turns(works, repeat)
    workers = peak()
    fastest = min(copies, key=lambda name: times[name].median)
    for kind in ("load", "replace"):
        what, ours = f"10 x 1,000,000 rows, {kind}", times[kind]
        report.compare(what, ours, "DuckDB COPY to one file", times["COPY to one file"], 1.0)
        report.compare(what, ours, f"DuckDB {fastest} (its fastest)", times[fastest])
        report.compare(what, ours, "DuckDB DELETE + INSERT", times["DELETE + INSERT"])
        report.compare(what, ours, "Spark read + write", times["Spark"], 0.45)
        report.compare(what, ours, "pyarrow, one process", times["pyarrow"])
    what = "10 x 1,000,000 rows, memory"
    report.lines.append(Line(what, f"{workers:.0f} MB", "1 GB for all Python workers", workers / MEMORY_TARGET, 1.0))


def copied(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """10 files of 1,000,000 rows, which become data files by a copy, of their bytes or as hard links."""
    bench = Bench(folder, f"big-{scale:g}", 10, int(1_000_000 * scale))
    partition = bench.stream().config.partition(PARTITION)

    def refresh(stream: OpenStream) -> None:
        row = ingest(stream, partition, lambda: spark, IngestOptions(force=True)).row
        assert (row.row_count, row.files_copied) == (bench.rows, 10)

    ways: dict[str, dict[str, object]] = {
        "bytes": {},
        "every page read": {"verify": "pages"},
        "hard links": {"immutable_source": True},
    }
    works = {
        name: Work(functools.partial(refresh, bench.stream(copy="always", **options))) for name, options in ways.items()
    }
    one_file = "COPY to one file"
    times = in_turns(works | {one_file: bench.duckdb_copies()[one_file]}, repeat)
    for name in ways:
        what = f"10 x 1,000,000 rows, copied, {name}"
        report.compare(what, times[name], f"DuckDB {one_file}", times[one_file], 0.1 if name == "bytes" else None)


@contextmanager
def python_workers_memory() -> Iterator[Callable[[], float]]:
    """The highest sum of the memory (USS, MB) of the JVM's Python workers while the block ran."""
    peak = [0.0]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], sum(_uss(p) for p in psutil.Process().children(recursive=True)) / 1e6)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: peak[0]
    finally:
        done.set()
        thread.join()


def _uss(process: Any) -> int:
    try:
        return int(process.memory_full_info().uss) if "python" in process.name() else 0
    except psutil.Error:  # it has ended
        return 0
