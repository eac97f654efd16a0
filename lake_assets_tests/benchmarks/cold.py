"""From the start of a process to its end: one partition of a new lake, by the command line and by a run of Dagster."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from lake_assets.config.load import load_config
from lake_assets.lake.ledger.reading import read_ledger
from lake_assets.streams.stream import open_stream
from lake_assets_tests.benchmarks import retail
from lake_assets_tests.benchmarks.measure import Line, Report, Timing, Work, in_turns

FILES, ROWS = 3, 1_000
CLI_TARGET, DAGSTER_TARGET = 5.0, 7.0  # seconds
_BIN = Path(sys.executable).parent
KEY = "2026-02-11|NW"

# A run of Dagster that does nothing.
EMPTY = """
import dagster as dg

days = dg.StaticPartitionsDefinition(["2026-02-11"])
regions = dg.StaticPartitionsDefinition(["NW"])


@dg.asset(partitions_def=dg.MultiPartitionsDefinition({"date": days, "region": regions}))
def empty() -> None: ...
"""


@dataclass(frozen=True, slots=True)
class _Process:
    """A command in a folder, which is emptied of lake and runs before each start."""

    folder: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    starts: list[float] = field(default_factory=list)  # seconds since the epoch

    def work(self) -> Work:
        return Work(self._run, self._clear)

    def _clear(self) -> None:
        for name in ("lake", "dagster"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()

    def _run(self) -> None:
        self.starts.append(time.time())
        done = subprocess.run(
            [_BIN / self.arguments[0], *self.arguments[1:]], cwd=self.folder, env=os.environ | self.environment,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def cold(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Both, and the run of Dagster that does nothing; `spark` and `scale` are those of the other benchmarks."""
    del spark, scale
    place = folder / "work-cold"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    config = place / "lake.yaml"
    config.write_text(yaml.safe_dump(_config(retail.land(folder / "landing-cold", FILES, ROWS)), sort_keys=False))
    (place / "empty.py").write_text(EMPTY)
    settings = {"LAKE_CONFIG": str(config), "DAGSTER_HOME": str(place / "dagster")}
    ingest = ("lake-assets", "--config", str(config), "ingest", "sales", "--partition", "region=NW,date=2026-02-11")
    materialize = ("dagster", "asset", "materialize", "--partition", KEY, "--select")
    commands = {
        "cli": ingest,
        "dagster": (*materialize, "sales", "-m", "lake_assets.definitions"),
        "empty": (*materialize, "empty", "-f", "empty.py"),
    }
    processes = {name: _Process(place, command, settings) for name, command in commands.items()}
    works = {name: process.work() for name, process in processes.items()}
    commits: list[float] = []

    def ingest_until_commit() -> None:
        works["cli"].run()
        commits.append(_committed_at(config) - processes["cli"].starts[-1])

    timings = in_turns(works | {"cli": Work(ingest_until_commit, works["cli"].before)}, repeat)
    what = "a process that ingests one partition, by the command line"
    _line(report, f"{what}, to its commit", Timing(tuple(commits[1:])), CLI_TARGET)
    report.lines.append(Line(f"{what}, to its end", str(timings["cli"]), ""))
    what = "the same by a run of Dagster, with its checks"
    _line(report, what, timings["dagster"], DAGSTER_TARGET)
    report.compare(what, timings["dagster"], "a run of an asset that does nothing", timings["empty"])


def _committed_at(config: Path) -> float:
    """When the only commit of the lake ended, in seconds since the epoch."""
    with open_stream(load_config(config), "sales").lake.open(read_only=True) as lake:
        (row,) = read_ledger(lake)
    assert row.finished_at is not None
    return row.finished_at.timestamp()


def _line(report: Report, what: str, timing: Timing, target: float) -> None:
    report.lines.append(Line(what, str(timing), f"{target:g} s", timing.median / target, 1.0))


def _config(landing: Path) -> dict[str, object]:
    return {
        "lakes": {"bench": {"catalog": {"type": "sqlite", "path": "lake/catalog.sqlite"}, "storage": "lake/data"}},
        "streams": {
            "sales": {
                "source": str(landing),
                "partitions": {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2026-02-11"}},
                "destination": {"table": "sales"},
            }
        },
    }
