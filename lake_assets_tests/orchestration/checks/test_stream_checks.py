"""The checks of a stream in Dagster: after a refresh, by themselves, and blocking."""

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository

from lake_assets.checks.check_run import CheckRun
from lake_assets.checks.result import CheckResult
from lake_assets.config.load import CONFIG_VARIABLE
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.metadata import markdown
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets_tests.orchestration.checks.check_runs import (
    BOTH,
    PARTITIONS,
    POSITIVE,
    SALES,
    evaluations_of,
    materialized,
    run,
)
from lake_assets_tests.orchestration.test_definitions import write_config
from lake_assets_tests.world import NW, SW, World, sales


def test_a_refresh_is_followed_by_the_checks_of_its_partition(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "skip": ["schema"]}}
    local_world.land(NW, sales(1, 2))

    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    assert result.success
    evaluations = evaluations_of(result)
    names = {"row_counts", "landing_zone", "no_null_partition", "ledger", "data_files", "positive"}
    assert set(evaluations) == names | {"last_run"}
    assert all(e.passed for e in evaluations.values())
    assert evaluations["row_counts"].metadata["partitions"].value == 1


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_blocking_check_that_fails_keeps_what_is_downstream_from_running(
    local_world: World, is_blocking: bool
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"] if is_blocking else []}}
    local_world.land(NW, sales(1, -1))

    @dg.asset(deps=["sales"])
    def downstream() -> None: ...

    result = run(local_world, SALES | dg.AssetSelection.assets("downstream"), downstream, partition_key="2026-02-11|NW")

    evaluation = evaluations_of(result)["positive"]
    assert not evaluation.passed
    assert "rows" in evaluation.metadata
    ran = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert ran == ({"sales"} if is_blocking else {"sales", "downstream"})
    # The rows were committed all the same: a check comes after the refresh.
    assert local_world.totals() == [-1, 1]


@pytest.mark.parametrize("total", [1, -1])
def test_checks_follow_a_run_that_passed_a_region_over(local_world: World, total: float) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"]}}
    local_world.land(NW, sales(total))

    @dg.asset(deps=["sales"])
    def downstream() -> None: ...

    result = run(local_world, SALES | dg.AssetSelection.assets("downstream"), downstream, **BOTH)

    evaluations = evaluations_of(result)
    assert evaluations["row_counts"].passed
    assert evaluations["positive"].passed == result.success == (total > 0)
    blocked = {("sales", "2026-02-11|NW")}
    assert materialized(result) == (blocked | {("downstream", None)} if total > 0 else blocked)


def test_what_a_run_committed_is_checked_though_it_failed(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"]}}
    local_world.land(NW, sales(-1))
    local_world.land(SW, b"no Parquet")

    @dg.asset(deps=["sales"])
    def downstream() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        selection = SALES | dg.AssetSelection.assets("downstream")
        result = run(local_world, selection, downstream, instance=instance, **BOTH)
        keys = [dg.AssetCheckKey(dg.AssetKey("sales"), name) for name in ("row_counts", "positive")]
        newest = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        statuses = [newest[key].status.value for key in keys]

    assert not result.success
    assert materialized(result) == {("sales", "2026-02-11|NW")}
    committed = (e for e in result.get_asset_check_evaluations() if e.partition == "2026-02-11|NW")
    evaluations = {evaluation.check_name: evaluation for evaluation in committed}
    assert evaluations["row_counts"].metadata["partitions"].value == 1
    assert (evaluations["row_counts"].passed, evaluations["positive"].passed) == (True, False)
    assert evaluations["positive"].blocking
    assert statuses == ["SUCCEEDED", "FAILED"]


def test_what_is_left_of_a_failed_run_checks_what_that_run_refreshed(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.options = {"partitions": PARTITIONS, "checks": {"sql": POSITIVE, "blocking": ["positive"]}}
    for text, total in ((NW, -1), (SW, 1)):
        local_world.land(text, sales(total))
    monkeypatch.setenv(CONFIG_VARIABLE, str(write_config(local_world, tmp_path)))
    job = ReconstructableRepository.for_module("lake_assets.definitions", "defs").get_reconstructable_job("__ASSET_JOB")
    tags = {"dagster/partition": "2026-02-11|NW"}

    with dg.DagsterInstance.local_temp() as instance:
        with dg.execute_job(job, instance, tags=tags, asset_selection=[dg.AssetKey("sales")]) as first:
            assert not first.success
        left = dg.ReexecutionOptions.from_failure(first.run_id, instance)
        # As the UI and the daemon do, with the tags of the run that failed.
        with dg.execute_job(job, instance, tags=tags, reexecution_options=left) as second:
            evaluations = evaluations_of(second)
            steps = {event.step_key for event in second.all_events if event.is_step_start}

    assert steps == {"check_sales"}
    assert evaluations["row_counts"].metadata["partitions"].value == 1
    assert not evaluations["positive"].passed
    assert not second.success


def test_checks_that_cannot_be_made_or_break_leave_the_failure_as_it_is(
    local_world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    of_partitions = CheckRun.by_partition

    def broken(check_run: CheckRun, name: str) -> Mapping[Partition, CheckResult]:
        if name == "row_counts":
            raise OSError("nobody foresaw this")
        return of_partitions(check_run, name)

    monkeypatch.setattr(CheckRun, "by_partition", broken)
    local_world.options = {"checks": {"sql": {"typo": "SELECT totl FROM refreshed"} | POSITIVE}}
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, SALES, **BOTH)

    (failure,) = result.get_step_failure_events()
    assert "1 of 2 partitions failed" in failure.step_failure_data.user_failure_data.description
    assert {"ledger", "positive"} < evaluations_of(result).keys()
    logged = capfd.readouterr().err
    assert "check typo of stream sales" in logged
    assert "nobody foresaw this" in logged


def test_checks_of_partitions_cover_the_partitions_of_the_run(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    for text in (NW, SW):
        local_world.land(text, sales(-1))
        local_world.ingest(text)
    positive = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "positive"))

    result = run(local_world, positive, partition_key="2026-02-11|SW")

    values = {e.partition: e.passed for e in result.get_asset_check_evaluations()}
    assert values == {"2026-02-11|SW": False, None: False}


def test_the_checks_of_a_run_take_what_its_ingest_listed(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.land(NW, sales(1, 2))
    listed: list[str] = []

    def counting(listing: Callable[..., tuple[LandedObject, ...]]) -> Callable[..., tuple[LandedObject, ...]]:
        def counted(store: Store, prefix: str = "", *args: Any, **options: Any) -> tuple[LandedObject, ...]:
            listed.append(f"{store.root}/{prefix}")
            return listing(store, prefix, *args, **options)

        return counted

    for method in (Store.all, Store.list):
        monkeypatch.setattr(Store, method.__name__, counting(method))
    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    assert all(evaluation.passed for evaluation in result.get_asset_check_evaluations())
    # By the ingest, before and after its job; the checks list nothing.
    assert listed == [f"{local_world.source['path']}/region=NW/date=2026-02-11/"] * 2


def test_checks_in_another_process_read_the_run_s_partitions_from_the_ledger(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.checks.stream_checks.take_scope", lambda *_: None)
    for text in (NW, SW):
        local_world.land(text, sales(1, 2))
    local_world.ingest(SW)

    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    evaluations = evaluations_of(result)
    assert all(evaluation.passed for evaluation in evaluations.values())
    assert evaluations["row_counts"].metadata["partitions"].value == 1
    assert evaluations["ledger"].metadata["commits"].value == 1
    assert evaluations["data_files"].metadata["files"].value == 1


def run_and_block(world: World) -> tuple[dg.ExecuteInProcessResult, Mapping[str, dg.MetadataValue[Any]]]:
    """Run the stream and an asset downstream, which a check blocks; returns the metadata of the stream's asset too."""

    @dg.asset(deps=["sales"])
    def downstream() -> None: ...

    result = run(world, SALES | dg.AssetSelection.assets("downstream"), downstream, partition_key="2026-02-11|NW")
    (event,) = result.get_asset_materialization_events()
    assert event.asset_key == dg.AssetKey("sales")
    return result, event.materialization.metadata


def test_dead_letters_are_in_the_metadata_and_block_what_is_downstream(local_world: World) -> None:
    local_world.options = {"on_bad_row": "dead_letter", "checks": {"blocking": ["dead_letters"]}}
    local_world.land(NW, sales(1, 2).append_column("region", pa.array(["NW", "SW"])))

    result, metadata = run_and_block(local_world)

    assert metadata["rows_dead_lettered"].value == 1
    assert "region is SW" in str(metadata["dead_letters"].value)
    evaluations = evaluations_of(result)
    assert evaluations["row_counts"].passed
    assert not evaluations["dead_letters"].passed
    assert (evaluations["dead_letters"].severity, evaluations["dead_letters"].blocking) == (
        dg.AssetCheckSeverity.ERROR,
        True,
    )


def test_a_quarantined_object_is_in_the_metadata_and_blocks_what_is_downstream(local_world: World) -> None:
    local_world.options = {"on_bad_object": "quarantine", "checks": {"blocking": ["quarantine"]}}
    local_world.land(NW, sales(1))
    uri = local_world.land(NW, b"no Parquet", "b_ad.parquet")

    result, metadata = run_and_block(local_world)

    assert metadata["files_quarantined"].value == 1
    assert "cannot be read as Parquet" in str(metadata["quarantined"].value)
    evaluation = evaluations_of(result)["quarantine"]
    assert not evaluation.passed
    assert (evaluation.severity, evaluation.blocking) == (dg.AssetCheckSeverity.ERROR, True)
    assert markdown(uri) in str(evaluation.metadata["named"].value)


def test_a_run_of_one_region_keeps_the_lateness_of_the_others(local_world: World) -> None:
    today = dt.datetime.now(dt.UTC).date()
    days = {"type": "date", "start": str(today - dt.timedelta(9))}
    local_world.options |= {
        "partitions": {"region": {"values": ["NW", "SW"]}, "date": days},
        "freshness": {"newest_partition_hours": 30},
    }
    for region in ("NW", "SW"):
        local_world.land(f"region={region},date={today - dt.timedelta(5)}", sales(1))
    local_world.land(f"region=NW,date={today}", sales(1))
    definitions = build_definitions(local_world.config, pyspark_resource(local_world.config.spark))
    job = definitions.resolve_implicit_global_asset_job_def()

    with dg.DagsterInstance.ephemeral() as instance:

        def freshness(region: str, day: dt.date) -> dg.AssetCheckEvaluation:
            done = job.execute_in_process(
                instance=instance, partition_key=f"{day}|{region}", asset_selection=[dg.AssetKey("sales")]
            )
            (result,) = [each for each in done.get_asset_check_evaluations() if each.check_name == "freshness"]
            return result

        assert not freshness("SW", today - dt.timedelta(5)).passed
        kept = freshness("NW", today)
        assert not kept.passed
        assert "region=SW" in str(kept.metadata["named"].value)
        local_world.land(f"region=SW,date={today}", sales(1))
        assert freshness("SW", today).passed
