"""A replace of one partition of CSV, and of JSON lines, against DuckDB's reader and Spark's own."""

from pathlib import Path
from typing import Literal

import duckdb
from pyspark.sql import SparkSession

from dev.benchmarks.measure import Report, Work, in_turns
from dev.benchmarks.refresh import Bench
from lake_assets.streams.stream import OpenStream

FILES = 10
FORMS: dict[Literal["csv", "json"], str] = {"csv": "FORMAT csv, HEADER", "json": "FORMAT json"}


class TextBench(Bench):
    """The rows of Parquet files as texts."""

    def __init__(self, folder: Path, form: Literal["csv", "json"], rows: int) -> None:
        super().__init__(folder, f"{form}-{rows}", FILES, rows)
        self._form = form
        self._texts = folder / f"landing-{form}-{rows}-texts"
        for parquet in sorted(self.landing.glob("*/*/*.parquet")):
            text = self._texts / parquet.relative_to(self.landing).with_suffix(f".{form}")
            rows_of = f"read_parquet('{parquet}', hive_partitioning = false)"
            if not text.exists():
                text.parent.mkdir(parents=True, exist_ok=True)
                duckdb.execute(f"COPY (FROM {rows_of}) TO '{text}' ({FORMS[form]})")
        described = duckdb.execute(f"DESCRIBE FROM {rows_of}").fetchall()
        # The types are given, because DuckDB's sniffer takes a format of timestamps that a whole second does not have.
        columns = {name: kind for name, kind, *_ in described}
        options = f"columns = {columns}, hive_partitioning = true"
        self.source = f"read_{form}('{self._texts}/*/*/*.{form}', {options})"

    def stream(self, **options: object) -> OpenStream:
        return super().stream(source=str(self._texts), format=self._form, **options)

    def spark(self, spark: SparkSession) -> Work:
        schema = spark.read.parquet(f"{self.landing}/region=NW/date=2026-02-11").schema
        reader = spark.read.schema(schema).option("header", value=True)

        def rewrite() -> None:
            frame = reader.format(self._form).load(f"{self._texts}/region=NW/date=2026-02-11")
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(self.work / "spark"))

        return Work(rewrite)


def formats(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """10 files of 1,000,000 rows and 20 columns in each format."""
    for form in FORMS:
        bench = TextBench(folder, form, int(1_000_000 * scale))
        plain = bench.duckdb_delete_insert()
        times = in_turns(
            {"replace": bench.ours(spark)["replace"], "DuckDB": plain, "Spark": bench.spark(spark)}, min(repeat, 3)
        )
        what, ours = f"{FILES} x {int(1_000_000 * scale):,} rows of {form.upper()}, replace", times["replace"]
        report.compare(what, ours, f"DuckDB read_{form}, DELETE + INSERT", times["DuckDB"], 0.7)
        report.compare(what, ours, "Spark read + write", times["Spark"], 0.35)
