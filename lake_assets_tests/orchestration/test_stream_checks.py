"""The checks of a stream in Dagster: after a refresh, by themselves, blocking, and the results that Dagster keeps."""

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository

from lake_assets.config.layout.hive import LOGS
from lake_assets.config.layout.partition import Partition
from lake_assets.orchestration.metadata import markdown
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.load import CONFIG_VARIABLE
from lake_assets.upkeep.checks.check_run import CheckRun
from lake_assets.upkeep.checks.facts import CheckResult
from lake_assets_tests.orchestration.check_runs import (
    BOTH,
    PARTITIONS,
    POSITIVE,
    SALES,
    evaluations_of,
    latest,
    latest_result,
    materialized,
    run,
)
from lake_assets_tests.orchestration.in_process import logged
from lake_assets_tests.orchestration.test_definitions import write_config
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales


@dg.asset(deps=["sales"])
def downstream() -> None: ...


WITH_DOWNSTREAM = SALES | dg.AssetSelection.assets("downstream")
ONE = {"partition_key": "2026-02-11|NW"}


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


@pytest.mark.parametrize(
    ("totals", "blocking", "partitions", "ran"),
    [
        pytest.param((1, -1), ["positive"], ONE, {"sales"}, id="blocking"),
        pytest.param((1, -1), [], ONE, {"sales", "downstream"}, id="not blocking"),
        pytest.param((1,), ["positive"], BOTH, {"sales", "downstream"}, id="left out", marks=pytest.mark.more),
    ],
)
def test_a_blocking_check_that_fails_keeps_what_is_downstream_from_running(
    local_world: World, totals: tuple[float, ...], blocking: list[str], partitions: dict[str, Any], ran: set[str]
) -> None:
    """Also of a range, of which a region has not landed."""
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": blocking}}
    local_world.land(NW, sales(*totals))

    result = run(local_world, WITH_DOWNSTREAM, downstream, **partitions)

    evaluation = evaluations_of(result)["positive"]
    assert evaluation.passed == (min(totals) > 0)
    assert "rows" in evaluation.metadata
    assert {name for name, _ in materialized(result)} == ran
    # The rows were committed all the same: a check comes after the refresh.
    assert local_world.totals() == sorted(totals)


def test_a_run_of_which_one_partition_failed_checks_the_other_and_has_the_error_of_this_one(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"]}}
    local_world.land(NW, sales(-1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, WITH_DOWNSTREAM, downstream, instance=instance, **BOTH)

    assert not result.success
    assert materialized(result) == {("sales", "2026-02-11|NW")}
    assert [latest_result(instance, name).passed for name in ("row_counts", "positive")] == [True, False]
    evaluations = {(e.check_name, e.partition): e for e in result.get_asset_check_evaluations()}
    assert evaluations["row_counts", "2026-02-11|NW"].metadata["partitions"].value == 1
    assert evaluations["row_counts", "2026-02-11|NW"].passed
    assert not evaluations["positive", "2026-02-11|NW"].passed
    assert evaluations["positive", "2026-02-11|NW"].blocking
    for name in ("last_run", "landing_zone"):
        values = {partition: e.passed for (check, partition), e in evaluations.items() if check == name}
        assert values == {"2026-02-11|NW": True, "2026-02-11|SW": False, None: False}
    wrong = evaluations["last_run", "2026-02-11|SW"]
    assert wrong.severity == dg.AssetCheckSeverity.ERROR
    why = "cannot be read as Parquet: it has no Parquet footer: remove it, or let its writer land it again."
    assert wrong.description == f"region=SW/date=2026-02-11: batch_1.parquet {why}"
    path = f"{local_world.source['path']}/region=SW/date=2026-02-11/batch_1.parquet"
    assert f"the object {path} cannot" in str(wrong.metadata["named"].value).replace("\\", "")


@pytest.mark.more
def test_a_blocked_run_that_is_re_executed_from_its_failure_checks_again_what_it_had_committed(
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
            commits = second.asset_materializations_for_node("sales")

    assert commits == []
    assert evaluations["row_counts"].metadata["partitions"].value == 1
    assert not evaluations["positive"].passed
    assert not second.success


@pytest.mark.more
def test_checks_that_cannot_be_made_or_break_leave_the_failure_as_it_is(
    local_world: World, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
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

    result = run(local_world, SALES, **BOTH, instance=instance)

    (failure,) = result.get_step_failure_events()
    assert "1 of 2 partitions failed" in failure.step_failure_data.user_failure_data.description
    assert {"ledger", "positive"} < evaluations_of(result).keys()
    log = logged(instance)
    assert "check typo of stream sales" in log
    assert "Check row_counts was not made" in log


@pytest.mark.more
def test_a_check_that_dagster_has_planned_is_made_of_what_the_run_leaves_out_too(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    """So none is shown as skipped: a partition that the run's config leaves out, one that never landed, and no rows."""
    local_world.options = {"checks": {"sql": POSITIVE}}
    local_world.land(NW, sales(-1))
    nw, sw = "2026-02-11|NW", "2026-02-11|SW"
    of_each = {nw: "FAILED", sw: "SUCCEEDED", None: "FAILED"}

    run(local_world, SALES, instance=instance, **BOTH)
    first = latest(instance, "positive")
    only_sw = {"ops": {"sales": {"config": {"partitions": ["region=SW"]}}}}
    result = run(local_world, SALES, instance=instance, run_config=only_sw, **BOTH)

    assert (first, latest(instance, "positive")) == (of_each, of_each)
    open_plans = {name: latest(instance, name) for name in ("last_run", "row_counts", "schema", "landing_zone")}
    assert "PLANNED" not in {value for of_name in open_plans.values() for value in of_name.values()}
    assert result.success


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
    # By the ingest, before and after its job, where it also looks for logs of other tables; the checks list nothing.
    folders = [folder for folder in listed if not folder.endswith(LOGS)]
    assert folders == [f"{local_world.source['path']}/region=NW/date=2026-02-11/"] * 2


@pytest.mark.more
@pytest.mark.parametrize(
    ("option", "bad", "check", "facts"),
    [
        (
            {"on_bad_row": "dead_letter"},
            sales(2).append_column("region", pa.array(["SW"])),
            "dead_letters",
            {"rows_dead_lettered": "1", "dead_letters": "region is SW"},
        ),
        (
            {"on_bad_object": "quarantine"},
            b"no Parquet",
            "quarantine",
            {"files_quarantined": "1", "quarantined": "cannot be read as Parquet"},
        ),
    ],
)
def test_what_was_left_out_is_in_the_metadata_and_blocks_what_is_downstream(
    local_world: World, option: dict[str, str], bad: pa.Table | bytes, check: str, facts: dict[str, str]
) -> None:
    local_world.options = option | {"checks": {"blocking": [check]}}
    local_world.land(NW, sales(1))
    uri = local_world.land(NW, bad, "bad.parquet")

    result = run(local_world, WITH_DOWNSTREAM, downstream, partition_key="2026-02-11|NW")

    (event,) = result.get_asset_materialization_events()
    assert event.asset_key == dg.AssetKey("sales")
    shown = {name: str(event.materialization.metadata[name].value) for name in facts}
    assert [name for name, text in facts.items() if text not in shown[name]] == []
    evaluation = evaluations_of(result)[check]
    assert not evaluation.passed
    assert (evaluation.severity, evaluation.blocking) == (dg.AssetCheckSeverity.ERROR, True)
    assert check == "dead_letters" or markdown(uri) in str(evaluation.metadata["named"].value)


@pytest.mark.more
def test_a_run_of_one_region_keeps_the_lateness_of_the_others(local_world: World, instance: dg.DagsterInstance) -> None:
    today = dt.datetime.now(dt.UTC).date()
    days = {"type": "date", "start": str(today - dt.timedelta(9))}
    local_world.options |= {
        "partitions": {"region": {"values": ["NW", "SW"]}, "date": days},
        "freshness": {"newest_partition_hours": 30},
    }
    for region in ("NW", "SW"):
        local_world.land(f"region={region},date={today - dt.timedelta(5)}", sales(1))
    local_world.land(f"region=NW,date={today}", sales(1))

    def freshness(region: str, day: dt.date) -> dg.AssetCheckEvaluation:
        return evaluations_of(run(local_world, SALES, instance=instance, partition_key=f"{day}|{region}"))["freshness"]

    assert not freshness("SW", today - dt.timedelta(5)).passed
    kept = freshness("NW", today)
    assert not kept.passed
    assert "region=SW" in str(kept.metadata["named"].value)
    local_world.land(f"region=SW,date={today}", sales(1))
    assert freshness("SW", today).passed


@pytest.mark.more
def test_a_check_that_failed_stays_so_when_another_partition_passes(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"]}}
    local_world.land(NW, sales(-1))
    local_world.land(SW, sales(1))
    key = dg.AssetCheckKey(dg.AssetKey("sales"), "positive")

    nw = run(local_world, SALES, instance=instance, partition_key="2026-02-11|NW")
    sw = run(local_world, SALES, instance=instance, partition_key="2026-02-11|SW")
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    of_each = latest(instance, "positive")
    infos = instance.event_log_storage.get_asset_check_partition_info([key])

    assert (nw.success, sw.success) == (False, True)
    # Dagster shows only results of the newest materialization.
    assert all(info.is_current for info in infos if info.partition_key)
    assert of_each == {"2026-02-11|NW": "FAILED", "2026-02-11|SW": "SUCCEEDED", None: "FAILED"}
    (failed,) = (e for e in nw.get_asset_check_evaluations() if e.check_name == "positive" and e.partition)
    # The result that Dagster's overview shows.
    assert newest.status.value == "FAILED"
    assert newest.evaluation is not None
    assert newest.evaluation.description == failed.description
    assert "2026-02-11\\|NW" in str(newest.evaluation.metadata["named"].value)


@pytest.mark.more
@pytest.mark.parametrize(("repaired", "failing"), [("NW", "SW"), ("SW", "NW")])
def test_failed_partitions_are_repaired_by_audits_alone_and_the_last_one_by_the_last(
    local_world: World, instance: dg.DagsterInstance, repaired: str, failing: str
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    local_world.land(NW, sales(-1))
    local_world.land(SW, sales(-1))
    positive = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "positive"))

    def audited(change: str) -> tuple[dict[str | None, str], bool]:
        """The results of each partition, and whether the newest of all passed, after a change and an audit."""
        with local_world.stream.lake.open() as lake:
            lake.rows(f"UPDATE lake.sales SET total = 1 WHERE {change}")
        run(local_world, positive, instance=instance)
        return latest(instance, "positive"), latest_result(instance, "positive").passed

    run(local_world, SALES, instance=instance, **BOTH)
    both, one, none = (audited(change) for change in ("false", f"region = '{repaired}'", "true"))

    nw, sw = "2026-02-11|NW", "2026-02-11|SW"
    assert both == ({nw: "FAILED", sw: "FAILED", None: "FAILED"}, False)
    of_each = {f"2026-02-11|{failing}": "FAILED", f"2026-02-11|{repaired}": "SUCCEEDED", None: "FAILED"}
    assert one == (of_each, False)
    assert none == ({nw: "SUCCEEDED", sw: "SUCCEEDED", None: "SUCCEEDED"}, True)


@pytest.mark.parametrize("skipped", [[], *more([["last_run"]])])
def test_a_run_of_which_one_partition_failed_can_be_re_executed_from_there(
    local_world: World, instance: dg.DagsterInstance, skipped: list[str]
) -> None:
    local_world.options = {"checks": {"skip": skipped}}
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, SALES, instance=instance, **BOTH)
    record = instance.get_run_by_id(result.run_id)
    assert record is not None
    assert record.execution_plan_snapshot_id is not None
    plan = instance.get_execution_plan_snapshot(record.execution_plan_snapshot_id)
    assets, _ = instance.run_domain.get_keys_to_reexecute(result.run_id, plan)

    # Dagster asks which assets the run materialized, and one of the two partitions was.
    assert assets == {dg.AssetKey("sales")}
    messages = {e.partition for e in result.get_asset_check_evaluations() if e.blocking and not e.passed}
    assert messages == {"2026-02-11|SW"}


@pytest.mark.more
def test_partitions_that_a_failed_run_did_not_commit_keep_their_results(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(-1))
    first = run(local_world, SALES, instance=instance, **BOTH)
    local_world.land(SW, b"no Parquet", "bad.parquet")
    second = run(local_world, SALES, instance=instance, **BOTH)

    assert (first.success, second.success) == (True, False)
    assert latest(instance, "positive") == {"2026-02-11|NW": "SUCCEEDED", "2026-02-11|SW": "FAILED", None: "FAILED"}


@pytest.mark.more
def test_a_failure_of_the_whole_table_stays_until_its_partition_is_refreshed(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
        local_world.ingest(text)
    (missing,) = (key for key in local_world.data_files() if "region=SW" in key)
    Store(local_world.config.lakes["test"].own_storage).delete((missing,))
    data_files = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "data_files"))
    force = {"ops": {"sales": {"config": {"force": True}}}}

    run(local_world, data_files, instance=instance)
    run(local_world, SALES, instance=instance, partition_key="2026-02-11|NW", run_config=force)
    kept = latest_result(instance, "data_files")
    run(local_world, SALES, instance=instance, partition_key="2026-02-11|SW", run_config=force)
    repaired = latest_result(instance, "data_files")

    assert not kept.passed
    assert missing in str(kept.metadata["named"].value)
    assert kept.metadata["failing_partitions"].value == [["SW", "2026-02-11"]]
    assert repaired.passed
