"""A storage is away for longer than its clients try: Dagster tries the step again, and each row is there once."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.servers.proxy import Request, S3Proxy
from lake_assets_tests.faults.outage import HURRIED, Outage, is_listed, is_read, is_written, noise, outage, small_disk
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

if TYPE_CHECKING:
    import dagster as dg

__all__ = ["outage"]

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("spark", "impatient")]

RANGE = "dagster/asset_partition_range"


@pytest.fixture
def world(local_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two partitions, and no retries in the driver; those of the tasks are the ones of the storages."""
    monkeypatch.setattr("lake_assets.orchestration.stream_run.RETRY_SECONDS", 0)
    date = {"type": "date", "start": "2026-02-11", "end": "2026-02-11"}
    local_world.options |= {"partitions": {"region": {"values": ["NW", "SW"]}, "date": date}}
    return local_world


@dataclass(frozen=True)
class Run:
    """A run of the stream's asset, over both partitions."""

    result: "dg.ExecuteInProcessResult"
    retried: tuple[str, ...]  # the error of each retry, with its causes


def run_both(world: World, at_retry: Callable[[], None] = lambda: None) -> Run:
    """As Dagster's own executor runs it; `at_retry` is called when a step is up for retry, before it begins again."""
    import dagster as dg  # noqa: PLC0415 - takes seconds

    from lake_assets.orchestration.build import build_definitions  # noqa: PLC0415

    retried: list[str] = []

    def heard(entry: dg.EventLogEntry) -> None:
        event = entry.dagster_event
        if event is not None and event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY:
            error = event.step_retry_data.error
            retried.append("" if error is None else error.to_string())
            at_retry()

    run_id = str(uuid.uuid4())
    job = build_definitions(world.config).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_event_listener(run_id, heard)
        result = job.execute_in_process(
            instance=instance,
            run_id=run_id,
            asset_selection=[dg.AssetKey("sales")],
            tags={f"{RANGE}_start": "2026-02-11|NW", f"{RANGE}_end": "2026-02-11|SW"},
            raise_on_error=False,
        )
    return Run(result, tuple(retried))


def failure_of(run: Run) -> str:
    (event,) = run.result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    return event.step_failure_data.user_failure_data.description or ""


@pytest.mark.more
@pytest.mark.parametrize(
    ("storage", "when", "of_object"),
    [
        ("storage", is_written, "main/sales/region="),
        ("source", is_read, "region="),
        ("source", is_listed, ""),
    ],
)
def test_a_step_that_lost_its_storage_is_tried_again_and_no_row_is_there_twice(
    world: World,
    s3_proxy: S3Proxy,
    outage: Callable[..., Outage],
    storage: str,
    when: Callable[[Request], bool],
    of_object: str,
) -> None:
    place = bucket_on(s3_proxy.s3) | HURRIED
    setattr(world, storage, place)
    world.commit(NW, 1)
    world.land(NW, sales(2, 3))
    world.land(SW, sales(4))
    away = outage(when, 600)

    run = run_both(world, at_retry=away.end)

    assert run.result.success
    (error,) = run.retried
    root = f"s3://{place['bucket']}/{place['prefix']}"
    assert f"{root} at {place['endpoint']} cannot be reached" in error
    assert f"{root}/{of_object}" in error or not of_object
    assert "check endpoint and network, and run it again" in error
    assert world.totals() == [2, 3, 4]
    assert [row.status for row in world.ledger()] == ["committed", "committed", "failed", "failed", "committed"]


def test_a_disk_that_is_full_is_not_tried_again(world: World, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data"):
        for text in (NW, SW):
            world.land(text, noise())
        run = run_both(world)
        assert world.data_files() == set()

    assert (run.result.success, run.retried) == (False, ())
    assert "data has no space left: " in failure_of(run)
    assert "free space there" in failure_of(run)
