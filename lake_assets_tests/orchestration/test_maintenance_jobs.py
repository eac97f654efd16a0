"""The jobs of a lake in Dagster, maintenance and audit, and their schedules."""

import datetime as dt

import dagster as dg
import pytest

from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.storage.store import Store
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets_tests.orchestration.in_process import REGIONS, failure_of, shown_error
from lake_assets_tests.orchestration.instances import tick_of
from lake_assets_tests.world import NW, SW, World, sales


@pytest.mark.parametrize(
    ("section", "job", "usual"), [("maintenance", "maintain_test", "30 3 * * *"), ("audit", "audit_test", "30 4 * * *")]
)
def test_every_lake_has_the_job_and_a_schedule_if_the_config_says_so(
    local_world: World, instance: dg.DagsterInstance, section: str, job: str, usual: str
) -> None:
    without = build_definitions(local_world.config)
    local_world.lake_options = {section: {}}
    daily = build_definitions(local_world.config).resolve_schedule_def(f"{job}_schedule")
    local_world.lake_options = {section: {"cron": "0 5 * * 0", "time_zone": "Europe/Berlin"}}
    schedule = build_definitions(local_world.config).resolve_schedule_def(f"{job}_schedule")

    assert without.resolve_job_def(job)
    assert not without.schedules
    assert (daily.cron_schedule, daily.execution_timezone) == (usual, "UTC")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 5 * * 0", "Europe/Berlin")
    assert schedule.job_name == job
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    at = dt.datetime(2026, 2, 15, 4, tzinfo=dt.UTC)
    tick = tick_of(schedule, instance, scheduled_execution_time=at)
    (request,) = tick.run_requests
    assert request.partition_key is None


def test_a_run_compacts_and_tells_in_numbers(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("INSERT INTO lake.sales VALUES (2, 2.0, 'NW', '2026-02-11')")
    local_world.lake_options = {"maintenance": {"compact": 2}}
    job = build_definitions(local_world.config).resolve_job_def("maintain_test")

    dry = job.execute_in_process({"ops": {"maintain_test_lake": {"config": {"dry_run": True}}}})
    assert len(local_world.live_files()) == 2
    done = job.execute_in_process()

    assert dry.success
    assert done.success
    assert len(local_world.live_files()) == 1
    (event,) = [event for event in done.all_events if event.is_successful_output]
    metadata = event.step_output_data.metadata
    assert metadata["partitions_compacted"].value == 1
    assert metadata["snapshots_expired"].value == 0
    assert local_world.totals() == [1, 2]


def test_without_a_lake_the_run_fails_with_one_sentence(local_world: World) -> None:
    result = (
        build_definitions(local_world.config).resolve_job_def("maintain_test").execute_in_process(raise_on_error=False)
    )

    assert "there is no lake at sqlite:" in failure_of(result)
    assert shown_error(result) == failure_of(result)


@pytest.mark.more
def test_an_audit_checks_whole_tables_and_a_run_does_not(local_world: World) -> None:
    local_world.options = REGIONS
    for text in (NW, SW):
        local_world.land(text, sales(1))
        local_world.ingest(text)
    (missing,) = (key for key in local_world.data_files() if "region=SW" in key)
    Store(local_world.config.lakes["test"].own_storage).delete((missing,))
    with local_world.stream.lake.open() as lake:
        lake.rows("UPDATE lake.ingest_runs SET row_count = 5 WHERE load_partition LIKE 'region=SW%'")
    definitions = build_definitions(local_world.config, pyspark_resource(local_world.config.spark))
    refresh = definitions.resolve_implicit_global_asset_job_def()

    of_run = refresh.execute_in_process(partition_key="2026-02-11|NW", asset_selection=[dg.AssetKey("sales")])
    audit = definitions.resolve_job_def("audit_test").execute_in_process(raise_on_error=False)

    assert all(evaluation.passed for evaluation in of_run.get_asset_check_evaluations())
    failed = {e.check_name: e for e in audit.get_asset_check_evaluations() if not e.passed}
    assert failed.keys() == {"ledger", "data_files", "row_counts"}
    assert missing in str(failed["data_files"].metadata["named"].value)
    assert (failed["row_counts"].description or "").startswith("The check could not be made: ")
    # The rows could not be counted without the file; the checks after that one are made all the same.
    assert missing in failure_of(audit)
    assert shown_error(audit) == failure_of(audit)


def test_a_lake_without_checks_has_no_audit(local_world: World) -> None:
    local_world.options = {"checks": {"skip": list(checks_of(local_world.stream))}}
    local_world.lake_options = {"audit": {}}
    assert not build_definitions(local_world.config).schedules
