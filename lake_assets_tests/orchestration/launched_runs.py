"""Runs of the asset by a launcher: what Dagster keeps of them, and acts while they are under way."""

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import duckdb

from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.streams.load import load_config
from lake_assets_tests.orchestration.check_runs import SALES, job
from lake_assets_tests.until import until
from lake_assets_tests.world import World, sales

TIMES = re.compile(r"seconds|^duration$|^run$|run_id|_at$|dagster/(?:code|data)_version")


def run(file: str | os.PathLike[str], *keys: str, **options: Any) -> dg.ExecuteInProcessResult:
    """One run of the asset and its checks, by the config of a file or of a bucket."""
    config = load_config(file)
    of_asset = job(build_definitions(config, pyspark_resource(config.spark)), SALES)
    tags = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
    return of_asset.execute_in_process(tags=tags, raise_on_error=False, **options)


def timeless(value: Any) -> Any:
    """The value without times and ids of runs, in mappings at any depth."""
    if isinstance(value, Mapping):
        return {name: timeless(item) for name, item in value.items() if not TIMES.search(name)}
    return value


def metadata_of(entry: Any) -> dict[str, Any]:
    return {name: timeless(value.value) for name, value in entry.metadata.items() if not TIMES.search(name)} | {
        "names": sorted(entry.metadata)
    }


def events_of(result: dg.ExecuteInProcessResult) -> list[Any]:
    """What Dagster keeps of a run: without times and ids, in an order that does not depend on them."""
    found: list[Any] = []
    for event in result.all_events:
        match event.event_type:
            case dg.DagsterEventType.ASSET_MATERIALIZATION:
                done = event.step_materialization_data.materialization
                found.append(("done", done.partition, timeless(done.tags or {}), metadata_of(done)))
            case dg.DagsterEventType.ASSET_OBSERVATION:
                seen = event.asset_observation_data.asset_observation
                found.append(("seen", seen.partition, timeless(seen.tags or {}), metadata_of(seen)))
            case dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                check = event.asset_check_evaluation_data
                about = (check.check_name, check.partition, check.passed, check.severity, check.blocking)
                found.append(("check", *about, check.description, metadata_of(check)))
            case dg.DagsterEventType.STEP_FAILURE:
                failure = event.step_failure_data
                assert failure.user_failure_data
                found.append(("failed", failure.user_failure_data.description))
            case dg.DagsterEventType.STEP_UP_FOR_RETRY | dg.DagsterEventType.STEP_SUCCESS:
                found.append((event.event_type_value, event.step_key))
    return sorted(found, key=repr)


class Kept(NamedTuple):
    """What is left of some runs: the events of each, the ledger's rows, the table's totals."""

    events: list[list[Any]]
    rows: list[dict[str, Any]]
    totals: list[float]

    def check_one_of_each(self) -> None:
        """It was one run, with a partition that is committed and one that failed, and with the events of both."""
        (events,) = self.events
        assert {event[0] for event in events} >= {"done", "seen", "check", "failed"}
        assert {row["status"] for row in self.rows} == {"committed", "failed"}


def as_in_process(world: World, runs: Callable[[str], list[dg.ExecuteInProcessResult]], launcher: str) -> Kept:
    """What is left of the runs by a launcher, which is the same as after such runs in process."""
    kept = {}
    for name in ("in_process", launcher):
        results = runs(name)
        rows = [timeless(dataclasses.asdict(row)) for row in world.ledger()]
        kept[name] = Kept([events_of(result) for result in results], rows, world.totals())
        catalog = Path(world.catalog["path"])
        shutil.rmtree(catalog.parent / "data")
        for file in catalog.parent.glob(f"{catalog.name}*"):
            file.unlink()
    assert kept[launcher] == kept["in_process"]
    return kept[launcher]


def interrupt(world: World, ended: Callable[[], bool], seconds: float) -> None:
    """Interrupt this process, as a cancelled run does, and let no commit end before the driver has the signal.

    Args:
        ended: whether the launcher has ended the driver's job.
        seconds: from then to the driver's signal.
    """
    with sqlite3.connect(world.catalog["path"], timeout=120, isolation_level=None) as catalog:
        catalog.execute("BEGIN IMMEDIATE")
        os.kill(os.getpid(), signal.SIGINT)  # Dagster raises its own error of an interrupt
        until(ended, "the launcher ends the driver's job")
        time.sleep(seconds)
        catalog.execute("ROLLBACK")


DAYS = [f"2026-01-{day:02}" for day in range(1, 32)]
REGIONS = ["NE", "NW", "SE", "SW"]
MANY = {"region": {"values": REGIONS}, "date": {"type": "date", "start": DAYS[0], "end": DAYS[-1]}}


def land_many(world: World) -> None:
    # A run is interrupted between two commits.
    world.options |= {"partitions": MANY, "commit_batch": 1}
    for region in REGIONS:
        for day in DAYS:
            world.land(f"region={region},date={day}", sales(1))


def committed(world: World) -> int:
    return statuses(world).get("committed", 0)


def statuses(world: World) -> dict[str, int]:
    """The number of the ledger's rows of each status; none while there is no ledger."""
    with contextlib.suppress(duckdb.Error):
        return dict(world.query("SELECT status, count(*) FROM lake.ingest_runs GROUP BY status"))
    return {}


@contextlib.contextmanager
def at_first_commit(world: World, act: Callable[[], None]) -> Iterator[None]:
    """Act once when the first partition of a run in the block is committed.

    A run of `land_many` takes a second for its commits, so its catalog is asked often, and not by attaching the lake.
    """

    def has_files() -> bool:
        connected = partial(sqlite3.connect, f"file:{world.catalog['path']}?mode=ro", uri=True)
        # There is no catalog yet, or it is being created.
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(connected()) as catalog:
            return bool(catalog.execute("SELECT count(*) FROM ducklake_data_file").fetchone()[0])
        return False

    def watch() -> None:
        until(has_files, "the first commit", 120)
        act()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield
    watcher.join(120)


def retries(result: dg.ExecuteInProcessResult) -> list[Any]:
    return [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]


def check_cancelled(result: dg.ExecuteInProcessResult, world: World) -> None:
    """The run over `land_many` has failed without a retry, after some commits with events; what had begun is recorded.

    Args:
        result: of the run.
        world: its lake.
    """
    assert not result.success
    assert not retries(result)
    found = statuses(world)
    assert set(found) == {"committed", "cancelled"}
    assert 1 <= len(world.totals()) == found["committed"] < len(DAYS) * 4
    assert len(result.get_asset_materialization_events()) == found["committed"]


def check_repeated(result: dg.ExecuteInProcessResult, world: World) -> None:
    """The run over `land_many` was tried again once, and each partition is committed once."""
    assert result.success
    assert len(retries(result)) == 1
    assert len(world.totals()) == committed(world) == len(DAYS) * 4
