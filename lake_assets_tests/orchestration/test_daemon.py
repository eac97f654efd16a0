"""Dagster's own daemon, with nothing but a config: what lands is in the lake some seconds later."""

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lake_assets.config.load import CONFIG_VARIABLE
from lake_assets_tests.orchestration.test_definitions import ROOT, write_config
from lake_assets_tests.world import World, sales

TODAY = dt.datetime.now(dt.UTC).date()


@pytest.fixture
def instance(local_world: World, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance whose daemon runs, with the world's config."""
    Path(local_world.source["path"]).mkdir()
    local_world.options["sensor"] = {"type": "objects", "interval": 5}
    config, home = write_config(local_world, tmp_path), tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
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
