"""The job `ingest_<stream>`, which the launchpad launches with a selection; and runs of a release group."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from lake_assets.api import open_stream
from lake_assets.base.errors import StorageUnreachableError
from lake_assets.ingest.ingest_all import ingest_all as really
from lake_assets.ingest.outcome import Outcome
from lake_assets.orchestration import event_log, stream_run
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.sensors.sync import sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.ingest.test_release import NAMES, Group, group_in
from lake_assets_tests.orchestration.in_process import failure_of
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

KEY = dg.AssetKey("sales")
NW_KEY, SW_KEY = "2026-02-11|NW", "2026-02-11|SW"
TWELFTH = "region=NW,date=2026-02-12"


@pytest.fixture
def landed(local_world: World) -> World:
    """A world with three landed partitions, of which one is in the lake; it needs no Spark."""
    local_world.options |= {"mode": "index"}
    for text in (NW, SW, TWELFTH):
        local_world.land(text, sales(1, 2))
    local_world.ingest(NW)
    return local_world


def run(world: World, instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_definitions(world.config).resolve_job_def("ingest_sales")
    options = {"ops": {"ingest_partitions_of_sales": {"config": config}}} if config else None
    return job.execute_in_process(options, instance=instance, raise_on_error=False)


def keys(result: dg.ExecuteInProcessResult) -> list[str | None]:
    return [event.partition for event in result.get_asset_materialization_events()]


def test_without_a_selection_the_waiting_partitions_are_ingested_each_with_its_event(
    landed: World, instance: dg.DagsterInstance
) -> None:
    result = run(landed, instance)

    assert result.success
    assert sorted(map(str, keys(result))) == ["2026-02-11|SW", "2026-02-12|NW"]
    assert len(landed.totals()) == 6
    (row,) = landed.ledger(SW)
    assert (row.run_id, row.requested_by) == (result.run_id, "Dagster")
    definition = build_definitions(landed.config).resolve_assets_def(KEY).partitions_def
    statuses = instance.get_status_by_partition(KEY, [SW_KEY], definition) or {}  # type: ignore[arg-type]
    assert [status and status.value for status in statuses.values()] == ["MATERIALIZED"]
    assert instance.get_dynamic_partitions("sales_region") == ["NW", "SW"]
    (event,) = [event for event in result.get_asset_materialization_events() if event.partition == SW_KEY]
    assert event.materialization.metadata["rows"].value == 2
    assert run(landed, instance).get_asset_materialization_events() == []


@pytest.mark.more
@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"partitions": ["region=NW,date=2026-02"]}, [NW_KEY, "2026-02-12|NW"]),
        ({"partitions": ["region=NW,date=2026-02"], "waiting": True}, ["2026-02-12|NW"]),
        ({"all": True, "max": 2}, [NW_KEY, "2026-02-12|NW"]),
        ({"partitions": [NW, SW]}, [NW_KEY, SW_KEY]),
        ({"failed": True}, []),
    ],
)
def test_the_run_config_selects_as_the_command_line_does(
    landed: World, instance: dg.DagsterInstance, config: dict[str, Any], found: list[str]
) -> None:
    result = run(landed, instance, **config)

    assert result.success
    assert sorted(map(str, keys(result))) == sorted(found)


@pytest.mark.more
def test_a_failed_partition_is_an_observation_and_stops_no_other(landed: World, instance: dg.DagsterInstance) -> None:
    landed.land(SW, b"no Parquet", "bad.parquet")

    result = run(landed, instance, partitions=["date=2026-02-11"])

    assert "bad.parquet" in failure_of(result)
    assert keys(result) == [NW_KEY]
    (observed,) = [event for event in result.get_asset_observation_events() if event.asset_key == KEY]
    assert observed.asset_observation_data.asset_observation.partition == SW_KEY
    assert observed.asset_observation_data.asset_observation.metadata["error"]
    checked = {e.partition: e.passed for e in result.get_asset_check_evaluations() if e.check_name == "last_run"}
    assert checked == {NW_KEY: True, SW_KEY: False, None: False}
    again = run(landed, instance, failed=True)
    assert "bad.parquet" in failure_of(again)
    assert keys(again) == []


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"partitions": ["area=NW"]}, "area"),
        *more(
            [
                ({"partitions": ["region=NW,date=2025-12-31"]}, "2025-12-31"),
                ({"all": True, "waiting": True}, "every partition"),
            ]
        ),
    ],
)
def test_a_wrong_selection_is_one_sentence(
    landed: World, instance: dg.DagsterInstance, config: dict[str, Any], text: str
) -> None:
    assert text in failure_of(run(landed, instance, **config))


@pytest.mark.more
def test_the_run_is_tried_again_as_one_of_the_asset_is(
    landed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "RETRY_SECONDS", 0)
    lost = iter([StorageUnreachableError("the bucket does not answer:", "wait.")])

    def ingest_all(*arguments: Any, **options: Any) -> Iterator[Outcome]:
        for outcome in really(*arguments, **options):
            failed = replace(outcome, row=replace(outcome.row, status="failed"), error=next(lost, None))
            yield outcome if failed.error is None else failed

    monkeypatch.setattr(stream_run, "ingest_all", ingest_all)

    result = run(landed, instance, partitions=[NW, SW])

    assert result.success
    (retried,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]
    assert retried.step_key == "ingest_partitions_of_sales"
    assert sorted(map(str, keys(result))) == [NW_KEY, SW_KEY]


def test_an_interrupted_run_has_the_events_of_what_had_ended(
    landed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ingest_all(*arguments: Any, **options: Any) -> Iterator[Outcome]:
        for number, outcome in enumerate(really(*arguments, **options)):
            if number:
                raise dg.DagsterExecutionInterruptedError
            yield outcome

    monkeypatch.setattr(stream_run, "ingest_all", ingest_all)

    result = run(landed, instance, partitions=[NW, SW])

    assert not result.success
    assert len(keys(result)) == 1


@pytest.fixture
def group(local_world: World) -> Group:
    return group_in(local_world)


@pytest.mark.more
def test_the_other_streams_are_reported_by_the_sync_after_the_run(group: Group, instance: dg.DagsterInstance) -> None:
    def materialize() -> Any:
        job = build_definitions(group.world.config).resolve_implicit_global_asset_job_def()
        instance.add_dynamic_partitions("sales_region", ["NW"])
        return job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("sales")], partition_key=NW_KEY)

    group.land("sales", NW, sales(1))
    group.land("stock", NW, sales(3))
    waiting = materialize()
    assert waiting.success
    assert instance.fetch_materializations(dg.AssetKey("sales"), limit=5).records == []

    group.land("returns", NW, sales(2))
    assert materialize().success
    reported = {name: sync_stream(specs_of(open_stream(group.world.config, name)), instance) for name in NAMES}

    assert {name: list(synced.reported) for name, synced in reported.items()} == {
        "sales": [],
        "returns": [NW_KEY],
        "stock": [NW_KEY],
    }
    snapshots = set()
    for name in NAMES:
        (record,) = instance.fetch_materializations(dg.AssetKey(name), limit=5).records
        assert record.asset_materialization is not None
        snapshots.add(record.asset_materialization.metadata["snapshot"].value)
    assert len(snapshots) == 1
