"""From the start of a process to its end: one partition of a new lake, by the command line and by a run of Dagster."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

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

    def work(self) -> Work:
        return Work(self._run, self._clear)

    def _clear(self) -> None:
        for name in ("lake", "dagster"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()

    def _run(self) -> None:
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
    works = {name: _Process(place, command, settings).work() for name, command in commands.items()}
    timings = in_turns(works, repeat)
    _line(report, "a process that ingests one partition, by the command line", timings["cli"], CLI_TARGET)
    what = "the same by a run of Dagster, with its checks"
    _line(report, what, timings["dagster"], DAGSTER_TARGET)
    report.compare(what, timings["dagster"], "a run of an asset that does nothing", timings["empty"])


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
