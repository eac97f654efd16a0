"""The job and the schedule that drain a buffer."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.orchestration.build import build_definitions
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.orchestration.in_process import failure_of, shown_error
from lake_assets_tests.wings.land.streams import COLUMNS, landed_ids, rows
from lake_assets_tests.world import World


@pytest.fixture
def buffered(local_world: World, tmp_path: Path) -> World:
    """A world whose stream has a buffer with a batch in it, for an output that was away."""
    landing: dict[str, Any] = {"columns": COLUMNS, "buffer": {"path": str(tmp_path / "buffer")}, "retries": 0}
    local_world.options["landing"] = landing
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "region=NW").write_text("in the way")
    with LandingWriter("sales", local_world.config.streams["sales"]) as writer:
        writer.write(rows(0, 5))
    return local_world


def drain(world: World) -> dg.ExecuteInProcessResult:
    return build_definitions(world.config).resolve_job_def("drain_sales").execute_in_process(raise_on_error=False)


def test_the_job_uploads_what_is_pending_or_fails_with_the_reason(buffered: World, tmp_path: Path) -> None:
    result = drain(buffered)
    assert "cannot be reached" in failure_of(result)
    assert shown_error(result) == failure_of(result)

    (tmp_path / "landing" / "region=NW").unlink()
    assert drain(buffered).success
    assert landed_ids(tmp_path / "landing") == list(range(5))


def test_the_schedule_is_the_configs_and_runs_at_once(buffered: World) -> None:
    buffered.options["landing"]["drain"] = "0 * * * *"
    schedule = build_definitions(buffered.config).resolve_schedule_def("drain_sales_schedule")

    assert (schedule.cron_schedule, schedule.job_name) == ("0 * * * *", "drain_sales")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    buffered.options = {}
    assert not build_definitions(buffered.config).schedules
