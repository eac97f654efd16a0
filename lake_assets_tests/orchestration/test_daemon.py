"""Dagster's own daemon, with nothing but a config: what lands is in the lake some seconds later."""

import datetime as dt
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lake_assets.config.load import CONFIG_VARIABLE
from lake_assets.orchestration.dagster_private import PARTITION, RANGE_END, RANGE_START
from lake_assets_tests.orchestration.test_definitions import ROOT, write_config
from lake_assets_tests.until import until
from lake_assets_tests.world import World, sales

TODAY = dt.datetime.now(dt.UTC).date()


@pytest.fixture
def most_runs() -> int:
    """Runs at once; none leaves all in the queue."""
    return 2


@pytest.fixture
def instance(local_world: World, tmp_path: Path, most_runs: int) -> Iterator[dg.DagsterInstance]:
    """An instance whose daemon runs, with the world's config."""
    Path(local_world.source["path"]).mkdir()
    local_world.options["sensor"] = {"type": "objects", "interval": 5}
    config, home = write_config(local_world, tmp_path), tmp_path / "home"
    home.mkdir()
    settings = yaml.safe_load((ROOT / "dagster.yaml").read_text("utf-8"))
    settings["concurrency"]["runs"]["max_concurrent_runs"] = most_runs
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    environment = os.environ | {"DAGSTER_HOME": str(home), CONFIG_VARIABLE: str(config)}
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "lake_assets.definitions"]
    with (tmp_path / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            with dg.DagsterInstance.from_config(str(home)) as instance:
                yield instance
        finally:
            # The daemon, its code server and their runs are one session, which is ours.
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()


def runs_until(instance: dg.DagsterInstance, world: World, totals: list[float]) -> list[dg.DagsterRun]:
    """The runs that there are when the lake holds these totals and no run is under way."""
    for attempt in Retrying(
        stop=stop_after_delay(400), wait=wait_fixed(1), retry=retry_if_exception_type(AssertionError), reraise=True
    ):
        with attempt:
            runs = list(instance.get_runs())
            assert runs
            assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
            assert world.totals() == totals
    return runs


@pytest.mark.dagster
@pytest.mark.timeout(900)
def test_what_lands_is_ingested_by_the_daemon(instance: dg.DagsterInstance, local_world: World) -> None:
    local_world.land(f"region=NW,date={TODAY}", sales(1))
    (run,) = runs_until(instance, local_world, [1.0])
    assert run.tags["dagster/partition"] == f"{TODAY}|NW"

    for days_ago in range(30):
        local_world.land(f"region=SW,date={TODAY - dt.timedelta(days_ago)}", sales(2))
    _, *others = reversed(runs_until(instance, local_world, [1.0] + [2.0] * 30))
    assert len(others) <= 3  # one, if no tick came while they landed


@pytest.mark.dagster
@pytest.mark.timeout(300)
@pytest.mark.parametrize("most_runs", [0])
def test_the_queue_does_not_grow_while_nothing_runs(instance: dg.DagsterInstance, local_world: World) -> None:
    """At each tick, another object has landed in each partition."""

    def has_ticked(since: float) -> bool:
        states = [state for state in instance.all_instigator_state() if state.name == "sales_sensor"]
        ticks = [t for s in states for t in instance.get_ticks(s.instigator_origin_id, s.selector_id, limit=5)]
        return any(tick.timestamp > since and tick.end_timestamp for tick in ticks)

    for number in range(4):
        for region in ("NW", "SW", "NE")[: number + 1]:
            local_world.land(f"region={region},date={TODAY}", sales(number), f"{number}.parquet")
        until(functools.partial(has_ticked, time.time()), "a tick")

    keys = [
        run.tags.get(PARTITION) or f"{run.tags[RANGE_START]}...{run.tags[RANGE_END]}" for run in instance.get_runs()
    ]
    assert sorted(keys) == [f"{TODAY}|{region}" for region in ("NE", "NW", "SW")]
    assert {run.status for run in instance.get_runs()} == {dg.DagsterRunStatus.QUEUED}
