"""A run of one stream of a release group, in Dagster: its own events, and those of the other streams."""

from typing import Any

import dagster as dg
import pytest

from lake_assets.api.stream import open_stream
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.sensors.sync import sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.ingest.test_release import NAMES, Group, group_in
from lake_assets_tests.world import NW, World, sales

KEY = "2026-02-11|NW"


@pytest.fixture
def group(local_world: World) -> Group:
    return group_in(local_world)


def test_the_other_streams_are_reported_by_the_sync_after_the_run(group: Group, instance: dg.DagsterInstance) -> None:
    def materialize() -> Any:
        job = build_definitions(group.world.config).resolve_implicit_global_asset_job_def()
        instance.add_dynamic_partitions("sales_region", ["NW"])
        return job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("sales")], partition_key=KEY)

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
        "returns": [KEY],
        "stock": [KEY],
    }
    snapshots = set()
    for name in NAMES:
        (record,) = instance.fetch_materializations(dg.AssetKey(name), limit=5).records
        assert record.asset_materialization is not None
        snapshots.add(record.asset_materialization.metadata["snapshot"].value)
    assert len(snapshots) == 1
