"""A refresh of one partition, from listing to commit, against DuckDB, pyarrow, and Spark's own reader and writer."""

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

from lake_assets.config.models import LakeConfig
from lake_assets.ingest import ingest
from lake_assets.lake.engine import extension_file
from lake_assets.stream import OpenStream, open_stream
from lake_assets_tests.benchmarks import retail
from lake_assets_tests.benchmarks.measure import Line, Report, Timing, timed

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
        self.rows = files * rows

    def stream(self) -> OpenStream:
        catalog = {"type": "sqlite", "path": str(self.work / "ours.sqlite")}
        config = {
            "lakes": {"bench": {"catalog": catalog, "storage": str(self.work / "ours")}},
            "streams": {
                "sales": {
                    "source": str(self.landing),
                    "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
                    "destination": {"table": "sales"},
                }
            },
        }
        return open_stream(LakeConfig.model_validate(config), "sales")

    def ours(self, spark: SparkSession, repeat: int) -> tuple[Timing, Timing]:
        """A load of the partition when the table has no rows of it, and a replace of the partition that is there."""
        stream = self.stream()
        self._ingest(stream, spark)

        def clear() -> None:
            with stream.lake.open() as lake:
                lake.rows("DELETE FROM lake.sales")

        load = timed(lambda: self._ingest(stream, spark), repeat, before=clear)
        return load, timed(lambda: self._ingest(stream, spark), repeat)

    def _ingest(self, stream: OpenStream, spark: SparkSession) -> None:
        partition = stream.config.partition(PARTITION)
        row = ingest(stream, partition, lambda: spark, force=True).row
        assert row.row_count == self.rows

    def duckdb_copies(self, repeat: int) -> dict[str, Timing]:
        """DuckDB's COPY to zstd Parquet in its forms."""
        zstd = "FORMAT parquet, COMPRESSION zstd"
        forms = {
            "to one file": f"'{{}}/one.parquet' ({zstd})",
            "PER_THREAD_OUTPUT": f"'{{}}/threads' ({zstd}, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE)",
            "PARTITION_BY": f"'{{}}/parts' ({zstd}, PARTITION_BY (region, date), OVERWRITE_OR_IGNORE)",
        }
        with duckdb.connect() as client:
            source = f"SELECT * FROM read_parquet('{self.glob}', hive_partitioning = {{}})"
            return {
                name: timed(
                    lambda form=form, name=name: client.execute(  # type: ignore[misc]
                        f"COPY ({source.format(name == 'PARTITION_BY')}) TO {form.format(self.work)}"
                    ),
                    repeat,
                )
                for name, form in forms.items()
            }

    def duckdb_delete_insert(self, repeat: int) -> Timing:
        """Plain DuckDB on a DuckLake of its own: DELETE and INSERT in one transaction."""
        with duckdb.connect() as client:
            for name in ("ducklake", "sqlite_scanner"):
                client.execute(f"LOAD '{extension_file(name)}'")
            place = self.work / "plain"
            client.execute(f"ATTACH 'ducklake:sqlite:{place}.sqlite' AS lake (DATA_PATH '{place}/')")
            source = f"read_parquet('{self.glob}', hive_partitioning = true)"
            client.execute(f"CREATE TABLE lake.sales AS SELECT * FROM {source} LIMIT 0")
            client.execute("ALTER TABLE lake.sales SET PARTITIONED BY (region, date)")
            client.execute("CALL lake.set_option('data_inlining_row_limit', 0)")

            def refresh() -> None:
                client.execute("BEGIN")
                client.execute("DELETE FROM lake.sales WHERE region = 'NW' AND date = '2026-02-11'")
                client.execute(f"INSERT INTO lake.sales SELECT * FROM {source}")
                client.execute("COMMIT")

            return timed(refresh, repeat)

    def pyarrow(self, repeat: int) -> Timing:
        """One process of pyarrow: read each file, write one."""

        def rewrite() -> None:
            files = sorted(self.landing.glob("*/*/*.parquet"))
            with pq.ParquetWriter(self.work / "arrow.parquet", pq.read_schema(files[0]), compression="zstd") as writer:
                for file in files:
                    writer.write_table(pq.ParquetFile(file).read())

        return timed(rewrite, repeat)

    def spark(self, spark: SparkSession, repeat: int) -> Timing:
        """Spark's own reader and writer."""

        def rewrite() -> None:
            frame = spark.read.parquet(f"{self.landing}/region=NW/date=2026-02-11")
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(self.work / "spark"))

        return timed(rewrite, repeat)


def small(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """100 files of 1,000 rows."""
    bench = Bench(folder, f"small-{scale:g}", max(int(100 * scale), 1), 1000)
    _, replace = bench.ours(spark, repeat)
    report.lines.append(Line("100 x 1,000 rows, replace", str(replace), "a second", replace.median, 1.0))
    peer = bench.duckdb_delete_insert(repeat)
    report.compare("100 x 1,000 rows, replace", replace, "DuckDB DELETE + INSERT", peer, 4.0)
    report.compare("100 x 1,000 rows, replace", replace, "Spark read + write", bench.spark(spark, repeat))


def big(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """10 files of 1,000,000 rows."""
    bench = Bench(folder, f"big-{scale:g}", 10, int(1_000_000 * scale))
    with python_workers_memory() as peak:
        first, replace = bench.ours(spark, repeat)
    workers = peak()
    copies = bench.duckdb_copies(repeat)
    plain = copies["to one file"]
    fastest = min(copies, key=lambda name: copies[name].median)
    theirs = bench.spark(spark, repeat)
    what = "10 x 1,000,000 rows"
    report.compare(f"{what}, load", first, "DuckDB COPY to one file", plain, 1.0)
    report.compare(f"{what}, replace", replace, "DuckDB COPY to one file", plain, 1.0)
    report.compare(f"{what}, load", first, f"DuckDB COPY {fastest} (its fastest)", copies[fastest])
    report.compare(f"{what}, replace", replace, "DuckDB DELETE + INSERT", bench.duckdb_delete_insert(repeat))
    report.compare(f"{what}, load", first, "Spark read + write", theirs, 0.45)
    report.compare(f"{what}, replace", replace, "Spark read + write", theirs, 0.45)
    report.compare(f"{what}, load", first, "pyarrow, one process", bench.pyarrow(repeat))
    report.lines.append(
        Line(f"{what}, memory", f"{workers:.0f} MB", "1 GB for all Python workers", workers / MEMORY_TARGET, 1.0)
    )


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
