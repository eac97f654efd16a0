"""A thousand new files registered in place, against the plain extension; and a run that finds nothing new."""

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dev.benchmarks import retail
from dev.benchmarks.measure import Line, Report, Work, in_turns
from lake_assets.api import open_stream
from lake_assets.base.duckdb_engine import find_extension
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.index_run import index_all
from lake_assets.streams.stream import OpenStream

FILES, ROWS = 1000, 1000
REGIONS, DAYS = ("NW", "NE", "MW", "SE", "SW"), 30
TARGET = 2.0  # seconds


def index(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:  # noqa: ARG001
    """Both, each into a new lake with an empty table."""
    files = max(int(FILES * scale), 1)
    landing, work = _land(folder / f"landing-index-{files}", files), folder / "work-index"
    stream = _stream(landing, work)
    works = {
        "ours": Work(lambda: _index(stream, files), lambda: _empty(stream, work)),
        "nothing new": Work(lambda: _index(stream, 0)),
        "extension": Work(*_plain(landing, folder / "work-index-plain")),
    }
    times = in_turns(works, repeat)
    what, ours = f"{files:,} x {ROWS:,} rows in {min(files, len(REGIONS) * DAYS)} partitions, index", times["ours"]
    report.lines.append(Line(what, str(ours), f"{TARGET:g} seconds", ours.median / TARGET, 1.0))
    report.compare(what, ours, "ducklake_add_data_files, one transaction", times["extension"])
    nothing = times["nothing new"]
    report.lines.append(Line("the same again, nothing new", str(nothing), ""))


def _land(folder: Path, files: int) -> Path:
    for number in range(files):
        day = dt.date(2026, 1, 1) + dt.timedelta(days=number // len(REGIONS) % DAYS)
        path = folder / f"region={REGIONS[number % len(REGIONS)]}" / f"date={day}" / f"batch_{number:04d}.parquet"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(retail.transactions(ROWS, number), path, compression="zstd")
    return folder


def _stream(landing: Path, work: Path) -> OpenStream:
    catalog = {"type": "sqlite", "path": str(work / "catalog.sqlite")}
    config = {
        "lakes": {"bench": {"catalog": catalog, "storage": str(work / "lake")}},
        "streams": {
            "sales": {
                "source": str(landing),
                "mode": "index",
                "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
                "destination": {"table": "sales"},
            }
        },
    }
    return open_stream(LakeConfig.model_validate(config), "sales")


def _empty(stream: OpenStream, work: Path) -> None:
    """A lake without a table of the stream; the engine is loaded already."""
    shutil.rmtree(work, ignore_errors=True)
    with stream.lake.open(create=True):
        pass


def _index(stream: OpenStream, files: int) -> None:
    rows = [indexed.row for indexed in index_all(stream) if indexed.is_done]
    assert sum(row.row_count or 0 for row in rows) == files * ROWS


def _plain(landing: Path, work: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """The extension alone: a table is made as ours is, and all files are added by one call."""
    client = duckdb.connect()
    for name in ("ducklake", "sqlite_scanner"):
        client.execute(f"LOAD '{find_extension(name).file}'")
    glob = f"{landing}/*/*/*.parquet"

    def begin() -> None:
        client.execute("DETACH DATABASE IF EXISTS lake")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        client.execute(f"ATTACH 'ducklake:sqlite:{work}/catalog.sqlite' AS lake (DATA_PATH '{work}/lake/')")

    def add() -> None:
        source = f"read_parquet('{glob}', hive_partitioning = true)"
        client.execute(f"CREATE TABLE lake.sales AS SELECT * FROM {source} LIMIT 0")
        client.execute("ALTER TABLE lake.sales SET PARTITIONED BY (region, date)")
        client.execute("BEGIN")
        client.execute("CALL ducklake_add_data_files('lake', 'sales', ?, hive_partitioning => true)", [glob])
        client.execute("COMMIT")

    return add, begin
