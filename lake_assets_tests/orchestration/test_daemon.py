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
from dagster._core.scheduler.instigation import InstigatorStatus
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lake_assets.orchestration.partition_keys import PARTITION, RANGE_END, RANGE_START, StreamKeys
from lake_assets.streams.load import CONFIG_VARIABLE
from lake_assets_tests.orchestration.test_definitions import ROOT, write_config
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.until import until
from lake_assets_tests.world import World, sales

TODAY = dt.datetime.now(dt.UTC).date()


@pytest.fixture
def most_runs() -> int:
    """Runs at once; none leaves all in the queue."""
    return 2


class Daemon:
    """Dagster's daemon with the world's config, its code server and their runs: one session of processes."""

    def __init__(self, world: World, folder: Path, most_runs: int) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        settings = yaml.safe_load((ROOT / "dagster.yaml").read_text("utf-8"))
        settings["concurrency"]["runs"]["max_concurrent_runs"] = most_runs
        (self.home / "dagster.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        self.log = folder / "daemon.log"
        self.environment = {"DAGSTER_HOME": str(self.home), CONFIG_VARIABLE: str(write_config(world, folder))}
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "lake_assets.definitions"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, env=os.environ | self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def daemon(local_world: World, tmp_path: Path, most_runs: int) -> Iterator[Daemon]:
    """A daemon that runs."""
    Path(local_world.source["path"]).mkdir()
    local_world.options["sensor"] = {"type": "objects", "interval": 5}
    daemon = Daemon(local_world, tmp_path, most_runs)
    try:
        yield daemon
    finally:
        daemon.kill()


@pytest.fixture
def instance(daemon: Daemon) -> Iterator[dg.DagsterInstance]:
    """The daemon's instance."""
    with dg.DagsterInstance.from_config(str(daemon.home)) as instance:
        yield instance


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


@pytest.mark.soak
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


@pytest.mark.soak
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


@pytest.mark.dagster
@pytest.mark.kill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("status", [*more([dg.DagsterRunStatus.STARTED]), *soak([dg.DagsterRunStatus.STARTING])])
def test_a_run_that_was_killed_with_its_code_server_fails_and_is_tried_again(
    daemon: Daemon, instance: dg.DagsterInstance, local_world: World, status: dg.DagsterRunStatus
) -> None:
    """Also if its process had not begun."""

    def states() -> list[dg.DagsterRunStatus]:
        return [run.status for run in instance.get_runs(ascending=True)]

    local_world.land(f"region=NW,date={TODAY}", sales(1))
    until(lambda: states() == [status] and all(GRPC_INFO_TAG in run.tags for run in instance.get_runs()), "its begin")
    daemon.kill()
    assert states() == [status]  # nobody is left to say that it has ended

    daemon.start()

    until(lambda: states() == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS], "the second try", 240)
    assert local_world.totals() == [1.0]
    (lost,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    (failure,) = instance.all_logs(lost.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    assert "its code server or Dagster's daemon was killed" in str(failure.message)


@pytest.mark.soak
@pytest.mark.dagster
@pytest.mark.timeout(300)
@pytest.mark.parametrize("most_runs", [0])
def test_a_run_whose_process_nobody_asked_for_fails_and_is_tried_again(
    instance: dg.DagsterInstance, local_world: World
) -> None:
    """As after the death of the daemon between the start of a run and its request to the code server."""

    def states() -> list[dg.DagsterRunStatus]:
        return [run.status for run in instance.get_runs(ascending=True)]

    local_world.land(f"region=NW,date={TODAY}", sales(1))
    until(lambda: states() == [dg.DagsterRunStatus.QUEUED], "its request")
    (run,) = instance.get_runs()
    starting = dg.DagsterEvent(dg.DagsterEventType.RUN_STARTING.value, run.job_name)
    instance.report_dagster_event(starting, run.run_id)

    until(lambda: states() == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.QUEUED], "the second try", 90)


@pytest.mark.soak
@pytest.mark.dagster
@pytest.mark.timeout(600)
def test_a_renamed_stream_is_in_dagster_as_it_was(
    daemon: Daemon, instance: dg.DagsterInstance, local_world: World
) -> None:
    """Its sensor was switched off, and its regions are discovered."""

    def states() -> dict[str, InstigatorStatus]:
        return {state.name: state.status for state in instance.all_instigator_state()}

    local_world.land(f"region=NW,date={TODAY}", sales(1))
    runs_until(instance, local_world, [1.0])
    daemon.kill()
    (state,) = (state for state in instance.all_instigator_state() if state.name == "sales_sensor")
    instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))
    file = Path(daemon.environment[CONFIG_VARIABLE])
    config = yaml.safe_load(file.read_text("utf-8"))
    config["streams"] = {"orders": config["streams"]["sales"] | {"previously": ["sales"]}}
    file.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    asset = dg.AssetKey("orders")

    daemon.start()

    until(lambda: "sales_sensor" not in states(), "the state of the sensor", 240)
    assert states()["orders_sensor"] == InstigatorStatus.STOPPED
    until(lambda: instance.get_materialized_partitions(asset) == {f"{TODAY}|NW"}, "the report of its commit", 240)
    assert instance.get_dynamic_partitions("orders_region") == ["NW"]


@pytest.mark.soak
@pytest.mark.dagster
@pytest.mark.kill
@pytest.mark.timeout(900)
@pytest.mark.parametrize("most_runs", [0])
def test_a_run_that_is_dropped_while_the_config_has_an_error_is_requested_again_and_is_no_failure(
    daemon: Daemon, instance: dg.DagsterInstance, local_world: World
) -> None:
    def states() -> list[dg.DagsterRunStatus]:
        return [run.status for run in instance.get_runs(ascending=True)]

    def is_given_up() -> bool:
        return [run.tags.get("dagster/will_retry") for run in instance.get_runs()] == ["false"]

    local_world.land(f"region=NW,date={TODAY}", sales(1))
    until(lambda: states() == [dg.DagsterRunStatus.QUEUED], "its request")
    daemon.kill()
    settings = yaml.safe_load((daemon.home / "dagster.yaml").read_text("utf-8"))
    settings["concurrency"]["runs"]["max_concurrent_runs"] = 2
    settings["run_coordinator"]["config"]["max_user_code_failure_retries"] = 0
    (daemon.home / "dagster.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    config = Path(daemon.environment[CONFIG_VARIABLE])
    right = config.read_text("utf-8")
    config.write_text("streams: no mapping", "utf-8")
    daemon.start()
    until(lambda: states() == [dg.DagsterRunStatus.FAILURE] and is_given_up(), "Dagster has dropped the run", 240)
    asset, key = dg.AssetKey("sales"), f"{TODAY}|NW"
    keys = StreamKeys(local_world.stream).definition
    shown = instance.get_status_by_partition(asset, [key], keys) or {}
    assert shown[key] == AssetPartitionStatus.FAILED

    config.write_text(right, "utf-8")

    until(lambda: states()[:1] == [dg.DagsterRunStatus.CANCELED], "the sensor says that it never began", 240)
    if len(states()) == 1:
        shown = instance.get_status_by_partition(asset, [key], keys) or {}
        assert shown.get(key) is None
    until(lambda: states() == [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS], "the second run", 400)
    assert local_world.totals() == [1.0]
    assert len({run.tags["dagster/run_key"] for run in instance.get_runs()}) == 2
