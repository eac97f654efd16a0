"""Lakes of the benchmark, and commits of small files to them, without Spark."""

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dev.servers.postgres import PostgresServer, pgserver
from lake_assets.api import open_stream
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage
from lake_assets.lake.commit.change import Change, Written
from lake_assets.lake.commit.strategy import commit
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, create_ledger, manifest_values
from lake_assets.lake.session import LakeSession
from lake_assets.lake.table_setup import create_table, prepare_table
from lake_assets.spark.task.job import DataFile, new_name
from lake_assets.storage.formats.parquet_footers import written_footer
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

FIRST = dt.date(2020, 1, 1)
DAYS = 1000  # partitions of a region
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "total": pa.array([0.5, 1.5, 2.5], pa.float64())})


@contextmanager
def server() -> Iterator[PostgresServer]:
    """PostgreSQL as it is configured by default: a commit ends when it is on the disk."""
    with pgserver("-c", "fsync=on", "-c", "max_connections=300") as started:
        yield started


def catalog_on(server: PostgresServer) -> dict[str, Any]:
    """The config of a new catalog."""
    place = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return {"type": "postgres", "database": server.new_database(), **place}


def stream_on(
    catalog: dict[str, Any], folder: Path, table: str = "sales", storage: dict[str, Any] | None = None
) -> OpenStream:
    """A stream of a lake in this catalog, with its files in the folder or in another storage."""
    lake = {"catalog": catalog, "storage": storage or str(folder / "lake")}
    stream = {
        "source": str(folder / "landing"),
        "partitions": {"region": {}, "date": {"type": "date", "start": str(FIRST)}},
        "destination": {"table": table},
    }
    return open_stream(LakeConfig.model_validate({"lakes": {"bench": lake}, "streams": {"sales": stream}}), "sales")


def make_table(stream: OpenStream) -> None:
    """The destination as the first run makes it."""
    with stream.lake.open(create=True) as lake:
        create_ledger(lake)
        create_table(lake, stream.partitioned_table, ROWS.schema)
        prepare_table(lake, stream.table)


def text_of(region: str, number: int) -> str:
    """A partition of a region."""
    return f"region={region},date={FIRST + dt.timedelta(days=number)}"


def numbered(number: int) -> str:
    """The partition of this number in a large table."""
    return text_of(f"R{number // DAYS}", number % DAYS)


class Files:
    """Writes data files of the same three rows under new names, as tasks do."""

    def __init__(self, stream: OpenStream) -> None:
        self._stream = stream
        self._store = Store(stream.lake_config.own_storage)
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, ROWS.schema, compression="zstd") as writer:
            writer.write_table(ROWS)
        self._footer = written_footer(writer.writer.metadata)
        self._body: bytes = sink.getvalue().to_pybytes()

    def replacement(self, partition: Partition, run_id: str, manifest: Manifest | None = None) -> Change:
        """The commit of such a file, which is written; of the landed objects, or of one that is nowhere."""
        stream, now = self._stream, dt.datetime.now(dt.UTC)
        landed = LandedObject("batch.parquet", f"{stream.source_glob(partition)}/batch.parquet", "etag", 1, now)
        manifest = manifest or Manifest((landed,))
        fingerprint = stream.fingerprint(manifest)
        key = stream.destination_folder(partition) + new_name("bench-", fingerprint)
        with self._store.create(key) as file:
            file.write(self._body)
        written = DataFile(self._store.uri(key), ROWS.num_rows, len(self._body), footer=self._footer)
        row = LedgerRow(
            run_id=run_id,
            run_at=now,
            stream=stream.name,
            source_glob=stream.source_glob(partition),
            destination_table=str(stream.table),
            partition_columns="region,date",
            load_partition=partition.path,
            mode="replace",
            status="committed",
            row_count=ROWS.num_rows,
            source_files=1,
            source_bytes=1,
            files_written=1,
            bytes_written=written.size,
            source_fingerprint=fingerprint,
            started_at=now,
        )
        appends = {MANIFEST: manifest_values(manifest)}
        return Change(stream.table, partition, row, Written([written]), appends=appends)

    def replacements(self, texts: Sequence[str]) -> list[Change]:
        """The commits of such files in some partitions, by one run."""
        run_id = str(uuid.uuid4())
        partitions = [self._stream.config.partition(text) for text in texts]
        if isinstance(self._store.storage, LocalStorage):
            return [self.replacement(partition, run_id) for partition in partitions]
        with ThreadPoolExecutor(16) as pool:  # as the tasks of a job
            return list(pool.map(self.replacement, partitions, [run_id] * len(partitions)))


def commit_all(lake: LakeSession, replacements: Sequence[Change]) -> None:
    """Commit them, in one transaction."""
    commit(lake, replacements)


def timed(work: Callable[[], object], repeat: int) -> float:
    """The median of the seconds that something takes, warm."""
    seconds = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds[1:])
