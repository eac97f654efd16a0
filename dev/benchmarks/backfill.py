"""Real flights through Dagster itself: a backfill of the year, launched as the UI launches it."""

import shutil
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from dev.benchmarks.measure import Line, Report
from dev.servers.dagster import DagsterServer, Run, dagster_dev
from lake_assets.wings.templates.demo.demo_run import land, read_flights

ORIGINS = ("EWR", "JFK", "LGA")
TARGET = 120.0  # seconds of run time for the 1,095 partitions of the year
FLAT = 1.25  # times what a partition more may cost in a large run of what it costs in a small one
PATIENCE = 1800.0  # seconds


def backfill(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:  # noqa: ARG001
    """Runs of few partitions, of some, and of a year; then all of the year at once. The times are Dagster's own."""
    work = folder / "work-backfill"
    shutil.rmtree(work, ignore_errors=True)
    landing = work / "landing"
    land(read_flights(), landing, lambda: None)
    days = sorted(path.name.removeprefix("date=") for path in (landing / "origin=JFK").iterdir())
    days = days[: max(int(len(days) * scale), 4)]
    config = work / "lake.yaml"
    config.write_text(yaml.safe_dump(_config(work, landing), sort_keys=False))
    with dagster_dev(config) as server:
        _flatness(report, server, days)
        year = [f"{day}|{origin}" for origin in ORIGINS for day in days]
        runs = _run(server, "flights", year)
    seconds = _seconds(runs)
    wall = max(run.ended for run in runs) - min(run.started for run in runs)
    what = f"backfill of {len(year):,} partitions by Dagster, {len(runs)} runs"
    each = f"{seconds / len(year) * 1000:.0f} ms a partition, {wall:.0f} s from the first run's start to the last's end"
    report.lines.append(Line(what, f"{seconds:.1f} s of runs", f"120 s; {each}", seconds / TARGET, 1.0))


def _flatness(report: Report, server: DagsterServer, days: list[str]) -> None:
    """What a partition more costs in a large run and in a small one, each run alone and on partitions of its own."""
    sizes = (max(len(days) // 36, 1), max(len(days) // 4, 2), len(days))
    _run(server, "sizes", [f"{days[-1]}|{ORIGINS[-1]}"])  # the first run of all warms the disk's cache
    small, middle, large = (
        _seconds(_run(server, "sizes", [f"{day}|{origin}" for day in days[:size]]))
        for size, origin in zip(sizes, ORIGINS, strict=True)
    )
    early = (middle - small) / (sizes[1] - sizes[0])
    late = (large - middle) / (sizes[2] - sizes[1])
    what = f"a partition more in a run by Dagster, from {sizes[1]} ({middle:.1f} s) to {sizes[2]} ({large:.1f} s)"
    before = f"from {sizes[0]} ({small:.1f} s) to {sizes[1]}: {early * 1000:.0f} ms"
    report.lines.append(Line(what, f"{late * 1000:.0f} ms", before, late / early, FLAT))


def _seconds(runs: list[Run]) -> float:
    return sum(run.ended - run.started for run in runs)


def _config(work: Path, landing: Path) -> dict[str, object]:
    stream = {
        "source": str(landing),
        "partitions": {
            "origin": {"values": list(ORIGINS)},
            "date": {"type": "date", "start": "2013-01-01", "end": "2013-12-31"},
        },
    }
    return {
        "lakes": {
            "bench": {"catalog": {"type": "sqlite", "path": str(work / "c.sqlite")}, "storage": str(work / "lake")}
        },
        "streams": {name: stream | {"destination": {"table": name}} for name in ("flights", "sizes")},
    }


def _run(server: DagsterServer, asset: str, keys: list[str]) -> list[Run]:
    launched = server.backfill(asset, keys)
    status = server.wait(launched, PATIENCE)
    runs = server.runs(dagster__backfill=launched)
    assert {run.status for run in runs} == {"SUCCESS"}, (status, [server.failures(run) for run in runs])
    return runs
