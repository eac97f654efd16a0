"""The job `restore_<stream>` in Dagster."""

from typing import Any

import dagster as dg
from dagster._core.storage.tags import AUTOMATION_CONDITION_TAG, BACKFILL_ID_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG

from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.commit_events import commits_of, outcome_of_commit
from lake_assets.orchestration.metadata import materialization_metadata
from lake_assets.orchestration.stream_run import requester
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.orchestration.in_process import failure_of, shown_error
from lake_assets_tests.upkeep.history.test_restore import ingested
from lake_assets_tests.world import NW, World

KEY = "2026-02-11|NW"


def run(world: World, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_definitions(world.config).resolve_job_def("restore_sales")
    options = {"ops": {"restore_partition_of_sales": {"config": {"partition": NW} | config}}}
    return job.execute_in_process(options, raise_on_error=False)


def test_a_run_without_a_snapshot_fails_and_shows_the_history(local_world: World) -> None:
    first = ingested(local_world, 1, 2)

    result = run(local_world)

    assert failure_of(result) == (
        "snapshot is missing: set it to a number of the history below, or set release: true to end a hold."
    )
    assert shown_error(result) == failure_of(result)
    (failed,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failed.user_failure_data is not None
    assert f"| {first} |" in str(failed.user_failure_data.metadata["history"].value)
    assert local_world.totals() == [1, 2]


def test_a_restored_partition_is_materialized_with_its_history(local_world: World) -> None:
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)

    result = run(local_world, partition=KEY, snapshot=first, hold=True)

    assert local_world.totals(NW) == [1, 2]
    (event,) = result.get_asset_materialization_events()
    assert event.asset_key == dg.AssetKey("sales")
    assert event.partition == KEY
    metadata: dict[str, Any] = {name: value.value for name, value in event.materialization.metadata.items()}
    assert (metadata["rows"], metadata["rows_before"], metadata["restored_snapshot"]) == (2, 1, first)
    assert metadata["status"] == f"restored: the rows of snapshot {first}"
    assert metadata["held"].startswith(f"Held by Dagster (run {result.run_id[:8]}) since ")
    ways = f"`lake-assets restore sales --partition {NW} --release`, or the job `restore_sales` with `release: true`."
    assert metadata["held"].endswith(f" snapshot {first}. No refresh changes the partition until {ways}")
    assert "restore, held" in metadata["history"]
    assert "Held: refreshes skip it until you run" in metadata["next_refresh"]
    row = local_world.ledger(NW)[0]
    assert (row.run_id, row.requested_by) == (result.run_id, "Dagster")


def test_a_forced_refresh_of_a_held_partition_says_that_the_hold_remains(local_world: World) -> None:
    first = ingested(local_world, 1, 2)
    Restoration(local_world.stream, local_world.partition(NW), first, hold=True).run()

    shown = materialization_metadata(local_world.ingest(NW, force=True))

    assert shown["status"].value == "committed"
    assert str(shown["held"].value).startswith(
        "Held also after this refresh, which was forced. No refresh changes the partition until `lake-assets restore"
    )


def test_what_launched_a_run_is_known_by_its_tags() -> None:
    assert requester({SCHEDULE_NAME_TAG: "refresh_sales_schedule"}) == "schedule refresh_sales_schedule"
    assert requester({SENSOR_NAME_TAG: "sales_sensor", "x": "y"}) == "sensor sales_sensor"
    assert requester({AUTOMATION_CONDITION_TAG: "true", SENSOR_NAME_TAG: "default"}) == "automation"
    assert requester({BACKFILL_ID_TAG: "qhvnbuio"}) == "backfill qhvnbuio"
    assert requester({}) == "Dagster"


def test_a_hold_is_released(local_world: World) -> None:
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)
    run(local_world, snapshot=first, hold=True)

    assert "without snapshot, hold and dry_run" in failure_of(run(local_world, release=True, dry_run=True))
    assert local_world.ledger(NW)[0].hold == "held"
    result = run(local_world, release=True)

    assert local_world.ledger(NW)[0].hold == "released"
    (observed,) = result.get_asset_observation_events()
    event = observed.asset_observation_data.asset_observation
    assert (event.partition, event.metadata["status"].value) == (KEY, "released: refreshes read it again")
    stream, partition = local_world.stream, local_world.partition(NW)
    commit = outcome_of_commit(stream, partition, commits_of(stream, [partition])[partition])
    assert commit.row.restored_snapshot == first
    assert "held" not in materialization_metadata(commit)


def test_an_error_is_one_sentence(local_world: World) -> None:
    ingested(local_world, 1)

    assert "there is no snapshot 999" in failure_of(run(local_world, snapshot=999))
    assert "is not held" in failure_of(run(local_world, release=True))
    assert "partition" in failure_of(run(local_world, partition="nope"))
    assert "partition is missing" in failure_of(run(local_world, partition="", snapshot=1))
