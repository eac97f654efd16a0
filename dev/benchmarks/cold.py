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

from dev.benchmarks import retail
from dev.benchmarks.measure import Line, Report, Timing, Work, in_turns
from dev.servers.connect import connect_server
from lake_assets.api import open_stream
from lake_assets.lake.ledger.read import read_ledger
from lake_assets.streams.load import load_config

FILES, ROWS = 3, 1_000
CLI_TARGET, DAGSTER_TARGET = 5.0, 7.0  # seconds
CLI_TARGET_BY_CONNECT, DAGSTER_TARGET_BY_CONNECT = 3.5, 6.0
MATERIALIZE = ("dagster", "asset", "materialize", "--partition", "2026-02-11|NW", "--select")
_BIN = Path(sys.executable).parent

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
    """Both with a local session and through a Spark Connect server that runs; and a run of Dagster that does nothing.

    `spark` and `scale` are those of the other benchmarks.
    """
    del spark, scale
    place = folder / "work-cold"
    shutil.rmtree(place, ignore_errors=True)
    landing = retail.land(folder / "landing-cold", FILES, ROWS)
    local = _Starts.of(place / "local", landing, {})
    empty = place / "local" / "empty.py"
    empty.write_text(EMPTY)
    nothing = _Process(local.dagster.folder, (*MATERIALIZE, "empty", "-f", str(empty)), local.dagster.environment)
    timings = local.measure(report, repeat, "", CLI_TARGET, DAGSTER_TARGET, {"empty": nothing.work()})
    what = "a run of Dagster, with its checks"
    report.compare(what, timings["dagster"], "a run of an asset that does nothing", timings["empty"])
    with connect_server() as url:
        remote = _Starts.of(place / "remote", landing, {"remote": url})
        remote.measure(report, repeat, "through Spark Connect, ", CLI_TARGET_BY_CONNECT, DAGSTER_TARGET_BY_CONNECT, {})


@dataclass(frozen=True, slots=True)
class _Starts:
    """The processes that ingest one partition."""

    config: Path
    cli: _Process
    dagster: _Process

    @classmethod
    def of(cls, place: Path, landing: Path, spark: Mapping[str, str]) -> "_Starts":
        place.mkdir(parents=True)
        config = place / "lake.yaml"
        config.write_text(yaml.safe_dump(_config(landing, spark), sort_keys=False))
        settings = {"LAKE_CONFIG": str(config), "DAGSTER_HOME": str(place / "dagster")}
        ingest = ("lake-assets", "--config", str(config), "ingest", "sales", "--partition", "region=NW,date=2026-02-11")
        materialize = (*MATERIALIZE, "sales", "-m", "lake_assets.definitions")
        return cls(config, _Process(place, ingest, settings), _Process(place, materialize, settings))

    def measure(
        self,
        report: Report,
        repeat: int,
        how: str,
        cli_target: float,
        dagster_target: float,
        others: Mapping[str, Work],
    ) -> Mapping[str, Timing]:
        cli, commits = self.cli.work(), list[float]()

        def ingest_until_commit() -> None:
            cli.run()
            commits.append(_committed_at(self.config) - self.cli.starts[-1])

        works = {"cli": Work(ingest_until_commit, cli.before), "dagster": self.dagster.work(), **others}
        timings = in_turns(works, repeat)
        what = f"{how}a process that ingests one partition, by the command line"
        _line(report, f"{what}, to its commit", Timing(tuple(commits[1:])), cli_target)
        report.lines.append(Line(f"{what}, to its end", str(timings["cli"]), ""))
        _line(report, f"{how}a run of Dagster, with its checks", timings["dagster"], dagster_target)
        return timings


def _committed_at(config: Path) -> float:
    """When the only commit of the lake ended, in seconds since the epoch."""
    with open_stream(load_config(config), "sales").lake.open(read_only=True) as lake:
        (row,) = read_ledger(lake)
    assert row.finished_at is not None
    return row.finished_at.timestamp()


def _line(report: Report, what: str, timing: Timing, target: float) -> None:
    report.lines.append(Line(what, str(timing), f"{target:g} s", timing.median / target, 1.0))


def _config(landing: Path, spark: Mapping[str, str]) -> dict[str, object]:
    return {
        "spark": dict(spark),
        "lakes": {"bench": {"catalog": {"type": "sqlite", "path": "lake/catalog.sqlite"}, "storage": "lake/data"}},
        "streams": {
            "sales": {
                "source": str(landing),
                "partitions": {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2026-02-11"}},
                "destination": {"table": "sales"},
            }
        },
    }
