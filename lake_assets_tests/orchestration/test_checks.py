"""The checks of a stream in Dagster: after a refresh, by themselves, and blocking."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository

from lake_assets.checks.result import CheckResult
from lake_assets.checks.run import Checkup
from lake_assets.config.load import CONFIG_VARIABLE
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.storage.store import LandedObject, Store
from lake_assets_tests.orchestration.test_definitions import write_config
from lake_assets_tests.world import NW, SW, World, sales

PARTITIONS = {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": "2026-02-11", "end": "2026-02-12"}}
POSITIVE = {"positive": "SELECT * FROM refreshed WHERE total <= 0"}

pytestmark = pytest.mark.usefixtures("spark")


def run(world: World, selection: dg.AssetSelection, *downstream: dg.AssetsDefinition, **options: Any) -> Any:
    """One run of the implicit job over a selection, as the UI starts it."""
    world.options = {"partitions": PARTITIONS} | world.options
    own = build_definitions(world.config, pyspark_resource(world.config.spark))
    definitions = dg.Definitions.merge(own, dg.Definitions(assets=list(downstream)))
    repository = definitions.get_repository_def()
    job = repository.get_implicit_global_asset_job_def().get_subset(
        asset_selection=set(selection.resolve(repository.asset_graph)),
        asset_check_selection=selection.resolve_checks(repository.asset_graph),
    )
    return job.execute_in_process(raise_on_error=False, **options)


SALES = dg.AssetSelection.assets("sales")
BOTH = {  # as a schedule asks for them
    "tags": {
        "dagster/asset_partition_range_start": "2026-02-11|NW",
        "dagster/asset_partition_range_end": "2026-02-11|SW",
    },
    "run_config": {"ops": {"sales": {"config": {"landed_only": True}}}},
}


def evaluations_of(result: Any) -> dict[str, dg.AssetCheckEvaluation]:
    """The evaluation of each check; of a check of partitions, that of the one partition that was looked at."""
    found: dict[str, dg.AssetCheckEvaluation] = {}
    for evaluation in result.get_asset_check_evaluations():
        if evaluation.partition is not None or evaluation.check_name not in found:
            found[evaluation.check_name] = evaluation
    return found


def latest(instance: dg.DagsterInstance, name: str) -> dict[str | None, str]:
    """How each partition stands in Dagster by a check's newest result; under None, the check as a whole."""
    key = dg.AssetCheckKey(dg.AssetKey("sales"), name)
    infos = instance.event_log_storage.get_asset_check_partition_info([key])
    return {info.partition_key: info.latest_execution_status.value for info in infos}


def materialized(result: Any) -> set[tuple[str, str | None]]:
    """Asset and partition of each materialization."""
    events = [event.materialization for event in result.get_asset_materialization_events()]
    values = {(event.asset_key.to_user_string(), event.partition) for event in events}
    assert len(values) == len(events)
    return values


def test_a_refresh_is_followed_by_the_checks_of_its_partition(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE, "skip": ["schema"]}}
    local_world.land(NW, sales(1, 2))

    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    assert result.success
    evaluations = evaluations_of(result)
    assert set(evaluations) == {"row_counts", "landing_zone", "no_null_partition", "ledger", "data_files", "positive"}
    assert all(e.passed for e in evaluations.values())
    assert evaluations["row_counts"].metadata["partitions"].value == 1


def test_checks_alone_cover_the_whole_table(local_world: World) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
        local_world.ingest(text)

    result = run(local_world, dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "row_counts")))

    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed
    assert evaluation.metadata["partitions"].value == 2


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


def test_a_run_that_passed_all_over_has_nothing_to_check(local_world: World) -> None:
    local_world.landing  # noqa: B018 - makes the folder

    result = run(local_world, SALES, **BOTH)

    assert result.success
    assert (evaluations_of(result), materialized(result)) == ({}, set())


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
    evaluations = evaluations_of(result)
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


def test_a_check_that_cannot_be_made_leaves_the_failure_as_it_is(
    local_world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    local_world.options = {"checks": {"sql": {"typo": "SELECT totl FROM refreshed"} | POSITIVE}}
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, SALES, **BOTH)

    (failure,) = result.get_step_failure_events()
    assert "1 of 2 partitions failed" in failure.step_failure_data.user_failure_data.description
    assert {"row_counts", "positive"} < evaluations_of(result).keys()
    assert "check typo of stream sales" in capfd.readouterr().err


def test_a_check_that_breaks_leaves_the_failure_as_it_is(
    local_world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    of_partitions = Checkup.by_partition

    def broken(checkup: Checkup, name: str) -> Mapping[Partition, CheckResult]:
        if name == "row_counts":
            raise OSError("nobody foresaw this")
        return of_partitions(checkup, name)

    monkeypatch.setattr(Checkup, "by_partition", broken)
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, SALES, **BOTH)

    (failure,) = result.get_step_failure_events()
    assert "1 of 2 partitions failed" in failure.step_failure_data.user_failure_data.description
    assert "ledger" in evaluations_of(result)
    assert "nobody foresaw this" in capfd.readouterr().err


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
    # The result that Dagster's overview shows.
    assert newest.status.value == "FAILED"
    assert newest.evaluation is not None
    assert newest.evaluation.description == "The newest result of 1 partitions is a failure."
    assert "2026-02-11\\|NW" in str(newest.evaluation.metadata["named"].value)


def test_a_failed_partition_is_repaired_by_checks_alone(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    local_world.land(NW, sales(-1))
    positive = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "positive"))

    with dg.DagsterInstance.ephemeral() as instance:
        run(local_world, SALES, instance=instance, partition_key="2026-02-11|NW")
        before = latest(instance, "positive")
        run(local_world, positive, instance=instance)
        still = latest(instance, "positive")
        with local_world.stream.lake.open() as lake:
            lake.rows("UPDATE lake.sales SET total = 1")
        run(local_world, positive, instance=instance)
        after = latest(instance, "positive")

    assert before == still == {"2026-02-11|NW": "FAILED", None: "FAILED"}
    assert after == {"2026-02-11|NW": "SUCCEEDED", None: "SUCCEEDED"}


def test_checks_of_partitions_cover_the_partitions_of_the_run(local_world: World) -> None:
    local_world.options = {"checks": {"sql": POSITIVE}}
    for text in (NW, SW):
        local_world.land(text, sales(-1))
        local_world.ingest(text)
    positive = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("sales"), "positive"))

    result = run(local_world, positive, partition_key="2026-02-11|SW")

    values = {e.partition: e.passed for e in result.get_asset_check_evaluations()}
    assert values == {"2026-02-11|SW": False, None: False}


def test_the_landing_zone_fails_for_the_partition_that_the_run_failed(local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")

    result = run(local_world, SALES, **BOTH)

    evaluations = [e for e in result.get_asset_check_evaluations() if e.check_name == "landing_zone"]
    values = {e.partition: e.passed for e in evaluations}
    assert values == {"2026-02-11|NW": True, "2026-02-11|SW": False, None: False}
    (wrong,) = (e for e in evaluations if e.partition == "2026-02-11|SW")
    assert wrong.severity == dg.AssetCheckSeverity.WARN
    assert wrong.description == "The run did not commit the partition; refresh it."
    assert "region=SW" in str(wrong.metadata["named"].value)  # the error, which names the object


@pytest.mark.parametrize("skipped", [[], ["landing_zone"]])
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


def latest_result(instance: dg.DagsterInstance, name: str) -> dg.AssetCheckEvaluation:
    """The newest result of a check."""
    key = dg.AssetCheckKey(dg.AssetKey("sales"), name)
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key].evaluation
    assert newest is not None
    return newest


def test_the_checks_of_a_run_take_what_its_ingest_listed(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.land(NW, sales(1, 2))
    listed: list[str] = []
    listing = Store.list

    def counted(store: Store, prefix: str = "", files: str = "*") -> tuple[LandedObject, ...]:
        listed.append(f"{store.root}/{prefix}")
        return listing(store, prefix, files)

    monkeypatch.setattr(Store, "list", counted)
    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    assert all(evaluation.passed for evaluation in result.get_asset_check_evaluations())
    # By the ingest, before and after its job; the checks list nothing.
    assert listed == [f"{local_world.source['path']}/region=NW/date=2026-02-11/"] * 2


def test_checks_in_another_process_read_the_run_s_partitions_from_the_ledger(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.orchestration.handover.take", lambda *_: None)
    for text in (NW, SW):
        local_world.land(text, sales(1, 2))
    local_world.ingest(SW)

    result = run(local_world, SALES, partition_key="2026-02-11|NW")

    evaluations = evaluations_of(result)
    assert all(evaluation.passed for evaluation in evaluations.values())
    assert evaluations["row_counts"].metadata["partitions"].value == 1
    assert evaluations["ledger"].metadata["commits"].value == 1
    assert evaluations["data_files"].metadata["files"].value == 1
