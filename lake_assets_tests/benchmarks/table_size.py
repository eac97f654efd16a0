"""The same refresh in a table of 100 data files and in one of 30,000."""

import datetime as dt
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lake_assets.config.models import LakeConfig
from lake_assets.ingest.api import ingest
from lake_assets.lake.commit.replacement import add_files_statement
from lake_assets.streams.stream import OpenStream, open_stream
from lake_assets_tests.benchmarks import retail
from lake_assets_tests.benchmarks.measure import Report, Work, in_turns
from lake_assets_tests.benchmarks.refresh import PARTITION

FEW, MANY = 100, 30_000
A_TRANSACTION = 5_000  # files registered at once while the table is filled


def table_size(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Both sizes, on each catalog that can run here."""
    many = max(int(MANY * scale), FEW)
    with ExitStack() as servers:
        for name, catalog in _catalogs(folder, servers).items():
            works = {
                size: _refresh(folder / f"work-{name}-{size}", catalog(size), files, spark)
                for size, files in {"few": FEW, "many": many}.items()
            }
            times = in_turns(works, repeat)
            report.compare(f"refresh among {many:,} files, {name}", times["many"], f"among {FEW}", times["few"], 1.5)


def _catalogs(folder: Path, servers: ExitStack) -> dict[str, Any]:
    from lake_assets_tests.servers.postgres import pgserver  # noqa: PLC0415 - its wheel may not be installed

    server = servers.enter_context(pgserver())

    def file(kind: str) -> Any:
        return lambda size: {"type": kind, "path": str(folder / f"work-{kind}-{size}" / "catalog")}

    def postgres(_: str) -> dict[str, Any]:
        place = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        return {"type": "postgres", "database": server.new_database(), **place}

    return {"sqlite": file("sqlite"), "duckdb": file("duckdb"), "postgres": postgres}


def _refresh(work: Path, catalog: dict[str, Any], files: int, spark: SparkSession) -> Work:
    shutil.rmtree(work, ignore_errors=True)
    landing = retail.land(work / "landing", 100, 1000)
    config = {
        "lakes": {"bench": {"catalog": catalog, "storage": str(work / "lake")}},
        "streams": {
            "sales": {
                "source": str(landing),
                "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
                "destination": {"table": "sales"},
            }
        },
    }
    stream = open_stream(LakeConfig.model_validate(config), "sales")
    partition = stream.config.partition(PARTITION)
    ingest(stream, partition, lambda: spark)
    _fill(stream, work / "lake" / "main" / "sales", files)
    return Work(lambda: ingest(stream, partition, lambda: spark, force=True))


def _fill(stream: OpenStream, table: Path, files: int) -> None:
    """Register that many small files, ten in a partition of another region: links to one file."""
    first = table / "seed.parquet"
    pq.write_table(retail.transactions(10, 0), first)
    paths = []
    for number in range(files):
        day = dt.date(2020, 1, 1) + dt.timedelta(days=number // 10 % 1000)
        folder = table / f"region=R{number // 10_000}" / f"date={day}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number}.parquet"
        path.hardlink_to(first)
        paths.append(str(path))
    with stream.lake.open() as lake:
        for start in range(0, len(paths), A_TRANSACTION):
            lake.rows(*add_files_statement(stream.table, paths[start : start + A_TRANSACTION]))
