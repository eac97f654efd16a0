"""The plan of a thousand new partitions, in a folder and on a real S3 server."""

import datetime as dt
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession

from dev.benchmarks import retail
from dev.benchmarks.measure import Line, Report, Work, in_turns
from dev.servers.s3 import WEED, S3Server, seaweedfs
from lake_assets.api import open_stream
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage, S3Storage
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.streams.stream import OpenStream

PARTITIONS, ROWS = 1_000, 100
TARGET = 5.0  # seconds
_FIRST = dt.date(2023, 1, 1)


def planning(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Of a table that has one other partition; each partition has one small object."""
    days = [_FIRST + dt.timedelta(days=number) for number in range(max(int(PARTITIONS * scale), 2) + 1)]
    work = folder / "work-planning"
    shutil.rmtree(work, ignore_errors=True)
    (work / "landing").mkdir(parents=True)
    in_folder = {"type": "local", "path": str(work / "landing")}
    with seaweedfs(WEED) as server:
        places = {"in a folder": in_folder, "on an S3 server": _bucket(server)}
        for number, (where, source) in enumerate(places.items()):
            stream = _stream(work / str(number), source)
            times = in_turns(_works(stream, days, spark), repeat)
            what = f"plan of {len(days) - 1:,} new partitions {where}"
            beside = f"{TARGET:g} s; the footers alone, by pyarrow one after the other: {times['pyarrow']}"
            report.lines.append(Line(what, str(times["ours"]), beside, times["ours"].median / TARGET, 1.0))


def _works(stream: OpenStream, days: list[dt.date], spark: SparkSession) -> dict[str, Work]:
    """The plan, and the footers alone; objects of all days land first, and that of the first is ingested."""
    body = io.BytesIO()
    pq.write_table(retail.transactions(ROWS, 1), body)
    keys = [f"date={day}/part-0.parquet" for day in days]
    for key in keys:
        stream.source.put_new(key, body.getvalue())
    first, *others = [Partition.of(stream.config.partition_columns, {"date": str(day)}) for day in days]
    assert all(outcome.error is None for outcome in ingest_all(stream, [first], lambda: spark))
    return {"ours": Work(lambda: _plan(stream, others)), "pyarrow": Work(lambda: _footers(stream, keys[1:]))}


def _plan(stream: OpenStream, partitions: list[Partition]) -> None:
    planned = plan_stream(stream, partitions)
    assert sum(part.rows_after == ROWS for part in planned.partitions) == len(partitions)


def _footers(stream: OpenStream, keys: list[str]) -> None:
    opened, root = _filesystem(stream)
    for key in keys:
        with opened.open_input_file(f"{root}/{key}") as file:
            assert pq.read_metadata(file).num_rows == ROWS


def _filesystem(stream: OpenStream) -> tuple[fs.FileSystem, str]:
    source = stream.config.source
    if isinstance(source, LocalStorage):
        return fs.LocalFileSystem(), source.path
    assert isinstance(source, S3Storage)
    assert source.secret is not None
    keys = {"access_key": source.key_id, "secret_key": source.secret.get_secret_value()}
    return fs.S3FileSystem(endpoint_override=source.endpoint, region=source.region, **keys), source.bucket


def _stream(work: Path, source: Mapping[str, Any]) -> OpenStream:
    catalog = {"type": "sqlite", "path": str(work / "catalog.sqlite")}
    config = {
        "lakes": {"bench": {"catalog": catalog, "storage": str(work / "lake")}},
        "streams": {
            "sales": {
                "source": source,
                "partitions": {"date": {"type": "date", "start": str(_FIRST)}},
                "destination": {"table": "sales"},
            }
        },
    }
    return open_stream(LakeConfig.model_validate(config), "sales")


def _bucket(server: S3Server) -> dict[str, Any]:
    keys = {"key_id": server.access_key, "secret": server.secret_key}
    return {"type": "s3", "bucket": server.new_bucket(), "endpoint": server.endpoint, "region": server.region, **keys}
