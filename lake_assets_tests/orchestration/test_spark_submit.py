"""A run whose driver `spark-submit` starts: the same events, rows and ledger as those of a run in process."""

import contextlib
from pathlib import Path

import dagster as dg
import psutil
import pytest
from click.testing import CliRunner

from lake_assets.base.machine import user_name
from lake_assets.cli import main
from lake_assets.wings.launch.spark_submit import ENTRY
from lake_assets_tests.orchestration.check_runs import PARTITIONS
from lake_assets_tests.orchestration.in_process import failure_of
from lake_assets_tests.orchestration.launched_runs import (
    DAYS,
    as_in_process,
    at_first_commit,
    check_cancelled,
    check_repeated,
    interrupt,
    land_many,
    retries,
    run,
)
from lake_assets_tests.world import NW, SW, World, sales

SPARK = {"spark.master": "local[2]", "spark.driver.memory": "1g"}


@pytest.mark.more
def test_the_events_are_those_of_a_run_in_process(local_world: World, tmp_path: Path) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")
    local_world.land("region=NW,date=2026-02-12", sales(3))

    def runs(launcher: str) -> list[dg.ExecuteInProcessResult]:
        file = local_world.config_file(tmp_path, runs={"launcher": launcher}, spark=SPARK)
        return [run(file, "2026-02-11|NW", "2026-02-12|SW"), run(file, "2026-02-11|NW", "2026-02-11|NW")]

    (events, repeated), rows, totals = as_in_process(local_world, runs, "spark_submit")

    assert totals == [1, 2, 3]
    assert {event[0] for event in events} >= {"done", "seen", "check", "failed"}
    assert {event[0] for event in repeated} >= {"done", "check"}
    assert {row["status"] for row in rows} == {"committed", "skipped", "failed"}


SIGNAL_SECONDS = 3.0  # from Dagster by the launcher to the driver


def drivers() -> list[psutil.Process]:
    """The drivers that this process has started."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            arguments = child.cmdline()
            if arguments[1:2] == [str(ENTRY)]:
                found.append(child)
    return found


@pytest.mark.more
@pytest.mark.kill
def test_a_cancelled_run_ends_its_driver_and_records_what_had_begun(local_world: World, tmp_path: Path) -> None:
    land_many(local_world)
    file = local_world.config_file(tmp_path, runs="spark_submit", spark=SPARK)
    before: list[psutil.Process] = []

    def terminate() -> None:
        before.extend(drivers())
        interrupt(local_world, lambda: True, SIGNAL_SECONDS)

    with at_first_commit(local_world, terminate):
        result = run(file, f"{DAYS[0]}|NE", f"{DAYS[-1]}|SW")

    check_cancelled(result, local_world)
    (driver,) = before
    assert not driver.is_running()


@pytest.mark.soak
def test_a_run_whose_driver_is_killed_is_tried_again(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)
    land_many(local_world)
    file = local_world.config_file(tmp_path, runs="spark_submit", spark=SPARK)

    def kill() -> None:
        (driver,) = drivers()
        driver.kill()

    with at_first_commit(local_world, kill):
        result = run(file, f"{DAYS[0]}|NE", f"{DAYS[-1]}|SW")

    check_repeated(result, local_world)


def test_a_driver_that_cannot_start_fails_the_run_once(local_world: World, tmp_path: Path) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1))
    program = tmp_path / "spark-submit"
    program.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    program.chmod(0o755)
    runs = {"launcher": "spark_submit", "command": str(program)}

    result = run(local_world.config_file(tmp_path, runs=runs), "2026-02-11|NW", "2026-02-11|NW")

    assert not result.success
    assert not retries(result)
    text = failure_of(result)
    assert text.startswith("the driver of the run did not start (")
    assert "code 7" in text


@pytest.mark.soak
def test_a_plan_is_applied_by_the_driver_and_refused_where_the_landing_zone_moved(
    local_world: World, tmp_path: Path
) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    command = ["--config", str(local_world.config_file(tmp_path, spark=SPARK))]
    plan = tmp_path / "plan.json"
    plan.write_text(CliRunner().invoke(main, [*command, "plan", "sales", "--format", "json"]).stdout)
    local_world.land(SW, sales(3), "late.parquet")

    result = CliRunner().invoke(main, [*command, "apply", str(plan), "--launcher", "spark_submit"])

    assert result.exit_code == 1
    assert f"committed  {NW.replace(',', '/')}  1 row" in result.stdout
    assert f"the landing zone of partition {SW.replace(',', '/')} has changed since the plan" in result.stderr
    assert [(row.load_partition, row.status) for row in local_world.ledger()] == [(NW.replace(",", "/"), "committed")]
    assert {row.requested_by for row in local_world.ledger()} == {user_name()}


@pytest.mark.soak
def test_the_driver_has_the_executors_of_a_standalone_cluster(
    local_world: World, tmp_path: Path, standalone: str
) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no Parquet")
    spark = {"master": standalone, "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}

    result = run(local_world.config_file(tmp_path, runs="spark_submit", spark=spark), "2026-02-11|NW", "2026-02-11|SW")

    assert local_world.totals() == [1, 2]
    assert failure_of(result).startswith("1 of 2 partitions failed; 1 committed.")
    assert "cannot be read as Parquet" in failure_of(result)
    assert {row.status for row in local_world.ledger()} == {"committed", "failed"}
