"""The audit jobs in Dagster: the checks of whole tables."""

import datetime as dt

import dagster as dg
import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.errors import ConfigError
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.storage.store import Store
from lake_assets_tests.orchestration.in_process import REGIONS
from lake_assets_tests.world import NW, SW, World, sales


def test_every_lake_has_an_audit_and_a_schedule_if_the_config_says_so(local_world: World) -> None:
    without = build_definitions(local_world.config)
    local_world.lake_options = {"audit": {"cron": "0 5 * * 0", "time_zone": "Europe/Berlin"}}
    scheduled = build_definitions(local_world.config)

    assert without.resolve_job_def("audit_test")
    assert not without.schedules
    schedule = scheduled.resolve_schedule_def("audit_test_schedule")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 5 * * 0", "Europe/Berlin")
    assert schedule.job_name == "audit_test"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    with dg.DagsterInstance.local_temp() as instance:
        at = dt.datetime(2026, 2, 15, 4, tzinfo=dt.UTC)
        tick = schedule.evaluate_tick(dg.build_schedule_context(instance, scheduled_execution_time=at))
    (request,) = tick.run_requests or ()
    assert request.partition_key is None


def test_its_time_is_an_hour_after_that_of_maintenance(local_world: World) -> None:
    local_world.lake_options = {"audit": {}, "maintenance": {}}
    lake = local_world.config.lakes["test"]
    assert lake.audit is not None
    assert lake.maintenance is not None
    assert (lake.audit.cron, lake.audit.time_zone) == ("30 4 * * *", "UTC")
    assert (lake.maintenance.cron, lake.maintenance.time_zone) == ("30 3 * * *", "UTC")


def test_an_audit_checks_whole_tables_and_a_run_does_not(local_world: World, spark: object) -> None:
    assert spark
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

    assert {e.check_name for e in of_run.get_asset_check_evaluations() if not e.passed} == set()
    failed = {e.check_name for e in audit.get_asset_check_evaluations() if not e.passed}
    assert failed == {"ledger", "data_files"}
    named = {e.check_name: str(e.metadata["named"].value) for e in audit.get_asset_check_evaluations() if not e.passed}
    assert missing in named["data_files"]
    # The rows could not be counted without the file; the checks after that one are made all the same.
    (failure,) = [event for event in audit.all_events if event.is_step_failure]
    assert missing in str(failure.step_failure_data.error)


def test_a_stream_of_the_job_s_name_is_refused(local_world: World) -> None:
    document = local_world.document
    document["streams"] = {"audit_test": document["streams"]["sales"]}
    with pytest.raises(ConfigError, match=r"the audit of lakes\.test"):
        build_definitions(LakeConfig.model_validate(document))


def test_a_lake_without_checks_has_no_audit(local_world: World) -> None:
    names = ["row_counts", "landing_zone", "no_null_partition", "schema", "ledger", "data_files", "indexed_objects"]
    local_world.options = {"checks": {"skip": names}}
    local_world.lake_options = {"audit": {}}
    assert not build_definitions(local_world.config).schedules
