"""The same refresh, and the same look that finds nothing new, in a small table and in a large one.

The large table has 100,000 data files and a ledger of 1,000,000 rows. Both tables are filled by this package's own
commits: `mode: index` registers the files, and `record` appends the ledger's rows. The files are links to files with
the same content, so a footer is read once.
"""

import dataclasses
import datetime as dt
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dev.benchmarks import retail
from dev.benchmarks.measure import Report, Work, in_turns
from dev.benchmarks.refresh import PARTITION
from lake_assets.api import open_stream
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.ingest_all import ingest
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.catalog.backup import create_indexes
from lake_assets.lake.catalog.file_facts import Footer, open_footers
from lake_assets.lake.ledger.tables import LEDGER, LedgerRow, record
from lake_assets.streams.stream import OpenStream

FEW = 100  # data files
LINKS = 50_000  # to a file; ext4 allows 65,000
MANY = 100_000
ROWS_A_FILE = 10  # of the ledger: 1,000,000 rows beside 100,000 files
A_PARTITION = 10  # files of each partition that fills the table
A_RUN = 10_000  # ledger rows that a run appends
TARGET = 1.1


def table_size(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Both sizes, on each catalog that can run here."""
    with ExitStack() as servers:
        for name, catalog in _catalogs(folder, servers).items():
            many = max(int(MANY * scale), FEW)
            works: dict[str, Work] = {}
            streams: list[OpenStream] = []
            for size, files in {"few": FEW, "many": many}.items():
                streams.append(_filled(folder / f"work-{name}-{size}", catalog(size), files))
                works |= _works(streams[-1], spark, size)
            among = f"among {many:,} files and {many * ROWS_A_FILE:,} ledger rows, {name}"
            _compare(report, works, repeat, among)
            if name != "duckdb":  # it refuses later changes of a table with an index
                for stream in streams:
                    _create_index(stream)
                _compare(report, works, repeat, f"{among} with an index")


def _catalogs(folder: Path, servers: ExitStack) -> dict[str, Any]:
    from dev.servers.postgres import pgserver  # noqa: PLC0415 - its wheel may not be installed

    server = servers.enter_context(pgserver())

    def file(kind: str) -> Any:
        return lambda size: {"type": kind, "path": str(folder / f"work-{kind}-{size}" / "catalog")}

    def postgres(_: str) -> dict[str, Any]:
        place = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        return {"type": "postgres", "database": server.new_database(), **place}

    return {"sqlite": file("sqlite"), "duckdb": file("duckdb"), "postgres": postgres}


def _compare(report: Report, works: dict[str, Work], repeat: int, among: str) -> None:
    times = in_turns(works, max(repeat, 2))
    for what in ("refresh", "skip"):
        report.compare(f"{what} {among}", times[f"{what} many"], f"among {FEW}", times[f"{what} few"], TARGET)


def _create_index(stream: OpenStream) -> None:
    with stream.lake.open() as lake:
        create_indexes(lake)


def _filled(work: Path, catalog: dict[str, Any], files: int) -> OpenStream:
    """A stream whose table and ledger are filled, and with a partition that is not in them yet."""
    shutil.rmtree(work, ignore_errors=True)
    landing = retail.land(work / "landing", 100, 1000)
    stream = _stream(work, catalog, landing)
    _register(_stream(work, catalog, _small_files(work / "filling", files), mode="index"), files)
    _append_ledger(stream, files * ROWS_A_FILE)
    return stream


def _works(stream: OpenStream, spark: SparkSession, size: str) -> dict[str, Work]:
    partition = stream.config.partition(PARTITION)

    def refresh() -> None:
        assert ingest(stream, partition, lambda: spark, IngestOptions(force=True)).row.status == "committed"

    def skip() -> None:
        assert ingest(stream, partition, lambda: spark).row.status == "skipped"

    refresh()
    return {f"refresh {size}": Work(refresh), f"skip {size}": Work(skip)}


def _stream(work: Path, catalog: dict[str, Any], source: Path, **options: str) -> OpenStream:
    stream = {
        "source": str(source),
        "partitions": {"region": {}, "date": {"type": "date", "start": "2020-01-01"}},
        "destination": {"table": "sales"},
    }
    lakes = {"bench": {"catalog": catalog, "storage": str(work / "lake")}}
    return open_stream(LakeConfig.model_validate({"lakes": lakes, "streams": {"sales": stream | options}}), "sales")


def _small_files(folder: Path, files: int) -> Path:
    """A landing zone of that many small files, ten in a partition of another region: links to a few files."""
    folder.mkdir(parents=True)
    for number in range(files):
        seed = folder.parent / f"seed-{number // LINKS}.parquet"
        if number % LINKS == 0:
            pq.write_table(retail.transactions(10, 0), seed)
        day = number // A_PARTITION
        place = folder / f"region=R{day // 1000}" / f"date={dt.date(2020, 1, 1) + dt.timedelta(days=day % 1000)}"
        place.mkdir(parents=True, exist_ok=True)
        os.link(seed, place / f"{number}.parquet")
    return folder


def _register(stream: OpenStream, files: int) -> None:
    first: list[Footer] = []

    def footers(connection: duckdb.DuckDBPyConnection, uris: Sequence[str]) -> list[Footer]:
        if not first:
            first.extend(open_footers(connection, uris[:1]))
        return [dataclasses.replace(first[0], uri=uri) for uri in uris]

    with mock.patch("lake_assets.lake.commit.candidates.open_footers", footers):
        outcomes = list(index_all(stream))
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert sum(outcome.row.files_written or 0 for outcome in outcomes if outcome.is_done) == files


def _append_ledger(stream: OpenStream, rows: int) -> None:
    """Rows of scheduled runs that found nothing new, each run over many partitions, and one row each of this one."""
    with stream.lake.open() as lake:
        for start in range(0, rows, A_RUN):
            record(lake, list(a_run(stream, start, min(A_RUN, rows - start))))
        ((found,),) = lake.rows(f"SELECT count(*) FROM {LEDGER.name(lake.config).sql}")
    assert found >= rows


def a_run(stream: OpenStream, start: int, rows: int) -> Iterator[LedgerRow]:
    """The rows of a scheduled run that found nothing new."""
    run_id, at = str(uuid.uuid4()), dt.datetime(2025, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=15 * start // A_RUN)
    source_glob = stream.source_glob(stream.config.partition(PARTITION))
    for number in range(rows):
        day = dt.date(2020, 1, 1) + dt.timedelta(days=number % 1000)
        yield LedgerRow(
            run_id=run_id,
            run_at=at,
            stream=stream.name,
            source_glob=source_glob,
            destination_table=str(stream.table),
            partition_columns="region,date",
            load_partition=f"region=R{number // 1000}/date={day}" if number else PARTITION.replace(",", "/"),
            mode="replace",
            status="skipped",
            source_files=A_PARTITION,
            source_fingerprint=f"{number:064x}",
            started_at=at,
            finished_at=at,
        )
