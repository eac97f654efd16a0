"""Real flights: what a day of an airport costs, one partition after another."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from lake_assets.config.models import LakeConfig
from lake_assets.demo.flights import land, read_flights
from lake_assets.ingest import ingest
from lake_assets.stream import open_stream
from lake_assets_tests.benchmarks.measure import Line, Report, timed


def flights(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """The days of January at JFK."""
    work = folder / "work-flights"
    shutil.rmtree(work, ignore_errors=True)
    land(read_flights(), work / "landing", lambda: None)
    config = {
        "lakes": {
            "bench": {"catalog": {"type": "sqlite", "path": str(work / "c.sqlite")}, "storage": str(work / "lake")}
        },
        "streams": {
            "flights": {
                "source": str(work / "landing"),
                "partitions": {"origin": {}, "date": {"type": "date", "start": "2013-01-01"}},
                "destination": {"table": "flights"},
            }
        },
    }
    stream = open_stream(LakeConfig.model_validate(config), "flights")
    days = [f"origin=JFK,date=2013-01-{day:02}" for day in range(1, max(int(31 * scale), 2) + 1)]

    def all_days() -> None:
        for day in days:
            ingest(stream, stream.config.partition(day), lambda: spark, force=True)

    timing = timed(all_days, repeat)
    each = timing.median / len(days)
    report.lines.append(Line(f"real flights, {len(days)} days one by one", str(timing), f"{each:.2f} s a partition"))
