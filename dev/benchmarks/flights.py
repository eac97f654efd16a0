"""Real flights: what a day of an airport costs, one after another and in one range."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from dev.benchmarks.measure import Line, Report, Work, in_turns
from lake_assets.api import open_stream
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.ingest_all import ingest, ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.wings.templates.demo.demo_run import land, read_flights

ORIGINS = ("EWR", "JFK", "LGA")
TARGET = 120.0  # seconds for the 1,095 partitions of the year


def flights(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Ten days one by one and in a range, and the year at all three airports in a range."""
    work = folder / "work-flights"
    shutil.rmtree(work, ignore_errors=True)
    landing = work / "landing"
    land(read_flights(), landing, lambda: None)
    config = {
        "lakes": {
            "bench": {"catalog": {"type": "sqlite", "path": str(work / "c.sqlite")}, "storage": str(work / "lake")}
        },
        "streams": {
            "flights": {
                "source": str(landing),
                "partitions": {"origin": {}, "date": {"type": "date", "start": "2013-01-01"}},
                "destination": {"table": "flights"},
            }
        },
    }
    stream = open_stream(LakeConfig.model_validate(config), "flights")
    days = sorted(path.name for path in (landing / "origin=JFK").iterdir())
    texts = [f"origin={origin},{day}" for origin in ORIGINS for day in days[: max(int(len(days) * scale), 4)]]
    year = [stream.config.partition(text) for text in texts]
    ten = year[:10]

    def in_a_range(partitions: list[Partition]) -> None:
        for outcome in ingest_all(stream, partitions, lambda: spark, IngestOptions(force=True)):
            assert outcome.error is None

    def one_by_one() -> None:
        for partition in ten:
            ingest(stream, partition, lambda: spark, IngestOptions(force=True))

    works = {
        "one by one": Work(one_by_one),
        "ten": Work(lambda: in_a_range(ten)),
        "year": Work(lambda: in_a_range(year)),
    }
    times = in_turns(works, min(repeat, 3))
    report.compare("real flights, ten partitions in a range", times["ten"], "one by one", times["one by one"])
    each = times["year"].median / len(year)
    what = f"real flights, {len(year):,} partitions in a range"
    target = times["year"].median / TARGET
    report.lines.append(Line(what, str(times["year"]), f"120 s; {each * 1000:.0f} ms a partition", target, 1.0))
