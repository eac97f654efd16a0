"""The assets beside the streams': a report with its picture, and the ledger in the lineage."""

import base64
import io

import dagster as dg
from PIL import Image

from lake_assets.orchestration.assets.report_assets import IMAGE_BYTES, report_asset
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.report.states import commit_one_and_fail_one
from lake_assets_tests.world import NW, World, sales


def test_a_report_shows_counts_that_plot_and_a_picture(local_world: World) -> None:
    commit_one_and_fail_one(local_world)

    result = dg.materialize([report_asset(specs_of(local_world.stream))])

    (event,) = result.asset_materializations_for_node("sales_report")
    numbers = {name: value.value for name, value in event.metadata.items() if isinstance(value, dg.IntMetadataValue)}
    assert numbers["partitions_committed"] == 1
    assert numbers["partitions_failed"] == 1
    assert numbers["rows"] == 2
    picture = str(event.metadata["heat_map"].value)
    prefix = "![partitions](data:image/png;base64,"
    assert picture.startswith(prefix)
    png = base64.b64decode(picture.removeprefix(prefix).removesuffix(")"), validate=True)
    assert len(png) <= IMAGE_BYTES
    assert Image.open(io.BytesIO(png)).width > 600
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
