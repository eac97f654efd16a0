"""Real flights through Dagster itself: a backfill of the year, launched as the UI launches it."""

import shutil
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from lake_assets.demo.flights import land, read_flights
from lake_assets_tests.benchmarks.measure import Line, Report
from lake_assets_tests.servers.dagster import DagsterServer, Run, dagster_dev

ORIGINS = ("EWR", "JFK", "LGA")
TARGET = 120.0  # seconds of run time for the 1,095 partitions of the year
PATIENCE = 1800.0  # seconds


def backfill(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:  # noqa: ARG001
    """Ten partitions and then all of the year, each a backfill; run time is what Dagster has of the runs."""
    work = folder / "work-backfill"
    shutil.rmtree(work, ignore_errors=True)
    landing = work / "landing"
    land(read_flights(), landing, lambda: None)
    days = sorted(path.name.removeprefix("date=") for path in (landing / "origin=JFK").iterdir())
    days = days[: max(int(len(days) * scale), 4)]
    config = work / "lake.yaml"
    config.write_text(yaml.safe_dump(_config(work, landing), sort_keys=False))
    with dagster_dev(config) as server:
        ten = _run(server, [f"{day}|JFK" for day in days[:10]])
        year = [f"{day}|{origin}" for origin in ORIGINS for day in days]
        runs = _run(server, year)
    seconds = sum(run.ended - run.started for run in runs)
    wall = max(run.ended for run in runs) - min(run.started for run in runs)
    what = f"backfill of {len(year):,} partitions by Dagster, {len(runs)} runs"
    each = f"{seconds / len(year) * 1000:.0f} ms a partition, {wall:.0f} s from the first run's start to the last's end"
    report.lines.append(Line(what, f"{seconds:.1f} s of runs", f"120 s; {each}", seconds / TARGET, 1.0))
    ten_seconds = sum(run.ended - run.started for run in ten)
    report.lines.append(
        Line("backfill of 10 partitions by Dagster", f"{ten_seconds:.1f} s of runs", "of which Spark's start")
    )


def _config(work: Path, landing: Path) -> dict[str, object]:
    return {
        "lakes": {
            "bench": {"catalog": {"type": "sqlite", "path": str(work / "c.sqlite")}, "storage": str(work / "lake")}
        },
        "streams": {
            "flights": {
                "source": str(landing),
                "partitions": {
                    "origin": {"values": list(ORIGINS)},
                    "date": {"type": "date", "start": "2013-01-01", "end": "2013-12-31"},
                },
                "destination": {"table": "flights"},
            }
        },
    }


def _run(server: DagsterServer, keys: list[str]) -> list[Run]:
    launched = server.backfill("flights", keys)
    status = server.wait(launched, PATIENCE)
    runs = server.runs(dagster__backfill=launched)
    assert {run.status for run in runs} == {"SUCCESS"}, (status, [server.failures(run) for run in runs])
    return runs
