"""Checks that a run did not make, because it was cancelled in the queue or killed, or had nothing to do."""

import datetime as dt
from collections.abc import Callable
from typing import Any, NoReturn

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.execution.api import execute_run
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status
from dagster_shared.record import replace

from lake_assets.ingest.index.index_run import IndexRun
from lake_assets.orchestration.dagster_private import RANGE_END, RANGE_START
from lake_assets.orchestration.sensors import ended_runs
from lake_assets.orchestration.sensors.sync import sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.checks.check_runs import PARTITIONS, SALES, job, latest
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, SW, World, sales

POSITIVE = {"positive": "SELECT * FROM refreshed WHERE total <= 0", "some": "SELECT 1 WHERE false"}
POSITIVE_KEY = dg.AssetCheckKey(dg.AssetKey("sales"), "positive")
SALES_KEY = dg.AssetKey("sales")
PARTITIONED = ("last_run", "row_counts", "landing_zone", "indexed_objects", "positive")
KEYS = ("2026-02-11|NW", "2026-02-11|SW")


@pytest.fixture
def ticks(local_world: World, instance: dg.DagsterInstance) -> Ticks:
    """The sensor, of which the first tick was: from then on it looks at the runs that end."""
    local_world.options = {"mode": "index", "partitions": PARTITIONS, "checks": {"sql": POSITIVE}}
    ticks = Ticks(local_world, instance, sensor="test_checks")
    tick(ticks)
    return ticks


def tick(ticks: Ticks) -> str:
    """One tick, as the daemon makes it; returns what it says."""
    result = ticks.evaluate()
    ticks.cursor = result.cursor
    return result.skip_message or ""


def job_of(ticks: Ticks) -> dg.JobDefinition:
    return job(ticks.definitions(), SALES)


def materialize(ticks: Ticks, *keys: str, **options: Any) -> dg.ExecuteInProcessResult:
    config = {"ops": {"sales": {"config": options}}}
    of_keys: dict[str, Any] = {"partition_key": keys[0]} if len(keys) == 1 else {"tags": _tags(keys)}
    return job_of(ticks).execute_in_process(config, instance=ticks.instance, raise_on_error=False, **of_keys)


def queued(ticks: Ticks, *keys: str) -> dg.DagsterRun:
    """A run that is made and not begun."""
    return ticks.instance.create_run_for_job(job_of(ticks), tags=_tags(keys))


def cancel(ticks: Ticks, run: dg.DagsterRun) -> None:
    """As Dagster does with a run in the queue, and with one that is terminated by force."""
    ticks.instance.report_run_canceled(run)


def _tags(keys: tuple[str, ...]) -> dict[str, str]:
    return {"dagster/partition": keys[0]} if len(keys) == 1 else {RANGE_START: keys[0], RANGE_END: keys[-1]}


def shown(ticks: Ticks, name: str) -> dict[str | None, str]:
    """The state of each partition by a check's newest result; under None, what Dagster's overview shows."""
    key, storage = dg.AssetCheckKey(SALES_KEY, name), ticks.instance.event_log_storage
    newest = storage.get_latest_asset_check_execution_by_key([key]).get(key)
    return latest(ticks.instance, name) | {None: newest.status.value if newest else ""}


def resolved(ticks: Ticks, name: str) -> dict[str, str | None]:
    """The status of each partition as Dagster's checks list shows it; None if it shows none."""
    key = dg.AssetCheckKey(SALES_KEY, name)
    graph = ticks.definitions().get_repository_def().asset_graph
    state = ticks.instance.event_log_storage.get_asset_check_state([(key, graph.get(key).partitions_def)])[key]
    found = {
        partition: status.value
        for status, subset in state.subsets.items()
        for partition in subset.subset_value.get_partition_keys()
    }
    return {partition: found.get(partition) for partition in KEYS}


def names(ticks: Ticks) -> list[str]:
    return [key.name for key in ticks.definitions().get_repository_def().asset_graph.asset_check_keys]


def all_shown(ticks: Ticks) -> dict[str, dict[str | None, str]]:
    return {name: shown(ticks, name) for name in names(ticks)}


def killed(ticks: Ticks, run: dg.DagsterRun) -> None:
    ticks.instance.report_run_failed(run, "the run's process died")


@pytest.mark.more
@pytest.mark.parametrize("end", [cancel, killed])
def test_a_run_that_ended_before_it_began_leaves_all_checks_as_they_were(
    ticks: Ticks, end: Callable[[Ticks, dg.DagsterRun], None]
) -> None:
    ticks.world.land(NW, sales(-1))
    ticks.world.land(SW, sales(1))
    first = materialize(ticks, *KEYS)
    before = all_shown(ticks)
    run = queued(ticks, *KEYS)
    end(ticks, run)
    ended = all_shown(ticks)

    message = tick(ticks)

    after = all_shown(ticks)
    assert {status for of_check in ended.values() for status in of_check.values()} == {"PLANNED"}
    assert after == before
    assert after["positive"] == {KEYS[0]: "FAILED", KEYS[1]: "SUCCEEDED", None: "FAILED"}
    assert message.startswith("1 run cancelled or failed")
    key = dg.AssetCheckKey(SALES_KEY, "no_null_partition")
    (record,) = ticks.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert record.evaluation is not None
    assert record.evaluation.metadata["result_of_run"].value == first.run_id
    assert record.run_id == run.run_id  # in the place that was planned for it: a newer run's result is newer
    assert "; 0 results" in tick(ticks)


def test_checks_that_were_never_made_stay_skipped(ticks: Ticks) -> None:
    cancel(ticks, queued(ticks, *KEYS))

    assert "; 0 results" in tick(ticks)

    assert {status for name in names(ticks) for status in shown(ticks, name).values()} == {"PLANNED"}


def with_one_bad_object(ticks: Ticks) -> None:
    """The first run of two partitions, of which one fails and has no result of before; then its object is replaced."""
    ticks.world.land(NW, sales(1))
    ticks.world.land(SW, b"no Parquet")
    assert not materialize(ticks, *KEYS).success
    tick(ticks)
    ticks.world.land(SW, sales(2))


@pytest.mark.more
def test_a_partition_that_failed_and_is_then_committed_by_the_command_line_fails_no_check(ticks: Ticks) -> None:
    with_one_bad_object(ticks)
    ticks.world.ingest(SW)
    sync_stream(specs_of(ticks.world.stream), ticks.instance)
    tick(ticks)

    statuses = {name: resolved(ticks, name)[KEYS[1]] for name in PARTITIONED}

    assert set(statuses.values()) == {"SUCCEEDED"}  # checked by the sync
    assert materialize(ticks, KEYS[0]).success
    assert {shown(ticks, name)[None] for name in names(ticks)} == {"SUCCEEDED"}


@pytest.mark.more
def test_a_partition_that_failed_and_is_then_committed_by_a_run_from_before_fails_no_check(ticks: Ticks) -> None:
    older = queued(ticks, KEYS[1])
    with_one_bad_object(ticks)
    assert execute_run(InMemoryJob(job_of(ticks)), older, ticks.instance).success
    tick(ticks)

    statuses = {name: resolved(ticks, name)[KEYS[1]] for name in PARTITIONED}

    assert statuses["row_counts"] == statuses["positive"] == "SUCCEEDED"
    assert not {"FAILED", "EXECUTION_FAILED"}.intersection(map(str, statuses.values()))
    assert {shown(ticks, name)[None] for name in names(ticks)} == {"SUCCEEDED"}


@pytest.mark.more
def test_a_check_that_could_not_be_made_is_shown_as_that(ticks: Ticks) -> None:
    ticks.world.land(NW, sales(1))
    materialize(ticks, KEYS[0])
    ticks.world.options["checks"] = {"sql": {"positive": "SELECT totl FROM refreshed"}}
    assert not materialize(ticks, KEYS[0]).success

    tick(ticks)

    assert shown(ticks, "positive")[KEYS[0]] == "PLANNED"  # of a run that failed: Dagster says "execution failed"


@pytest.mark.more
def test_a_run_that_is_under_way_has_the_last_word(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_runs, "OVERLAP", dt.timedelta())
    ticks.world.land(NW, sales(1))
    materialize(ticks, KEYS[0])
    running, second = queued(ticks, KEYS[0]), queued(ticks, KEYS[0])
    cancel(ticks, second)
    tick(ticks)
    in_between = shown(ticks, "positive")[KEYS[0]]
    (record,) = ticks.instance.event_log_storage.get_asset_check_execution_history(
        POSITIVE_KEY, 1, status={Status.SUCCEEDED}, partition_filter=PartitionKeyFilter(key=KEYS[0])
    )
    assert record.evaluation is not None
    result = replace(record.evaluation, passed=False)
    ticks.instance.report_dagster_event(
        dg.DagsterEvent("ASSET_CHECK_EVALUATION", "__ASSET_JOB", event_specific_data=result), running.run_id
    )
    ticks.instance.report_run_failed(running)

    tick(ticks)

    assert in_between == "PLANNED"
    assert shown(ticks, "positive") == {KEYS[0]: "FAILED", None: "FAILED"}


@pytest.mark.more
def test_a_newer_run_is_not_hidden(ticks: Ticks) -> None:
    ticks.world.land(NW, sales(1))
    materialize(ticks, KEYS[0])
    first = queued(ticks, KEYS[0])
    ticks.world.land(NW, sales(-1), "b.parquet")
    materialize(ticks, KEYS[0])
    cancel(ticks, first)

    tick(ticks)

    assert shown(ticks, "positive") == {KEYS[0]: "FAILED", None: "FAILED"}


@pytest.mark.more
def test_many_results_are_repeated_by_several_ticks(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_runs, "RESULTS", 3)
    monkeypatch.setattr(ended_runs, "OVERLAP", dt.timedelta())  # or the next tick would look at this run in any case
    for text in (NW, SW):
        ticks.world.land(text, sales(1))
    materialize(ticks, *KEYS)
    cancel(ticks, queued(ticks, *KEYS))

    messages = [tick(ticks) for _ in range(8)]

    assert "; 3 results" in messages[0]
    assert messages[-1] == "No cancelled or failed runs."
    assert {status for name in names(ticks) for status in shown(ticks, name).values()} == {"SUCCEEDED"}


@pytest.mark.more
def test_a_run_that_passed_all_over_leaves_the_checks_of_the_table_as_they_were(ticks: Ticks) -> None:
    ticks.world.land(NW, sales(-1))
    materialize(ticks, KEYS[0])
    before = {name: shown(ticks, name)[None] for name in names(ticks)}

    result = materialize(ticks, "2026-02-12|NW", "2026-02-12|SW", landed_only=True)

    assert result.success
    assert {name: shown(ticks, name)[None] for name in names(ticks)} == before
    assert shown(ticks, "positive")[KEYS[0]] == "FAILED"


@pytest.mark.more
@pytest.mark.parametrize(
    "landed",
    [pytest.param(sales(1), id="committed"), pytest.param(b"no Parquet", id="failed", marks=pytest.mark.more)],
)
def test_partitions_that_the_config_leaves_out_have_no_checks_that_look_skipped(
    ticks: Ticks, landed: pa.Table | bytes
) -> None:
    ticks.world.land(NW, landed)
    ticks.world.land(SW, sales(1))

    materialize(ticks, *KEYS, partitions=["region=NW"])

    assert {key for name in PARTITIONED for key in shown(ticks, name)} == {KEYS[0], None}


@pytest.mark.more
def test_a_run_that_is_terminated_repeats_what_it_did_not_check(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks.world.land(NW, sales(-1))
    ticks.world.land(SW, sales(1))
    materialize(ticks, *KEYS)
    before = all_shown(ticks)
    ticks.world.land(NW, sales(2), "b.parquet")
    monkeypatch.setattr("lake_assets.ingest.index.index_run.IndexRun.register", interrupted)

    assert not materialize(ticks, KEYS[0]).success

    assert [row.status for row in ticks.world.ledger()].count("cancelled") == 1
    after = all_shown(ticks)
    # What had begun is known not to be in the lake; of all else the results from before hold.
    assert after.pop("last_run") == {KEYS[0]: "FAILED", KEYS[1]: "SUCCEEDED", None: "FAILED"}
    assert after == {name: of_check for name, of_check in before.items() if name != "last_run"}


@pytest.mark.more
def test_of_a_run_that_is_terminated_in_its_second_transaction_the_first_is_not_called_checked(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (NW, SW):
        ticks.world.land(text, sales(1))
    materialize(ticks, *KEYS)
    for text in (NW, SW):
        ticks.world.land(text, sales(2), "b.parquet")
    monkeypatch.setattr("lake_assets.ingest.index.index_run.FILES", 1)
    interrupt_second(monkeypatch)
    assert not materialize(ticks, *KEYS).success

    tick(ticks)

    assert ticks.world.totals() == [1, 1, 2]
    assert [row.status for row in ticks.world.ledger()] == ["cancelled", "committed", "committed", "committed"]
    assert shown(ticks, "row_counts") == {KEYS[0]: "PLANNED", KEYS[1]: "SUCCEEDED", None: "SUCCEEDED"}


def interrupt_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminate the run when its second transaction begins."""
    register, begun = IndexRun.register, [0]

    def second(*arguments: Any) -> None:
        begun[0] += 1
        interrupted() if begun[0] == 2 else register(*arguments)

    monkeypatch.setattr(IndexRun, "register", second)


@pytest.mark.more
def test_checks_that_are_terminated_repeat_what_was_left(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks.world.land(NW, sales(-1))
    materialize(ticks, KEYS[0])
    before = all_shown(ticks)
    monkeypatch.setattr("lake_assets.checks.check_run.CheckRun.result", interrupted)

    assert not materialize(ticks, KEYS[0]).success

    assert all_shown(ticks) == before


def interrupted(*_: object) -> NoReturn:
    raise dg.DagsterExecutionInterruptedError


def test_only_checks_of_partitions_are_partitioned(ticks: Ticks) -> None:
    graph = ticks.definitions().get_repository_def().asset_graph
    partitioned = {key.name for key in graph.asset_check_keys if graph.get(key).partitions_def is not None}

    assert partitioned == set(PARTITIONED)
