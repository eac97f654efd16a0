"""The results of checks that Dagster keeps: a later run of other partitions hides no failure."""

import dagster as dg
import pytest

from lake_assets.storage.store import Store
from lake_assets_tests.orchestration.checks.check_runs import BOTH, POSITIVE, SALES, latest, latest_result, run
from lake_assets_tests.world import NW, SW, World, sales


def test_a_check_that_failed_stays_so_when_another_partition_passes(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "blocking": ["positive"]}}
    local_world.land(NW, sales(-1))
    local_world.land(SW, sales(1))
    key = dg.AssetCheckKey(dg.AssetKey("sales"), "positive")

    with dg.DagsterInstance.ephemeral() as instance:
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


@pytest.mark.parametrize(("repaired", "failing"), [("NW", "SW"), ("SW", "NW")])
def test_failed_partitions_are_repaired_by_audits_alone_and_the_last_one_by_the_last(
    local_world: World, repaired: str, failing: str
) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    local_world.land(NW, sales(-1))
    local_world.land(SW, sales(-1))
    positive = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "positive"))

    def audited(instance: dg.DagsterInstance, change: str) -> tuple[dict[str | None, str], bool]:
        """The results of each partition, and whether the newest of all passed, after a change and an audit."""
        with local_world.stream.lake.open() as lake:
            lake.rows(f"UPDATE lake.sales SET total = 1 WHERE {change}")
        run(local_world, positive, instance=instance)
        return latest(instance, "positive"), latest_result(instance, "positive").passed

    with dg.DagsterInstance.ephemeral() as instance:
        run(local_world, SALES, instance=instance, **BOTH)
        both, one, none = (audited(instance, change) for change in ("false", f"region = '{repaired}'", "true"))

    nw, sw = "2026-02-11|NW", "2026-02-11|SW"
    assert both == ({nw: "FAILED", sw: "FAILED", None: "FAILED"}, False)
    of_each = {f"2026-02-11|{failing}": "FAILED", f"2026-02-11|{repaired}": "SUCCEEDED", None: "FAILED"}
    assert one == (of_each, False)
    assert none == ({nw: "SUCCEEDED", sw: "SUCCEEDED", None: "SUCCEEDED"}, True)


def test_the_last_run_of_a_partition_that_failed_has_its_error(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, SALES, **BOTH)

    for name in ("last_run", "landing_zone"):
        evaluations = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
        values = {e.partition: e.passed for e in evaluations}
        assert values == {"2026-02-11|NW": True, "2026-02-11|SW": False, None: False}
    (wrong,) = (
        e for e in result.get_asset_check_evaluations() if (e.check_name, e.partition) == ("last_run", "2026-02-11|SW")
    )
    assert wrong.severity == dg.AssetCheckSeverity.ERROR
    why = "cannot be read as Parquet: it has no Parquet footer: remove it or let its writer land it again."
    assert wrong.description == f"region=SW/date=2026-02-11: batch_1.parquet {why}"
    path = f"{local_world.source['path']}/region=SW/date=2026-02-11/batch_1.parquet"
    assert f"the object {path} cannot" in str(wrong.metadata["named"].value).replace("\\", "")


@pytest.mark.parametrize("skipped", [[], ["last_run"]])
def test_a_run_of_which_one_partition_failed_can_be_re_executed_from_there(
    local_world: World, skipped: list[str]
) -> None:
    local_world.options = {"checks": {"skip": skipped}}
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    with dg.DagsterInstance.ephemeral() as instance:
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


def test_partitions_that_a_failed_run_did_not_check_keep_their_results(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(-1))
    with dg.DagsterInstance.ephemeral() as instance:
        first = run(local_world, SALES, instance=instance, **BOTH)
        local_world.land(SW, b"no Parquet", "bad.parquet")
        second = run(local_world, SALES, instance=instance, **BOTH)
        of_each = latest(instance, "positive")

    assert (first.success, second.success) == (True, False)
    assert of_each == {"2026-02-11|NW": "SUCCEEDED", "2026-02-11|SW": "FAILED", None: "FAILED"}
    (again,) = (
        e for e in second.get_asset_check_evaluations() if (e.check_name, e.partition) == ("positive", "2026-02-11|SW")
    )
    assert again.metadata["result_of_run"].value == first.run_id


def test_a_failure_of_the_whole_table_stays_until_its_partition_is_refreshed(local_world: World) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
        local_world.ingest(text)
    (missing,) = (key for key in local_world.data_files() if "region=SW" in key)
    Store(local_world.config.lakes["test"].own_storage).delete((missing,))
    data_files = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "data_files"))
    force = {"ops": {"sales": {"config": {"force": True}}}}

    with dg.DagsterInstance.ephemeral() as instance:
        audited = run(local_world, data_files, instance=instance)
        run(local_world, SALES, instance=instance, partition_key="2026-02-11|NW", run_config=force)
        kept = latest_result(instance, "data_files")
        run(local_world, SALES, instance=instance, partition_key="2026-02-11|SW", run_config=force)
        repaired = latest_result(instance, "data_files")

    assert not kept.passed
    assert missing in str(kept.metadata["named"].value)
    assert kept.metadata["result_of_run"].value == audited.run_id
    assert kept.metadata["failing_partitions"].value == [["SW", "2026-02-11"]]
    assert repaired.passed
