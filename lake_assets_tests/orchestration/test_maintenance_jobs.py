"""The maintenance jobs in Dagster."""

import dagster as dg

from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.build import build_definitions
from lake_assets_tests.world import NW, World, sales


def config_with(world: World, **maintenance: object) -> LakeConfig:
    data = world.config.model_dump(by_alias=True)
    data["lakes"]["test"]["maintenance"] = maintenance
    return LakeConfig.model_validate(data)


def test_every_lake_has_a_job_and_a_schedule_if_the_config_says_so(local_world: World) -> None:
    without = build_definitions(local_world.config)
    scheduled = build_definitions(config_with(local_world, cron="0 4 * * 0", time_zone="Europe/Berlin"))

    assert without.resolve_job_def("maintain_test")
    assert not without.schedules
    schedule = scheduled.resolve_schedule_def("maintain_test_schedule")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 4 * * 0", "Europe/Berlin")
    assert schedule.job_name == "maintain_test"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_a_run_compacts_and_tells_in_numbers(local_world: World, spark: object) -> None:
    assert spark
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows("INSERT INTO lake.sales VALUES (2, 2.0, 'NW', '2026-02-11')")
    job = build_definitions(config_with(local_world, compact=2)).resolve_job_def("maintain_test")

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
    job = build_definitions(local_world.config).resolve_job_def("maintain_test")

    result = job.execute_in_process(raise_on_error=False)

    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "there is no lake at sqlite:" in str(failure.step_failure_data.user_failure_data.description)  # type: ignore[union-attr]
