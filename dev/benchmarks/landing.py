"""Landing: records a second into files of 1,000 rows on one core, against the partitioned writes of DuckDB and Polars.

The peers write the same records to the same partitions on the same core: Polars into files of 1,000 rows too, DuckDB
into one file a partition, which is less work, as it has no such limit. The ratios are told, and what is judged is
records a second: of retail transactions (26 columns, 320 bytes each in Arrow), and of readings, which are five of those
columns. Beside them stands what Arrow's Parquet encoder alone makes of the same files, in memory: no writer that is
built on it lands more.

Memory: python -m dev.benchmarks.landing [RECORDS] lands so many of 5 regions and 30 dates, in an order
that mixes them, and prints the greatest resident memory within each tenth.
"""

import datetime as dt
import importlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from dev.benchmarks.measure import Line, Report, Timing, Work, in_turns
from dev.retail import Retail
from lake_assets.config.streams import StreamConfig
from lake_assets.wings.land.batches import Encoder
from lake_assets.wings.land.read_records import RecordForm, RecordSource, read_records
from lake_assets.wings.land.writer import LandingWriter

RECORDS = 1_000_000
ARROW_AIM, JSON_AIM = 1_000_000, 200_000  # records a second
REGIONS = ("NW", "NE", "MW", "SE", "SW")
DAYS = 30
BLOCK = 50_000  # records
FILE = 1000  # records
READING = ("region", "date", "timestamp", "store_id", "total")  # columns of a transaction


def records(count: int) -> Iterator[pa.Table]:
    """Retail transactions whose regions and dates are mixed, some at once; the blocks repeat."""
    chain = Retail(50, REGIONS, 1, seed=1, per_store=BLOCK // 50)
    block = pa.concat_tables(chain.blocks()).combine_chunks()
    random = np.random.default_rng(1)
    dates = [
        pa.array(np.datetime64(chain.start) + random.integers(0, DAYS, BLOCK).astype("timedelta64[D]"))
        for _ in range(8)
    ]
    place = block.schema.get_field_index("date")
    blocks = itertools.cycle([block.set_column(place, "date", date) for date in dates])
    for first in range(0, count, BLOCK):
        yield next(blocks).slice(0, min(BLOCK, count - first))


def stream_at(folder: Path) -> StreamConfig:
    """A stream whose landing zone is a folder."""
    return StreamConfig.model_validate(
        {
            "source": str(folder),
            "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
            "destination": {"table": "transactions"},
        }
    )


@contextmanager
def one_core() -> Iterator[None]:
    """Let this thread, and those that it starts, use one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def landing(report: Report, path: Path, spark: SparkSession, repeat: int, scale: float) -> None:  # noqa: ARG001 - as all
    """Arrow and JSON lines, ours and the peers'."""
    folder = path / "landing"
    folder.mkdir(exist_ok=True)
    out = folder / "out"
    count = max(int(RECORDS * scale), 10_000)
    table = pa.concat_tables(records(count)).combine_chunks()
    arrow, lines = _written(table, folder / "records")
    readings, reading_lines = _written(table.select(READING), folder / "readings")

    def ours(source: Path, form: RecordForm) -> None:
        with LandingWriter("transactions", stream_at(out)) as writer:
            for record in read_records(RecordSource(str(source), form), writer.schema):
                writer.accept(record)
        assert writer.landed().records == count

    def by_duckdb(query: str) -> None:
        with duckdb.connect() as client:
            client.execute("SET threads = 1; SET preserve_insertion_order = false")
            client.register("records", table)
            options = "FORMAT parquet, COMPRESSION zstd, PARTITION_BY (region, date)"
            client.execute(f"COPY ({query}) TO '{out}' ({options})")

    def encode_alone() -> None:
        rows = table.drop_columns(["region", "date"])
        encoder = Encoder(rows.schema)
        encoder.learn(rows)
        for start in range(0, count, FILE):
            encoder.encode(rows.slice(start, FILE))

    landed = itertools.count()

    def clean() -> None:
        # Nothing is deleted in between: ext4 passes over each inode that was deleted in the last minutes whenever it
        # makes a file, which costs most who make most files, and a landing zone that grows has no such cost.
        if out.exists():
            out.rename(folder / f"landed-{next(landed)}")

    def by_polars(source: Path) -> None:
        frame = polars.from_arrow(table).lazy() if source == arrow else polars.scan_ndjson(source)
        parts = polars.PartitionBy(out, key=["region", "date"], include_key=False, max_rows_per_file=FILE)
        frame.sink_parquet(parts, compression="zstd", maintain_order=False, mkdir=True)

    # First, for threads that Arrow starts within `one_core` stay on that core.
    both = in_turns({"ours": Work(lambda: ours(arrow, "arrow"), clean)}, repeat)["ours"]
    with one_core():
        os.environ["POLARS_MAX_THREADS"] = "1"  # read when it is imported
        polars = importlib.import_module("polars")
        works = {
            "Arrow": lambda: ours(arrow, "arrow"),
            "Arrow, readings": lambda: ours(readings, "arrow"),
            "Arrow, encoder": encode_alone,
            "Arrow, DuckDB": lambda: by_duckdb("FROM records"),
            "Arrow, Polars": lambda: by_polars(arrow),
            "JSON": lambda: ours(lines, "jsonl"),
            "JSON, readings": lambda: ours(reading_lines, "jsonl"),
            "JSON, DuckDB": lambda: by_duckdb(f"FROM read_json('{lines}')"),
            "JSON, Polars": lambda: by_polars(lines),
        }
        timings = in_turns({name: Work(work, clean) for name, work in works.items()}, repeat)
    report.compare("landing: Arrow, one core", timings["Arrow"], "Arrow's encoder alone", timings["Arrow, encoder"])
    for name, what in (("Arrow", "Arrow"), ("JSON", "JSON lines")):
        for peer, way in (("DuckDB", "COPY PARTITION_BY"), ("Polars", "PartitionBy")):
            theirs = timings[f"{name}, {peer}"]
            report.compare(f"landing: {what}, one core", timings[name], f"{peer} {way}", theirs)
    report.lines += [
        _rate("landing: Arrow, one core", count, timings["Arrow"], ARROW_AIM),
        _rate("landing: Arrow, all cores", count, both, ARROW_AIM),
        _rate("landing: Arrow, readings of five columns, one core", count, timings["Arrow, readings"], ARROW_AIM),
        _rate("landing: JSON lines, one core", count, timings["JSON"], JSON_AIM),
        _rate("landing: JSON lines, readings of five columns, one core", count, timings["JSON, readings"], JSON_AIM),
    ]
    clean()
    for place in folder.glob("landed-*"):
        shutil.rmtree(place)


def _written(rows: pa.Table, path: Path) -> tuple[Path, Path]:
    """The rows as a file of Arrow, and as one of JSON lines."""
    arrow, lines = path.with_suffix(".arrow"), path.with_suffix(".jsonl")
    with pa.ipc.new_file(str(arrow), rows.schema) as file:
        file.write_table(rows, max_chunksize=65_536)
    with duckdb.connect() as client:
        client.from_arrow(rows).query("t", f"COPY (FROM t) TO '{lines}' (FORMAT json)")
    return arrow, lines


def _rate(what: str, count: int, timing: Timing, aim: int) -> Line:
    rate = count / timing.median
    return Line(what, f"{rate / 1000:,.0f} k records/s", f"aim: {aim / 1000:,.0f} k", aim / rate, 1.0)


def main(count: int = 10_000_000) -> None:
    """Land so many records, and print the greatest resident memory within each tenth."""
    process = psutil.Process()
    seen: list[int] = []
    with tempfile.TemporaryDirectory(prefix="lake-assets-bench-") as folder:
        start = dt.datetime.now(dt.UTC)
        with LandingWriter("transactions", stream_at(Path(folder))) as writer:
            taken = most = 0
            for block in records(count):
                writer.write(block)
                taken += block.num_rows
                most = max(most, process.memory_info().rss)
                if taken * 10 // count > len(seen):
                    seen.append(most)
                    most = 0
                    sys.stdout.write(f"{taken:>12,} records  {seen[-1] / 2**20:7.0f} MiB\n")
        seconds = (dt.datetime.now(dt.UTC) - start).total_seconds()
        landed = writer.landed()
    middle = sorted(seen[1:])[len(seen[1:]) // 2]
    spread = max(abs(size - middle) for size in seen[1:]) / middle
    sys.stdout.write(
        f"{landed.records:,} records in {landed.files:,} files in {seconds:.0f} s; "
        f"after the first tenth within {spread:.0%} of {middle / 2**20:.0f} MiB\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
