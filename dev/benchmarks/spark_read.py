"""Spark reads a table of the lake, beside its own reader of Parquet on the same files, in the same session."""

import shutil
import time
import tracemalloc
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dev.benchmarks.measure import Line, Report, Work, in_turns
from dev.plain_client import plain_client
from lake_assets.config.lake import Lake
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.table_scan import scanned_columns, with_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import TableName
from lake_assets.spark_reader import TablePart, frame

FILES, ROWS = 100, 100_000  # rows of a file
MANY = 100_000  # files, of which only the driver's plan is timed
RATIO, SECONDS, MEGABYTES = 1.3, 2.0, 300.0
_TABLE = TableName("main", "t")
_COLUMNS = "range % 1000 AS store, range AS id, range / 7 AS total, 'a text ' || range % 100 AS note"


def spark_read(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Sums of one column and of all; and the plan of a table with many files."""
    place = folder / "work-spark-read"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    lake = Lake.model_validate(
        {"catalog": {"type": "sqlite", "path": str(place / "c.sqlite")}, "storage": str(place / "data")}
    )
    with DuckLake(lake).open(create=True):
        pass
    rows = max(int(ROWS * scale), 100)
    with plain_client(lake, read_only=False) as client:
        client.execute(f"CREATE TABLE lake.t AS SELECT 0 AS file, {_COLUMNS} FROM range(0)")
        client.execute("ALTER TABLE lake.t SET PARTITIONED BY (file)")
        client.execute(f"INSERT INTO lake.t SELECT range // {rows} AS file, {_COLUMNS} FROM range({FILES * rows})")
        files = [
            file for (file,) in client.execute("SELECT data_file FROM ducklake_list_files('lake', 't')").fetchall()
        ]
    forms = {"one column": ["total"], "all columns": ["file", "store", "id", "total", "note"]}
    for name, columns in forms.items():
        works = {
            "ours": Work(lambda: _summed(frame(spark, lake, _TABLE, TablePart(columns)))),  # noqa: B023 - it runs at once
            "theirs": Work(lambda: _summed(spark.read.parquet(*files).select(columns))),  # noqa: B023
        }
        timings = in_turns(works, repeat)
        what = f"spark.read of {FILES} files, {FILES * rows:,} rows, {name}"
        report.compare(what, timings["ours"], "spark.read.parquet", timings["theirs"], RATIO)
    _plan(report, lake, max(int(MANY * scale), FILES))


def _summed(rows: DataFrame) -> None:
    sums = {name: "max" if name == "note" else "sum" for name in rows.columns}
    assert rows.agg(sums).collect()


def _plan(report: Report, lake: Lake, files: int) -> None:
    with DuckLake(lake).open() as session, session.write() as database:
        ((columns, example),) = [
            (database.columns(spec.DATA_FILE), database.rows(f"SELECT * FROM {spec.DATA_FILE} LIMIT 1")[0])
        ]
        row = dict(zip(columns, example, strict=True))
        more = (tuple((row | {"data_file_id": 10**6 + number}).values()) for number in range(files - FILES))
        database.insert(spec.DATA_FILE, columns, list(more))
    with DuckLake(lake).open(read_only=True) as session:
        scan = scanned_columns(session, _TABLE)
        start = time.perf_counter()
        found = with_files(session, scan)
        seconds = time.perf_counter() - start
        assert len(found.files) == files
        tracemalloc.start()
        with_files(session, scan)
        megabytes = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    report.lines.append(Line(f"plan of {files:,} files, s", f"{seconds:.2f} s", "", seconds, SECONDS))
    report.lines.append(Line(f"plan of {files:,} files, MB", f"{megabytes:.0f} MB", "", megabytes, MEGABYTES))
