"""The landing zone as an asset: what waits is observed, and automation refreshes just that."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.base.errors import StorageUnreachableError
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import Outcome
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.event_log import RETRIES
from lake_assets.orchestration.metadata import newest_landing_scan
from lake_assets.orchestration.partition_keys import dynamic_name
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets_tests.orchestration.in_process import failing_once, logged
from lake_assets_tests.orchestration.test_queued_runs import add
from lake_assets_tests.world import NW, SW, World, sales

DATES = {"date": {"type": "date", "start": "2026-02-01"}}
OLD = "region=NW,date=2026-02-01"


class Automated:
    """The world's stream with automation, under a Dagster instance of its own."""

    def __init__(self, world: World, instance: dg.DagsterInstance, **automation: Any) -> None:
        world.options = {
            "partitions": {"region": {"values": ["NW", "SW"]}} | DATES,
            "automation": {"cron": "*/5 * * * *", **automation},
        } | world.options
        world.sections = {"orchestration": {"report_asset": True}}
        self.instance = instance
        self.definitions = build_definitions(world.config, pyspark_resource(world.config.spark))
        self.cursor: Any = None
        self.whole: Any = None  # of the landing zone, when it was last observed

    def observe(self) -> dict[str, str]:
        """Observe the landing zone; returns the versions of partitions that are told."""
        result = self.definitions.resolve_job_def("observe_sales").execute_in_process(instance=self.instance)
        assert result.success
        values = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
        self.whole = next(item for item in values if item.partition is None)
        return {obj.partition: obj.tags["dagster/data_version"] for obj in values if obj.partition is not None}

    def requested(self) -> set[str]:
        """The partitions that Dagster's automation asks for now."""
        evaluated = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)
        self.cursor = evaluated.cursor
        return {str(key) for key in evaluated.get_requested_partitions(dg.AssetKey("sales"))}

    def ran(self, key: str) -> bool:
        """Launch the run of a partition; returns whether it succeeded."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        selection = [dg.AssetKey("sales")]
        return job.execute_in_process(
            partition_key=key, asset_selection=selection, instance=self.instance, raise_on_error=False
        ).success

    def materialize(self, key: str | None, asset: str = "sales") -> Any:
        """Materialize a partition; returns the metadata that the UI shows with its newest event."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(
            partition_key=key, asset_selection=[dg.AssetKey(asset)], instance=self.instance
        ).success
        records = [
            *self.instance.fetch_materializations(dg.AssetKey(asset), limit=1).records,
            *self.instance.fetch_observations(dg.AssetKey(asset), limit=1).records,
        ]
        newest = max(records, key=lambda record: record.storage_id)
        event = newest.asset_materialization or newest.asset_observation
        assert event is not None
        return event.metadata


def test_a_landing_zone_with_nothing_new_is_observed_too(local_world: World, instance: dg.DagsterInstance) -> None:
    automated = Automated(local_world, instance)
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    assert automated.requested() == set()

    versions = []
    for _ in range(2):
        assert automated.observe() == {}
        assert automated.whole is not None
        assert automated.whole.metadata["partitions_landed"].value == 1
        assert automated.whole.metadata["partitions_waiting"].value == 0
        versions.append(automated.whole.tags["dagster/data_version"])
        assert automated.requested() == set()
    local_world.land(SW, sales(2))
    assert automated.observe().keys() == {"2026-02-11|SW"}
    versions.append(automated.whole.tags["dagster/data_version"])

    assert versions[0] == versions[1] != versions[2]
    landing = dg.AssetKey("sales_landing")
    assert automated.instance.fetch_observations(landing, limit=1).records


@pytest.mark.more
def test_a_materialization_says_what_the_newest_scan_found_in_no_partition(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    automated = Automated(local_world, instance)
    placed = Path(local_world.land(NW, sales(1)))
    local_world.land(SW, sales(2))
    strays = [placed.parents[2] / f"region=NW/day={day}/a.parquet" for day in range(6)]
    for stray in strays:
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"")

    never = automated.materialize("2026-02-11|NW")
    assert automated.observe().keys() == {"2026-02-11|SW"}  # told after what is of the whole landing zone
    observed = automated.materialize("2026-02-11|SW")
    for stray in strays[1:]:
        stray.unlink()
    automated.materialize(None, "sales_report")
    reported = automated.materialize("2026-02-11|SW")
    strays[0].unlink()
    automated.observe()
    cleared = automated.materialize("2026-02-11|NW")

    assert not never.keys() & {"objects_in_no_partition", "in_no_partition", "landing_zone_looked_at"}
    assert observed["objects_in_no_partition"].value == 6
    lines = observed["in_no_partition"].value.split("\n")
    assert len(lines) == 5
    assert lines[0].startswith("- region=NW/day=0/ (1 object): the path is not of the layout")
    assert lines[0].endswith(": move the object, or correct \\`layout\\`.")
    assert lines[-1] == "- and more: observe `sales_landing`, which names them"
    assert reported["objects_in_no_partition"].value == 1
    assert len(reported["in_no_partition"].value.split("\n")) == 1
    assert cleared["objects_in_no_partition"].value == 0
    assert "in_no_partition" not in cleared
    times = [item["landing_zone_looked_at"].value for item in (observed, reported, cleared)]
    of_run, scan = automated.instance.fetch_observations(dg.AssetKey("sales_landing"), limit=2).records
    assert sorted(times) == times
    assert times[-1] == scan.timestamp
    assert of_run.asset_observation is not None
    assert of_run.asset_observation.metadata["landing_zone_looked_at"].value == scan.timestamp
    assert of_run.asset_observation.metadata["objects_read"].value == 1


@pytest.mark.more
def test_a_run_repeats_the_scan_that_ended_during_it(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    automated = Automated(local_world, instance)
    landing, report = dg.AssetKey("sales_landing"), dg.AssetKey("sales_report")
    stray = Path(local_world.land(NW, sales(1))).parents[2] / "region=NW/day=1/a.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"")

    def scanned_before(*arguments: Any) -> Iterator[Outcome]:
        automated.observe()
        return ingest_all(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("lake_assets.orchestration.stream_run.ingest_all", scanned_before)
        first = automated.materialize("2026-02-11|NW")
        stray.unlink()
        local_world.land(NW, sales(2), "b.parquet")
        second = automated.materialize("2026-02-11|NW")

    assert [run["objects_in_no_partition"].value for run in (first, second)] == [1, 0]
    of_runs = [record.asset_observation for record in automated.instance.fetch_observations(landing, limit=9).records]
    counts = [
        event.metadata["objects_in_no_partition"].value
        for event in of_runs
        if event is not None and not event.partition
    ]
    assert counts == [0, 0, 1, 1]
    unscanned = dg.AssetObservation(landing, metadata={"partitions_read": 1})
    automated.instance.report_runless_asset_event(unscanned)
    assert newest_landing_scan(automated.instance, landing, report)["objects_in_no_partition"].value == 0


@pytest.mark.more
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_automation_refreshes_partitions_of_any_age(
    local_world: World, instance: dg.DagsterInstance, mode: str
) -> None:
    local_world.options = {"mode": mode}
    automated = Automated(local_world, instance)
    local_world.land(NW, sales(1))
    local_world.land(OLD, sales(2))
    assert automated.requested() == set()

    assert set(automated.observe()) == {"2026-02-11|NW", "2026-02-01|NW"}
    assert automated.requested() == {"2026-02-11|NW", "2026-02-01|NW"}
    for key in ("2026-02-11|NW", "2026-02-01|NW"):
        automated.materialize(key)
    assert local_world.totals() == [1, 2]

    assert automated.observe() == {}
    assert automated.requested() == set()
    local_world.land(OLD, sales(3), "late.parquet")
    assert set(automated.observe()) == {"2026-02-01|NW"}
    assert automated.requested() == {"2026-02-01|NW"}
    automated.materialize("2026-02-01|NW")
    assert local_world.totals() == [1, 2, 3]
    assert automated.observe() == {}  # with append, the landed objects are those of the newest addition
    local_world.unland(OLD, "late.parquet")
    automated.observe()
    for key in automated.requested():
        automated.materialize(key)
    assert automated.observe() == {}
    assert local_world.totals() == ([1, 2] if mode == "replace" else [1, 2, 3])


@pytest.mark.more
def test_objects_that_land_at_the_end_of_a_run_are_requested(local_world: World, instance: dg.DagsterInstance) -> None:
    automated = Automated(local_world, instance)
    automated.requested()
    local_world.land(NW, sales(1))
    automated.observe()
    assert automated.requested() == {"2026-02-11|NW"}
    local_world.ingest(NW)  # as the run does, of which Dagster hears when all of its partitions are done
    local_world.land(NW, sales(2), "late.parquet")
    automated.observe()
    automated.instance.report_runless_asset_event(dg.AssetMaterialization("sales", partition="2026-02-11|NW"))

    assert automated.requested() == {"2026-02-11|NW"}
    assert automated.requested() == set()


def test_a_partition_that_fails_is_not_requested_again_until_it_changes(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    automated = Automated(local_world, instance)
    automated.requested()
    local_world.land(NW, b"no Parquet")
    before = automated.observe()
    assert automated.requested() == {"2026-02-11|NW"}

    assert automated.observe() == before
    assert automated.requested() == set()
    local_world.land(NW, b"no Parquet either")
    automated.observe()
    assert automated.requested() == {"2026-02-11|NW"}


def test_a_partition_whose_run_was_lost_is_requested_again(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.streams.pending.FIRST", 0.0)
    automated, key = Automated(local_world, instance), "2026-02-11|NW"
    automated.requested()
    local_world.land(NW, sales(1))
    first = automated.observe()
    assert automated.requested() == {key}
    run = add(instance, "__ASSET_JOB", {"dagster/partition": key}, asset_selection=frozenset({dg.AssetKey("sales")}))
    assert automated.observe() == first  # it is queued

    instance.report_run_failed(run)  # Dagster has dropped it

    again = automated.observe()
    assert again == {key: f"{first[key]} after run {run.run_id}"}
    assert automated.requested() == {key}
    assert automated.observe() == again
    assert automated.requested() == set()
    automated.materialize(key)
    assert automated.observe() == {}


def test_automation_follows_what_passes_after_a_pause_and_what_is_of_the_objects_when_these_change(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    automated, key = Automated(local_world, instance), "2026-02-11|NW"
    automated.requested()
    local_world.land(NW, b"no Parquet")
    automated.observe()
    assert automated.requested() == {key}
    assert not automated.ran(key)
    assert automated.observe() == {}
    local_world.land(NW, sales(1))
    automated.observe()
    assert automated.requested() == {key}
    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0)
    failing_once(StorageUnreachableError("the storage is away:", "wait."), monkeypatch, times=RETRIES + 1)
    assert not automated.ran(key)
    assert automated.observe() == {}  # during the pause
    assert "1 partition failed: requested again after their pause, or when their objects change" in logged(instance)
    assert automated.requested() == set()

    monkeypatch.setattr("lake_assets.streams.pending.FIRST", 0.0)
    assert set(automated.observe()) == {key}

    assert automated.requested() == {key}
    assert automated.ran(key)
    assert automated.observe() == {}
    assert local_world.totals() == [1]


def test_new_values_of_a_discovered_column_become_partitions_and_a_future_one_is_logged(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options = {"partitions": {"region": {}} | DATES}
    automated = Automated(local_world, instance)
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(1))
    for other in ("region=SW,date=2025-12-31", "region=XX,date=2025-12-31", "region=NW,date=2999-01-01"):
        local_world.land(other, sales(1))

    assert set(automated.observe()) == {"2026-02-11|NW", "2026-02-11|SW"}  # and two are before the start
    assert "date=2999-01-01 is in the future. It is ingested when its time has come." in logged(instance)
    assert set(automated.instance.get_dynamic_partitions(dynamic_name("sales", "region"))) == {"NW", "SW"}


def test_a_lookback_lists_only_the_newest_partitions(
    local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> "Clock":
            return cls(2026, 2, 11, 12, tzinfo=tz)

    monkeypatch.setattr("lake_assets.orchestration.assets.landing_asset.dt.datetime", Clock)
    automated = Automated(local_world, instance, lookback=1)
    local_world.land(NW, sales(1))
    local_world.land("region=SW,date=2026-02-10", sales(1))
    local_world.land(OLD, sales(1))
    assert set(automated.observe()) == {"2026-02-11|NW", "2026-02-10|SW"}
    # The other folders were not listed.
    assert "objects_in_no_partition" not in automated.whole.metadata
    assert newest_landing_scan(automated.instance, dg.AssetKey("sales_landing"), dg.AssetKey("sales_report")) == {}
