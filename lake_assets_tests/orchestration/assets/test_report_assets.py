"""The report, which Dagster makes again after each run of its stream, and the ledger in the lineage."""

from pathlib import Path

import dagster as dg
import pytest

from dev.servers.s3 import S3Server
from lake_assets.orchestration.assets.report_assets import report_asset
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.automation import Automation
from lake_assets_tests.upkeep.report.states import commit_one_and_fail_one
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on


@pytest.mark.more
def test_a_report_shows_counts_that_plot_and_what_failed(local_world: World) -> None:
    commit_one_and_fail_one(local_world)

    result = dg.materialize([report_asset(specs_of(local_world.stream))])

    (event,) = result.asset_materializations_for_node("sales_report")
    numbers = {name: value.value for name, value in event.metadata.items() if isinstance(value, dg.IntMetadataValue)}
    assert numbers["partitions_committed"] == 1
    assert numbers["partitions_failed"] == 1
    assert numbers["rows"] == 2
    assert "region=NW | 1 |" in str(event.metadata["summary"].value)
    assert r"region=SW/date=2026-02-11: SourceError: " in str(event.metadata["failed"].value)


def test_the_lineage_leads_from_a_landing_zone_by_its_stream_to_report_and_ledger(local_world: World) -> None:
    local_world.sections = {"orchestration": {"report_asset": True, "ledger_asset": True}}
    definitions = build_definitions(local_world.config)
    specs = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}

    for name in ("sales_report", "test_ledger"):
        assert [dep.asset_key.to_user_string() for dep in specs[name].deps] == ["sales"]
    assert specs["test_ledger"].metadata["dagster/table_name"] == "main.ingest_runs"
    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey("sales")).parent_keys == {dg.AssetKey("sales_landing")}
    assert graph.get(dg.AssetKey("sales_landing")).is_observable
    assert graph.get(dg.AssetKey("test_ledger")).is_observable
    assert not graph.get(dg.AssetKey("test_ledger")).is_materializable


def test_observing_the_ledger_shows_its_newest_rows(local_world: World) -> None:
    local_world.sections = {"orchestration": {"ledger_asset": True}}
    observe_it = dg.define_asset_job("observe_it", selection=["test_ledger"])
    definitions = dg.Definitions.merge(build_definitions(local_world.config), dg.Definitions(jobs=[observe_it]))

    def observation() -> dg.AssetObservation:
        job = definitions.resolve_job_def("observe_it")
        (event,) = job.execute_in_process().get_asset_observation_events()
        return event.asset_observation_data.asset_observation

    before = observation()
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    local_world.ingest(NW)
    after = observation()

    assert before.metadata["rows"].value == 0
    assert {name: after.metadata[name].value for name in ("rows", "runs_committed", "runs_skipped", "runs_failed")} == {
        "rows": 2,
        "runs_committed": 1,
        "runs_skipped": 1,
        "runs_failed": 0,
    }
    newest = after.metadata["newest_rows"].value
    assert r"region=NW/date=2026-02-11 | skipped" in str(newest)
    assert before.data_version != after.data_version


SALES, REPORT = dg.AssetKey("sales"), dg.AssetKey("sales_report")
PARTITIONS = {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": "2026-02-11", "end": "2026-02-11"}}
NW_KEY, SW_KEY = "2026-02-11|NW", "2026-02-11|SW"


@pytest.fixture
def world(local_world: World, tmp_path: Path) -> World:
    local_world.options |= {"mode": "index", "partitions": PARTITIONS, "report": str(tmp_path / "reports")}
    return local_world


def run(world: World, instance: dg.DagsterInstance, *keys: str) -> bool:
    job = build_definitions(world.config).resolve_implicit_global_asset_job_def()
    tags = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
    done = job.execute_in_process(instance=instance, tags=tags, asset_selection=[SALES], raise_on_error=False)
    return done.success


def automation_of(world: World, instance: dg.DagsterInstance) -> Automation:
    return Automation(build_definitions(world.config), instance, REPORT)


@pytest.mark.more
def test_the_page_is_written_where_the_config_says_and_replaced(world: World, tmp_path: Path) -> None:
    file = tmp_path / "reports" / "sales.html"
    texts = []
    for total in (1, 2):
        world.land(NW, sales(*[0] * total), f"{total}.parquet")
        world.ingest(NW)
        (event,) = dg.materialize([report_asset(specs_of(world.stream))]).asset_materializations_for_node(
            "sales_report"
        )
        texts.append(file.read_text())

    assert event.metadata["page"].value == str(file)
    assert texts[0] != texts[1]
    assert "first 3 rows" in texts[1]


def test_a_run_is_followed_by_one_report_whether_it_succeeds_or_fails(
    world: World, instance: dg.DagsterInstance
) -> None:
    automation = automation_of(world, instance)
    assert automation.tick() == 0
    for region in ("NW", "SW"):
        world.land(f"region={region},date=2026-02-11", sales(1))
    assert run(world, instance, NW_KEY, SW_KEY)

    assert [automation.tick(), automation.tick()] == [1, 0]

    world.land(NW, b"no Parquet", "b.parquet")
    assert not run(world, instance, NW_KEY)

    assert [automation.tick(), automation.tick()] == [1, 0]


@pytest.mark.more
def test_the_report_is_not_requested_while_a_run_is_under_way(world: World, instance: dg.DagsterInstance) -> None:
    automation = automation_of(world, instance)
    world.land(NW, sales(1))
    assert run(world, instance, NW_KEY)
    job = build_definitions(world.config).resolve_implicit_global_asset_job_def().get_subset(asset_selection={SALES})
    other = instance.create_run_for_job(job, tags={"dagster/partition": SW_KEY})
    instance.report_run_canceling(other)

    assert automation.tick() == 0

    instance.report_run_canceled(other)
    assert automation.tick() == 1


def test_a_stream_without_a_page_has_no_automation_of_its_report(world: World) -> None:
    names = {sensor.name for sensor in build_definitions(world.config).sensors or ()}
    assert "sales_report_automation" in names
    del world.options["report"]
    world.sections = {"orchestration": {"report_asset": True}}

    definitions = build_definitions(world.config)

    assert "sales_report_automation" not in {sensor.name for sensor in definitions.sensors or ()}
    assert definitions.resolve_asset_graph().get(REPORT).automation_condition is None


@pytest.mark.more
def test_browsers_show_the_page_in_a_bucket(world: World, s3: S3Server) -> None:
    storage = bucket_on(s3)
    world.options["report"] = {"to": storage}
    world.land(NW, sales(1))

    dg.materialize([report_asset(specs_of(world.stream))])

    written = s3.client().head_object(Bucket=storage["bucket"], Key=f"{storage['prefix']}/sales.html")
    assert written["ContentType"] == "text/html; charset=utf-8"
