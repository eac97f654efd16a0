"""From landing to commit through Dagster's daemon: objects of many regions land at once, as at midnight."""

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession

from dev.benchmarks import retail
from dev.benchmarks.measure import Line, Report, Timing
from lake_assets.api import open_stream
from lake_assets.lake.ledger.read import LedgerFilter, read_ledger
from lake_assets.lake.ledger.tables import LEDGER
from lake_assets.streams.load import load_config

REGIONS, ROWS = 25, 1_000
TARGET = 15.0  # seconds
LONGEST = 900.0  # seconds until all are committed
_PAUSE = 2.0  # seconds between two looks, which take a share of a core; the ledger has the times
_SETTINGS = Path(__file__).parents[2] / "dagster.yaml"
_TODAY = dt.datetime.now(dt.UTC).date()


def arrival(report: Report, folder: Path, spark: SparkSession, repeat: int, scale: float) -> None:
    """Until the last region is committed, with shared runs and with a run each; `spark` is that of the others."""
    del spark
    regions = max(2, round(REGIONS * scale))
    shared = _until_committed(folder / "work-arrival-shared", regions, repeat, {})
    alone = _until_committed(folder / "work-arrival-alone", regions, 1, {"group_runs": 1})
    what = f"objects of {regions} regions land, until the last one is committed, by a sensor"
    report.lines.append(Line(what, str(shared), f"{TARGET:g} s", shared.median / TARGET, 1.0))
    report.compare(what, shared, "each region by a run of its own", alone)


def _until_committed(place: Path, regions: int, repeat: int, sensor: dict[str, int]) -> Timing:
    """Seconds for each day that lands, without the first one."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "landing").mkdir(parents=True)
    config = place / "lake.yaml"
    config.write_text(yaml.safe_dump(_config(place, sensor), sort_keys=False))
    seconds = []
    with _daemon(place, config):
        for days_ago in range(repeat + 1):
            day = _TODAY - dt.timedelta(days_ago)
            landed_at = time.time()
            _land(place / "landing", regions, day)
            _until(lambda: len(_commits(config, day)) == regions)  # noqa: B023 - called in this turn
            seconds.append(max(_commits(config, day)) - landed_at)
    return Timing(tuple(seconds[1:]))


def _land(landing: Path, regions: int, day: dt.date) -> None:
    for number in range(regions):
        target = landing / f"region=R{number:02}" / f"date={day}" / "a.parquet"
        target.parent.mkdir(parents=True)
        part = target.with_name("_a.parquet")
        pq.write_table(retail.transactions(ROWS, number), part)
        part.rename(target)


@contextmanager
def _daemon(place: Path, config: Path) -> Iterator[None]:
    """Dagster's daemon, from its first tick on."""
    home = place / "dagster"
    home.mkdir()
    shutil.copy(_SETTINGS, home)
    environment = os.environ | {"DAGSTER_HOME": str(home), "LAKE_CONFIG": str(config)}
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "lake_assets.definitions"]
    with (place / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            with dg.DagsterInstance.from_config(str(home)) as instance:
                _until(lambda: any(state.instigator_data for state in instance.all_instigator_state()))
            yield
        finally:
            os.killpg(daemon.pid, signal.SIGKILL)  # with its code server and runs
            daemon.wait()


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < deadline, "not within the time; see daemon.log"
        time.sleep(_PAUSE)


def _commits(config: Path, day: dt.date) -> list[float]:
    """When the regions of a day were committed, in seconds since the epoch."""
    if not (config.parent / "lake" / "catalog.sqlite").exists():
        return []
    with open_stream(load_config(config), "sales").lake.open(read_only=True) as lake:
        if not lake.exists(LEDGER.name(lake.config)):
            return []
        rows = read_ledger(lake, LedgerFilter(statuses=["committed"]), 10_000)
    return [row.finished_at.timestamp() for row in rows if row.finished_at and f"date={day}" in row.load_partition]


def _config(place: Path, sensor: dict[str, int]) -> dict[str, object]:
    return {
        "lakes": {
            "bench": {
                "catalog": {"type": "sqlite", "path": str(place / "lake" / "catalog.sqlite")},
                "storage": str(place / "lake" / "data"),
            }
        },
        "streams": {
            "sales": {
                "source": str(place / "landing"),
                "partitions": {"region": {}, "date": {"type": "date", "start": str(_TODAY - dt.timedelta(60))}},
                "destination": {"table": "sales"},
                "sensor": {"lookback": 30, **sensor},
            }
        },
    }
