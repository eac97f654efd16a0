"""Which runs Dagster tries again by itself: those of which all errors pass."""

import dagster as dg
import pytest

from lake_assets.config.spark import Spark
from lake_assets.errors import CommitConflictError
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.stream_run import RETRIES
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.in_process import REGIONS, Materialize, failing_once, failure_of
from lake_assets_tests.world import NW, SW, World, sales

CONFLICT = CommitConflictError("other writers were faster:", "run it again.")


def test_a_run_whose_errors_pass_is_tried_again(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.stream_run.RETRY_SECONDS", 0)
    local_world.options["commit_batch"] = 1
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    failing_once(CONFLICT, monkeypatch)

    result = materialize("2026-02-11|NW", "2026-02-11|SW")

    assert result.success
    assert local_world.totals() == [1, 2]
    assert sorted(row.status for row in local_world.ledger()) == ["committed", "committed", "failed", "skipped"]


def test_a_run_in_which_something_else_failed_too_is_not_tried_again(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")
    commits = failing_once(CONFLICT, monkeypatch)

    result = materialize("2026-02-11|NW", "2026-02-11|SW", raise_on_error=False)

    assert failure_of(result).startswith("2 of 2 partitions failed")
    assert next(commits) == 1


def test_a_run_without_its_spark_connect_server_is_tried_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.stream_run.RETRY_SECONDS", 0)
    local_world.options |= REGIONS
    local_world.land(NW, sales(1))
    spark = pyspark_resource(Spark.model_validate({"remote": "sc://127.0.0.1:1"}))

    result = dg.materialize(
        [stream_asset(specs_of(local_world.stream))],
        partition_key="2026-02-11|NW",
        resources={"pyspark": spark},
        raise_on_error=False,
    )

    retried = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]
    assert len(retried) == RETRIES
    assert "no Spark Connect server answers at sc://127.0.0.1:1 (" in failure_of(result)
