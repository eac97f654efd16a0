"""Fixtures of several files of this room."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.in_process import REGIONS, Materialize
from lake_assets_tests.orchestration.ticks import Ticks, ticks_of
from lake_assets_tests.world import World


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in files of its own, without a daemon."""
    with dg.DagsterInstance.local_temp() as instance:
        yield instance


@pytest.fixture
def materialize(local_world: World, request: pytest.FixtureRequest) -> Materialize:
    """Materializes partitions of the world's stream as Dagster's in-process executor does."""
    local_world.options |= REGIONS

    def run(*keys: str, spark: bool = True, **options: Any) -> dg.ExecuteInProcessResult:
        if spark:
            request.getfixturevalue("spark")
        if len(keys) == 1:
            options["partition_key"] = keys[0]
        else:
            first, last = keys
            options["tags"] = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        resources = {"pyspark": pyspark_resource(local_world.config.spark)}
        return dg.materialize([stream_asset(specs_of(local_world.stream))], resources=resources, **options)

    return run


@pytest.fixture
def ticks(local_world: World) -> Iterator[Ticks]:
    """Ticks of the sensor that lists the landing zone."""
    Path(local_world.source["path"]).mkdir()
    local_world.options["sensor"] = {"type": "objects"}
    with ticks_of(local_world) as ticks:
        yield ticks
