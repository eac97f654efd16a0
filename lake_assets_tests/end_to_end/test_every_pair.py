"""The life of a stream on every pair of catalog and storage: refreshed, checked, compacted, cleaned and read back."""

import datetime as dt

import pytest

from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import PAIRS

TIERS = {("postgres", "s3"): [], ("sqlite", "local"): [pytest.mark.more]}


@pytest.mark.journey
@pytest.mark.parametrize(
    "world", [pytest.param(pair, marks=TIERS.get(pair, [pytest.mark.soak])) for pair in PAIRS], indirect=True
)
def test_a_stream_is_refreshed_checked_compacted_and_cleaned(world: World) -> None:
    world.lake_options = {"maintenance": {"compact": 2}}
    for text in (NW, SW):
        world.commit(text, 1, 2)
    world.land(NW, sales(3), "batch_2.parquet")

    replaced = world.ingest(NW).row

    assert (replaced.status, replaced.rows_before, replaced.row_count) == ("committed", 2, 3)
    assert world.ingest(NW).row.status == "skipped"
    assert (world.totals(NW), world.totals(SW)) == ([1, 2, 3], [1, 2])
    results = [run_check(world.stream, name, Scope()) for name in checks_of(world.stream)]
    assert [result for result in results if not result.passed] == []
    partitions = read_stream_state(world.stream, dt.datetime.now(dt.UTC)).partitions
    assert [partition.state for partition in partitions if partition.objects] == ["committed", "committed"]

    world.execute(  # another client adds a file
        "INSERT INTO lake.sales SELECT * REPLACE (9 AS total) FROM lake.sales WHERE region = 'SW' LIMIT 1"
    )
    compacted, *_ = [world.tidy(days).compacted for days in (30, 60)]

    assert [(item.partition, item.files_before, item.files_after) for item in compacted] == [
        (world.partition(SW), 2, 1)
    ]
    assert world.totals() == [1, 1, 2, 2, 3, 9]
    named = {uri.rpartition("/")[2] for uri in world.live_files()}
    assert {key.rpartition("/")[2] for key in world.data_files()} == named
    assert len(named) == 2
